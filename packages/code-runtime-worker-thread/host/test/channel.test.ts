import { execFileSync } from "node:child_process";
import fs from "node:fs";
import net, { type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Channel } from "../src/channel.ts";
import { encodeFrame, FrameReader, KIND, type Message } from "../src/frames.ts";
import { runProgram, textOf } from "./peer.ts";

let opened = 0;

/** Connects a channel in this process to a server that keeps what it reads. */
async function connect(
  read: boolean,
  logPath = "",
): Promise<{
  channel: Channel;
  received: Message[];
  replies: [number, boolean, string][];
  lost: () => boolean;
  socket: Socket;
  close: () => void;
}> {
  const path = `\0channel-test-${process.pid}-${opened++}`;
  const received: Message[] = [];
  const replies: [number, boolean, string][] = [];
  let isLost = false;
  const reader = new FrameReader((message) => received.push(message));
  const server = net.createServer();
  const accepted = new Promise<Socket>((resolve) => server.once("connection", resolve));
  await new Promise<void>((resolve) => server.listen(path, resolve));
  const channel = new Channel({
    run: () => {},
    reply: (id, ok, payload) => replies.push([id, ok, payload]),
    lost: () => {
      isLost = true;
    },
  });
  await new Promise<void>((resolve) => channel.connect(path, logPath, resolve));
  const socket = await accepted;
  socket.on("error", () => {});
  if (read) socket.on("data", (chunk) => reader.push(Buffer.from(chunk)));
  const close = (): void => {
    socket.destroy();
    server.close();
  };
  return { channel, received, replies, lost: () => isLost, socket, close };
}

const turn = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20));

test("Channel.sendLog() writes the bytes that encodeFrame() gives", async () => {
  const texts = [
    "",
    "a",
    "é\n",
    "\ud800",
    "x".repeat(300),
    "y".repeat(70_000),
    "\u0001".repeat(9_999),
  ];
  const { channel, socket, close } = await connect(false);
  const chunks: Buffer[] = [];
  socket.on("data", (chunk) => chunks.push(chunk));
  const costs: number[] = [];
  for (const text of texts) channel.sendLog(text, (cost) => costs.push(cost) > 0);
  await turn();
  const frames = texts.map((text) => encodeFrame(KIND.LOG, Buffer.from(JSON.stringify(text))));
  expect(Buffer.concat(chunks).equals(Buffer.concat(frames))).toBe(true);
  expect(costs).toEqual(texts.map((text) => Buffer.byteLength(JSON.stringify(text))));
  close();
});

test("Channel.sendCall() sends the first call of a step at once, the others together", async () => {
  const { channel, socket, close } = await connect(false);
  const { fd } = (socket as unknown as { _handle: { fd: number } })._handle;
  const arrived = (): string[] => {
    const found: string[] = [];
    const reader = new FrameReader((message) => {
      if (message.kind === KIND.CALL) found.push(textOf(message.argument));
      else if (message.kind === KIND.LOG) found.push(`log ${textOf(message.text)}`);
    });
    const chunk = Buffer.alloc(1_048_576);
    try {
      reader.push(chunk.subarray(0, fs.readSync(fd, chunk)));
    } catch (error) {
      expect((error as NodeJS.ErrnoException).code).toBe("EAGAIN");
    }
    return found;
  };
  let calls = 0;
  const call = (argument = `${calls}`): void => {
    calls++;
    channel.sendCall([calls, Buffer.from("[]"), Buffer.from(argument)]);
  };
  call();
  expect(arrived()).toEqual(["0"]);
  call();
  call();
  expect(arrived()).toEqual([]);
  await null;
  expect(arrived()).toEqual(["1", "2"]);
  for (let count = 0; count < 34; count++) call();
  expect(arrived()).toHaveLength(33); // the first, and 32 behind it
  channel.sendLog('"', () => true);
  expect(arrived()).toEqual(["36", 'log "\\""']);
  call();
  const large = "9".repeat(20_000);
  call(large);
  expect(arrived()).toEqual(["37", large]);
  call();
  channel.send(KIND.LIMIT, []);
  expect(arrived()).toEqual(["39"]);
  await null;
  call();
  expect(arrived()).toEqual(["40"]);
  close();
});

test("Channel sends LOG frames through the pipe, and all else to the socket", async () => {
  const folder = fs.mkdtempSync(join(tmpdir(), "channel-test-"));
  const path = join(folder, "logs");
  execFileSync("mkfifo", [path]);
  const reader = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  const { channel, received, close } = await connect(true, path);
  channel.sendLog("one", () => true);
  channel.send(KIND.LIMIT, []);
  channel.sendLog("two", () => true);
  await turn();
  const seen = Buffer.alloc(1_000);
  const size = fs.readSync(reader, seen);
  const frames = ["one", "two"].map((text) => encodeFrame(KIND.LOG, Buffer.from(`"${text}"`)));
  expect(seen.subarray(0, size).equals(Buffer.concat(frames))).toBe(true);
  expect(received).toEqual([{ kind: KIND.LIMIT }]);
  close();
  fs.closeSync(reader);
  fs.rmSync(folder, { recursive: true });
});

test("Channel.sendLog() keeps back what is not admitted (WT-079)", async () => {
  const { channel, received, close } = await connect(true);
  expect(channel.sendLog("no", () => false)).toBe(false);
  channel.send(KIND.LIMIT, []);
  await turn();
  expect(received.map(({ kind }) => kind)).toEqual([KIND.LIMIT]);
  close();
});

test("Channel.send() sends nothing once muted (WT-057, WT-137)", async () => {
  const { channel, received, close } = await connect(true);
  channel.send(KIND.DONE, [new Uint8Array(0)]);
  channel.mute();
  channel.send(KIND.LIMIT, []);
  channel.sendLog("late", () => true);
  await turn();
  expect(received.map(({ kind }) => kind)).toEqual([KIND.DONE]);
  close();
});

test("Channel hands on replies in order, however they are cut", async () => {
  const { socket, replies, close } = await connect(true);
  const stream = Buffer.concat([
    encodeFrame(KIND.REPLY, 1, true, Buffer.from("[1]")),
    encodeFrame(KIND.REPLY, 2, false, Buffer.from('"é"')),
  ]);
  for (const byte of stream) socket.write(Buffer.from([byte]));
  await turn();
  expect(replies).toEqual([
    [1, true, "[1]"],
    [2, false, '"é"'],
  ]);
  close();
});

test("Channel reports a closed socket and bytes that are no frame", async () => {
  const first = await connect(true);
  first.socket.destroy();
  await turn();
  expect(first.lost()).toBe(true);
  first.close();
  const second = await connect(true);
  second.socket.write("garbage that is no frame");
  await turn();
  expect(second.lost()).toBe(true);
  second.close();
});

test("Channel loses no line of a flood to a slow reader (WT-058)", async () => {
  let lines = 0;
  let bytes = 0;
  let last = "";
  const { end } = await runProgram(
    'for (let i = 0; i < 60000; i++) console.log("line " + i); return 1',
    {
      intercept: (message, socket) => {
        if (message.kind !== KIND.LOG) return false;
        bytes += message.text.length;
        if (++lines % 5_000 === 0) {
          socket.pause();
          setTimeout(() => socket.resume(), 5);
        }
        last = textOf(message.text);
        return true;
      },
    },
  );
  expect(lines).toBe(60_000);
  expect(bytes).toBe(
    Array.from({ length: 60_000 }, (_, i) => `"line ${i}"`.length).reduce((a, b) => a + b),
  );
  expect([last, end.kind]).toEqual(['"line 59999"', "done"]);
});

test("Channel takes replies in while its own write waits for room", async () => {
  // Neither side reads unless its own writing can wait: 5,000 large calls against 5,000 large replies.
  const big = "x".repeat(2_000);
  let calls = 0;
  const { end } = await runProgram(
    `const all = await Promise.all(Array.from({ length: 5000 }, () => tools.f("${big}"))); return all.length`,
    {
      bindings: { tools: { f: () => 1 } },
      intercept: (message, socket) => {
        if (message.kind !== KIND.CALL) return false;
        calls++;
        socket.setMaxListeners(0);
        const reply = encodeFrame(KIND.REPLY, message.id, true, Buffer.from(JSON.stringify(big)));
        if (!socket.write(reply)) {
          // As a host that writes before it reads: no call is read until this reply has left.
          socket.pause();
          socket.once("drain", () => socket.resume());
        }
        return true;
      },
    },
  );
  expect(calls).toBe(5_000);
  expect(end).toEqual({ kind: "done", json: "5000", value: 5_000 });
});
