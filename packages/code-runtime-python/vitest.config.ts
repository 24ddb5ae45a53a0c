import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["node/test/**/*.test.ts"],
    testTimeout: 20_000,
    // Two cores: more workers only make process tests time out.
    maxWorkers: 2,
  },
});
