/** Run Python programs in CPython child processes from a Node host. */

export type { PythonConfig } from "./config.ts";
export {
  BindingNameError,
  CodeRuntimeError,
  ConfigError,
  LogObserverError,
  RequestError,
  RuntimeDisposedError,
} from "./errors.ts";
export { PythonCodeRuntime } from "./runtime.ts";
export type {
  BindingFunction,
  CodeBindingErrorClass,
  CodeBindingNamespace,
  CodeRunFailure,
  CodeRunRequest,
  CodeRunResult,
  FailureKind,
} from "./types.ts";
export type { JsonValue } from "./wire.ts";
