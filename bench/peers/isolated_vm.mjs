// The driver of isolated-vm: a fresh isolate for each run, values as JSON text.

import { functions, load, serve, versionOf } from "./serving.mjs";

const NAME = "isolated-vm";
const { default: ivm } = await load(NAME);

const PRELUDE = `
const tools = {};
for (const name of ["echo", "make", "take", "hold"]) {
  tools[name] = async (value) => JSON.parse(
    await __call.apply(undefined, [name, JSON.stringify(value)], { result: { promise: true } }),
  );
}
globalThis.tools = tools;
globalThis.console = { log: (...words) => __log(words.join(" ")) };
globalThis.performance = { now: () => __now() };
`;

const call = async (name, text) => JSON.stringify(await functions[name](JSON.parse(text)));

await serve({
  about: {
    name: NAME,
    version: await versionOf(NAME),
    isolation: "a fresh V8 isolate in the host's own process",
    lacks: {},
  },
  async run(program) {
    const isolate = new ivm.Isolate({ memoryLimit: 1_024 });
    try {
      const logs = [];
      const context = await isolate.createContext();
      const world = context.global;
      await world.set("__call", new ivm.Reference(call));
      await world.set("__log", new ivm.Callback((line) => void logs.push(line)));
      await world.set("__now", new ivm.Callback(() => performance.now()));
      await context.eval(PRELUDE);
      const text = await context.eval(`(async () => {${program}\n})().then(JSON.stringify)`, {
        promise: true,
        copy: true,
      });
      return { value: JSON.parse(text), logs };
    } finally {
      isolate.dispose();
    }
  },
});
