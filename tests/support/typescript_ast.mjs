// Prints the syntax trees of TypeScript files as one JSON array; `source_messages.py` starts it.

import { readFileSync } from "node:fs";
import { parseAst } from "rolldown/parseAst";

const trees = process.argv
  .slice(2)
  .map((path) => parseAst(readFileSync(path, "utf8"), { lang: "ts" }));
// A value that JSON lacks, such as a BigInt, is in no text.
process.stdout.write(
  JSON.stringify(trees, (_, value) => (typeof value === "bigint" ? null : value)),
);
