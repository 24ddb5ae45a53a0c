// The driver of upstream's worker-thread runtime.
//
// The budget of time is raised for slow machines; it does not change what a run costs.

import { functions, load, serve, versionOf } from "./serving.mjs";

const NAME = "@deepseek-ai/dsh-code-runtime-worker-thread";

const { Context } = await load("@deepseek-ai/cordis");
const { default: WorkerThreadCodeRuntime } = await load(NAME);
const ctx = new Context();
const fiber = await ctx.plugin(WorkerThreadCodeRuntime, { computeMs: 600_000 });
const bindings = [{ global: "tools", functions }];

await serve({
  about: {
    name: NAME,
    version: await versionOf(NAME),
    isolation: "a fresh worker thread in the host's own process",
    lacks: {},
  },
  async run(program) {
    const result = await ctx.codeRuntime.run({ program, bindings });
    if (result.error) throw new Error(`${result.error.kind}: ${result.error.message}`);
    return result;
  },
  close: () => fiber.dispose?.(),
});
