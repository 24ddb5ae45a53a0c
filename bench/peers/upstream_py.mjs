// The driver of upstream's CPython runtime: `node upstream_py.mjs PYTHON`.
//
// The budgets are raised to what the figures need; they do not change what a run costs.

import { functions, load, serve, versionOf } from "./serving.mjs";

const NAME = "@deepseek-ai/dsh-experimental-ptc-runtime-python";

const { Context } = await load("@deepseek-ai/cordis");
const { default: PythonPtcRuntime } = await load(NAME);
const ctx = new Context();
const fiber = await ctx.plugin(PythonPtcRuntime, {
  pythonBin: process.argv[2],
  cpuSeconds: 600,
  addressSpaceMb: 4_096,
  maxLogBytes: 8_388_608,
  maxValueBytes: 8_388_608,
});
const bindings = [{ global: "tools", functions }];

await serve({
  about: {
    name: NAME,
    version: await versionOf(NAME),
    isolation: "a fresh CPython process",
    lacks: {},
  },
  async run(program) {
    const runtime = ctx.ptcRuntime;
    const result = await runtime.run(runtime.resolve({ program, bindings }));
    if (result.error) throw new Error(`${result.error.kind}: ${result.error.message}`);
    return result;
  },
  close: () => fiber.dispose?.(),
});
