// A bare worker: one program from a socket, its lines into a pipe, its calls and its value to the socket.
const fs = process.getBuiltinModule("fs");
const { workerData: path } = process.getBuiltinModule("worker_threads");
const logs = fs.openSync(`${path}-logs`, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK);
const sleeper = new Int32Array(new SharedArrayBuffer(4));
const buffer = Buffer.allocUnsafeSlow(65_536);
const calls = new Map();
let last = 0;
let parts = [];

function write(fd, bytes) {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += fs.writevSync(fd, [bytes.subarray(at)]);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
      Atomics.wait(sleeper, 0, 0, 0.2);
    }
  }
}

const socket = process.getBuiltinModule("net").connect(path);
const send = (message) => write(socket._handle.fd, Buffer.from(`${JSON.stringify(message)}\n`));
const call = (name) => (value) =>
  new Promise((resolve) => {
    last += 1;
    calls.set(last, resolve);
    send([last, name, value]);
  });
const tools = Object.fromEntries(["echo", "make", "take", "hold"].map((name) => [name, call(name)]));
const log = (...words) => {
  const size = buffer.utf8Write(`${JSON.stringify(words.join(" "))}\n`, 0, 65_536);
  write(logs, buffer.subarray(0, size));
};

async function start(program) {
  const body = new (async () => {}).constructor("tools", "console", program);
  send([await body(tools, { log })]);
}

socket.on("data", (data) => {
  parts.push(data);
  if (data.at(-1) !== 10) return; // Python writes whole lines, one after the other
  const lines = Buffer.concat(parts).utf8Slice().split("\n");
  lines.pop();
  parts = [];
  for (const line of lines) {
    const message = JSON.parse(line);
    if (typeof message === "string") start(message);
    else {
      calls.get(message[0])(message[1]);
      calls.delete(message[0]);
    }
  }
});
