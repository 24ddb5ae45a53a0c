// The main thread of a bare Node process: boots one worker at a time, and ends it.
import net from "node:net";
import { Worker } from "node:worker_threads";

const control = new net.Socket({ fd: 3, readable: true, writable: true });
let worker;
control.on("data", (data) => {
  if (data.includes("boot")) {
    worker = new Worker(new URL("./worker.mjs", import.meta.url), {
      workerData: process.argv[2],
      env: {},
      trackUnmanagedFds: true,
    });
    worker.on("exit", () => control.write('"gone"\n'));
  } else {
    worker.terminate();
  }
});
control.on("close", () => process.exit(0));
