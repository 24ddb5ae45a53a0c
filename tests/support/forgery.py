"""A preamble for programs that write raw bytes into the worker's own socket, or the pipe of its logs.

The program shares its process with the worker, finds the worker's descriptors and can say to Python
whatever the worker could say, and more. Frame kinds: docs/reference/worker-frames.md.
"""

from __future__ import annotations

FORGE = r"""
const fs = process.getBuiltinModule("fs");
const isSocket = (fd) => { try { return fs.fstatSync(fd).isSocket() } catch { return false } };
const sockets = [];
for (let fd = 4; fd < 60; fd++) if (isSocket(fd)) sockets.push(fd); // 3 is the main thread's
const name = (fd) => { try { return fs.readlinkSync(`/proc/self/fd/${fd}`) } catch { return "" } };
const pipes = []; // a named one, whose name is gone; Node has some without a name
for (let fd = 4; fd < 60; fd++) if (/^\/.* \(deleted\)$/.test(name(fd))) pipes.push(fd);
let outlets = sockets;
const throughPipe = () => { outlets = pipes };
const raw = (...parts) => {
  const bytes = Buffer.concat(parts.map((part) => Buffer.from(part)));
  for (const fd of outlets) for (let at = 0; at < bytes.length; ) {
    try { at += fs.writeSync(fd, bytes, at) } catch (error) { if (error.code !== "EAGAIN") throw error }
  }
};
const bin = (data) => {
  const body = Buffer.from(data), head = Buffer.from([0xc6, 0, 0, 0, 0]);
  head.writeUInt32BE(body.length, 1);
  return Buffer.concat([head, body]);
};
const uint = (value) => {
  const bytes = Buffer.alloc(9, 0xcf);
  bytes.writeBigUInt64BE(BigInt(value), 1);
  return bytes;
};
const frame = (...parts) => {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part))), head = Buffer.alloc(4);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
};
const send = (kind, ...fields) => raw(frame([0x91 + fields.length, kind], ...fields));
const call = (id, target, argument) => send(49, uint(id), bin(JSON.stringify(target)), bin(argument));
const log = (text) => send(50, bin(text));
const done = (value) => send(51, bin(value));
const fail = (kind, message) => send(52, bin(kind), bin(message));
const limit = () => send(53);
"""
