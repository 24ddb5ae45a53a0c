"""Measure what docs/limitations.md says with a figure; prints one line for each.

python tests/soak/limits.py
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import anyio
from rich.console import Console

from code_runtime import CodeBindingNamespace, CodeRunRequest, CodeRunResult, Context

CONSOLE = Console(highlight=False, soft_wrap=True)
BURST_MB = 200
FILL_PYTHON = """
kept = []
while True:
    kept.append(b'x' * 4_194_304)
    print(4 * len(kept))
"""
FILL_TYPESCRIPT = "const kept = []; for (;;) { kept.push(Buffer.alloc(4_194_304, 1)); console.log(4 * kept.length) }"
WORK = """
const before = performance.eventLoopUtilization(), cpu = process.cpuUsage();
let sum = 0; for (let n = 0; n < 3e8; n++) sum += n % 7;
await new Promise((resolve) => setImmediate(resolve));
return [performance.eventLoopUtilization(before).active, process.cpuUsage(cpu).user / 1000]
"""

# What a program can do, each with the config of its run: a value means that it could.
ABLE: tuple[tuple[str, str, dict[str, object], str], ...] = (
    (
        "python: reads files of the user, listens on a port, may signal its host",
        "python",
        {},
        f"""
import os, socket
open("/etc/passwd").read()
socket.create_server(("127.0.0.1", 0))
os.kill({os.getpid()}, 0)
return True
""",
    ),
    (
        "worker-thread: the same",
        "worker-thread",
        {},
        f"""
const fs = await import("node:fs"), net = await import("node:net");
fs.readFileSync("/etc/passwd");
const server = net.createServer().listen(0);
await new Promise((resolve) => server.once("listening", resolve));
process.kill({os.getpid()}, 0); server.close();
return true
""",
    ),
    (
        "python: fills a memory file with 300 MiB under memory_mb=100",
        "python",
        {"memory_mb": 100},
        """
import os, time
number = os.memfd_create("")
for _ in range(300): os.write(number, b"x" * 1_048_576)
time.sleep(0.3)
return os.fstat(number).st_size == 300 * 1_048_576
""",
    ),
    (
        "python: lets a child that it never waits for compute for 1.5 s under cpu_seconds=1, "
        "split over two of them",
        "python",
        {"cpu_seconds": 1},
        """
import subprocess, sys
code = "import time\\nwhile time.process_time() < 0.75: pass\\nprint()"
children = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in (1, 2)]
return [child.stdout.read() for child in children] == [b"\\n", b"\\n"]
""",
    ),
    (
        "python: while it blocks its loop for 0.3 s no reply arrives",
        "python",
        {},
        """
import asyncio, time
task = asyncio.ensure_future(tools.echo(1))
await asyncio.sleep(0)
time.sleep(0.3)
blocked = task.done()
await task
return not blocked
""",
    ),
)


async def run(
    provider: str, config: dict[str, object], program: str, times: int
) -> list[CodeRunResult]:
    """Run a program several times on one runtime."""
    async with Context() as ctx:
        await ctx.plugin(provider, config)
        tools = [CodeBindingNamespace("tools", {"echo": lambda value: value})]
        request = CodeRunRequest(program, tools)
        return [await ctx.codeRuntime.run(request) for _ in range(times)]


async def time_runs(provider: str, config: dict[str, object], times: int) -> float:
    """Return the median of the milliseconds of a run that does nothing, back to back."""
    taken_ms = []
    async with Context() as ctx:
        await ctx.plugin(provider, config)
        for number in range(times + 5):
            before_s = time.monotonic()
            result = await ctx.codeRuntime.run(CodeRunRequest("return 1"))
            assert result.value == 1, result
            if number >= 5:
                taken_ms.append(1000 * (time.monotonic() - before_s))
    return statistics.median(taken_ms)


async def show_bursts() -> None:
    """How much a program has when the sampled limit ends it."""
    for provider, program in (("python", FILL_PYTHON), ("worker-thread", FILL_TYPESCRIPT)):
        results = await run(provider, {"memory_mb": BURST_MB}, program, 10)
        assert {result.error and result.error.kind for result in results} == {"worker-exit"}
        sizes = [int(result.logs[-1]) for result in results]
        CONSOLE.print(
            f"{provider}: memory_mb={BURST_MB}, filled as fast as it can: ended at "
            f"{statistics.median(sizes)} MiB (median), {max(sizes)} MiB (most) of the program's own"
        )


@contextmanager
def busy_processors(count: int) -> Iterator[None]:
    """Keep processors busy."""
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


async def show_busy_time() -> None:
    """How busy time grows beside processes that want the processors too."""
    for count in (0, 2 * (os.cpu_count() or 1)):
        with busy_processors(count):
            results = await run("worker-thread", {"compute_ms": None}, WORK, 5)
        pairs = [result.value for result in results]
        assert all(isinstance(pair, list) for pair in pairs), results
        ratio = statistics.median(pair[0] / pair[1] for pair in pairs if isinstance(pair, list))
        CONSOLE.print(
            f"worker-thread: busy time / processor time beside {count} loops: {ratio:.2f}"
        )


async def show_starts() -> None:
    """What the stricter way to start costs, and what the faster one shares."""
    for method in ("zygote", "spawn"):
        config: dict[str, object] = {"start_method": method}
        results = await run("python", config, "return str(hash('x'))", 20)
        seeds = len({result.value for result in results})
        median_ms = await time_runs("python", config, 40)
        CONSOLE.print(f"python: {method}: {median_ms:.1f} ms a run, {seeds} hash seeds in 20 runs")
    for runs in (100, 1):
        median_ms = await time_runs("worker-thread", {"runs_per_host": runs}, 40)
        CONSOLE.print(f"worker-thread: runs_per_host={runs}: {median_ms:.1f} ms a run")


async def show_abilities() -> None:
    """What no budget and no boundary keeps a program from."""
    for name, provider, config, program in ABLE:
        (result,) = await run(provider, config, program, 1)
        CONSOLE.print(f"{name}: {'yes' if result.value is True else result}")


async def main() -> None:
    """Measure everything."""
    CONSOLE.print(f"{os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}")
    await show_abilities()
    await show_bursts()
    await show_busy_time()
    await show_starts()


if __name__ == "__main__":
    anyio.run(main)
