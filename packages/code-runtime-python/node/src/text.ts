/** Texts of errors and reasons that come from outside; none of these functions throws. */

/** Stands for the error of a binding that has no text. */
export const UNRENDERABLE_REJECTION = "<unrenderable binding error>";
/** Stands for an abort reason that has no text. */
export const UNRENDERABLE_REASON = "<unrenderable abort reason>";

/**
 * Turn what a binding threw into the message that the program sees.
 *
 * @param error - Anything.
 * @param placeholder - What to use when it has no text.
 * @returns The message of an Error, the string form of anything else.
 */
export function render(error: unknown, placeholder: string): string {
  try {
    // A template would throw for a symbol.
    return String(error instanceof Error ? error.message : error);
  } catch {
    return placeholder;
  }
}

/**
 * Shorten a text by its middle.
 *
 * @param text - Any string.
 * @param maxUnits - UTF-16 units of the result.
 * @returns The text, or its beginning and three dots.
 */
export function shorten(text: string, maxUnits: number): string {
  return text.length <= maxUnits ? text : `${text.slice(0, maxUnits - 3)}...`;
}
