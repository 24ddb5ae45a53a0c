"""The programs of the soak in TypeScript, by the name of their case; `@word@` is filled in."""

from __future__ import annotations

from forgery import FORGE

SLEEP = "await new Promise((resolve) => setTimeout(resolve, 60_000));"

PROGRAMS = {
    "nothing": "",
    "value": "return @literal@",
    "echo": "return await tools.echo(@literal@)",
    "sequential": "let total = 0; for (let n = 0; n < @count@; n++) total += await tools.double(n); return total",
    "gather": "const all = await Promise.all(Array.from({length: @count@}, (_, n) => tools.double(n)));\nreturn all.reduce((sum, n) => sum + n, 0)",
    "failing call": "try { await tools.fail(1) } catch (error) { if (error instanceof ToolError) return [error.message, error.member] }",
    "failing call, uncaught": "console.log('before'); await tools.fail(1)",
    "unknown call": "try { await (tools as any).missing(1) } catch (error) { if (error instanceof TypeError) return 'refused' }",
    "slow call": "return await tools.slow(@count@)",
    "call without end": "void tools.never(1); return await tools.echo(7)",
    "logs": "for (let n = 0; n < @count@; n++) console.log('line', n); return @count@",
    "log flood": "for (;;) console.log('x'.repeat(60))",
    "listener raises": "console.log('before'); return 5",
    "native output": "const fs = await import('node:fs'), { spawnSync } = await import('node:child_process');\nfs.writeSync(1, 'one\\ntwo\\n'); spawnSync('/bin/echo', ['three'], { stdio: 'inherit' }); return 1",
    "exception": "console.log('before'); throw new Error('no @count@')",
    "syntax error": "return (((",
    "invalid output": "console.log('before'); return new Date()",
    "value over budget": "console.log('before'); return 'x'.repeat(400_000)",
    "deep value": "let value = []; for (let n = 1; n < @count@; n++) value = [value];\nreturn await tools.echo(value)",
    "wait": f"console.log('before'); {SLEEP}",
    "block": "console.log('before'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
    "call and wait": "console.log('before'); await tools.never(1)",
    "processor time": "console.log('before'); for (;;);",
    "memory": "console.log('before'); const kept = [];\nfor (;;) { kept.push(Buffer.alloc(1e7, 1)); await new Promise((resolve) => setTimeout(resolve, 2)) }",
    "heap": "console.log('before'); const kept = []; for (;;) kept.push(new Array(100_000).fill(kept.length))",
    "exit": "console.log('before'); process.exit(7)",
    "kill": "console.log('before'); process.kill(process.pid, 'SIGKILL'); for (;;);",
    "race": "await new Promise((resolve) => setTimeout(resolve, 4)); return await tools.echo(3)",
    "junk": FORGE + f"raw(Buffer.from('ffffffff@junk@', 'hex')); {SLEEP}",
    "forged outcome": FORGE + f"done(JSON.stringify('forged')); done('2'); {SLEEP}",
    "left-overs": """
const { spawn } = await import("node:child_process");
for (const detached of [true, false])
  spawn("/bin/sleep", ["300"], { argv0: "@marker@", detached, stdio: "ignore" }).unref();
return "left"
""",
    "files": "const fs = await import('node:fs'); const seen = fs.readdirSync('.');\nfs.mkdirSync('a/b', { recursive: true }); fs.writeFileSync('a/b/c', 'x'.repeat(10_000)); return seen",
    "state": "const seen = ['soak' in globalThis, 'soak' in JSON];\n(globalThis as any).soak = (JSON as any).soak = 1; return seen",
}

MESSAGES = {
    "exit": "worker exited with code 7 before completing",
    "kill": "the Node process was ended by SIGKILL before completing",
    "processor time": "compute budget exceeded: 15000 ms of busy time",
    "memory": "memory limit reached: the program and its processes used more than 250 MiB (memory_mb)",
    "heap": "memory limit reached: the JavaScript heap is limited to 64 MiB (max_old_generation_size_mb)",
}

CONFIG: dict[str, object] = {
    "compute_ms": 15_000,
    "memory_mb": 250,
    "max_old_generation_size_mb": 64,
    "max_output_bytes": 262_144,
    "max_concurrent_runs": 8,
}
