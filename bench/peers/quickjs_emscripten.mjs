// The driver of quickjs-emscripten: a fresh runtime and context for each run, values as JSON text.

import { functions, load, serve, versionOf } from "./serving.mjs";

const NAME = "quickjs-emscripten";
const { getQuickJS } = await load(NAME);
const quick = await getQuickJS();

const PRELUDE = `
globalThis.tools = {};
for (const name of ["echo", "make", "take", "hold"]) {
  tools[name] = async (value) => JSON.parse(await __call(name, JSON.stringify(value)));
}
globalThis.console = { log: (...words) => __log(words.join(" ")) };
globalThis.performance = { now: () => __now() };
`;

function offer(vm, name, body) {
  vm.newFunction(name, body).consume((handle) => vm.setProp(vm.global, name, handle));
}

function call(vm, nameHandle, textHandle) {
  const name = vm.getString(nameHandle);
  const promise = vm.newPromise();
  functions[name](JSON.parse(vm.getString(textHandle))).then(
    (value) => vm.newString(JSON.stringify(value)).consume((text) => promise.resolve(text)),
    (error) => vm.newString(String(error)).consume((text) => promise.reject(text)),
  );
  promise.settled.then(() => vm.alive && vm.runtime.executePendingJobs());
  return promise.handle;
}

await serve({
  about: {
    name: NAME,
    version: await versionOf(NAME),
    isolation: "a fresh QuickJS runtime in one WebAssembly memory of the host's process",
    lacks: {},
  },
  async run(program) {
    const vm = quick.newContext();
    try {
      const logs = [];
      offer(vm, "__call", (name, text) => call(vm, name, text));
      offer(vm, "__log", (line) => void logs.push(vm.getString(line)));
      offer(vm, "__now", () => vm.newNumber(performance.now()));
      vm.unwrapResult(vm.evalCode(PRELUDE)).dispose();
      const source = `(async () => {${program}\n})().then(JSON.stringify)`;
      const handle = vm.unwrapResult(vm.evalCode(source));
      const settled = vm.resolvePromise(handle);
      handle.dispose();
      vm.runtime.executePendingJobs();
      const text = vm.unwrapResult(await settled).consume((value) => vm.getString(value));
      return { value: JSON.parse(text), logs };
    } finally {
      vm.dispose();
    }
  },
});
