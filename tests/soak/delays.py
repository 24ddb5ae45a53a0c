"""Measure how late an end comes that a program tries to hold up; prints one table.

    python tests/soak/delays.py --times 30

The program blocks in native code and has left a process in a session of its own. Measured are the
milliseconds from the wall limit, from an abort and from `kill -9` of the host until nothing of the
program is left: for the first two that is when `run` returns.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from processes import alive, descendants
from tests.soak.cases import LANGUAGES

from code_runtime import AbortSignal, CodeRunRequest, CodeRuntime, Context

WALL_MS = 1_000
PROGRAMS = {
    "python": (
        "import os, subprocess, time\n"
        "subprocess.Popen(['/bin/sleep', '300'], start_new_session=True)\n"
        "print('up')\ntime.sleep(60)"
    ),
    "worker-thread": (
        "const { spawn } = await import('node:child_process');\n"
        "spawn('/bin/sleep', ['300'], { detached: true, stdio: 'ignore' }).unref();\n"
        "console.log('up'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)"
    ),
}
HOST = """
import sys, anyio
from code_runtime import CodeRunRequest, Context
async def main():
    async with Context() as ctx:
        await ctx.plugin(sys.argv[1])
        show = lambda text: print(text, flush=True)
        await ctx.codeRuntime.run(CodeRunRequest(sys.argv[2], on_log=show))
anyio.run(main)
"""


async def measure_wall(runtime: CodeRuntime, program: str) -> float:
    """Return the milliseconds from the limit to the return of `run`."""
    started_s = time.monotonic()
    result = await runtime.run(CodeRunRequest(program, max_wall_ms=WALL_MS))
    late_ms = 1000 * (time.monotonic() - started_s) - WALL_MS
    assert (result.error and result.error.kind, result.logs) == ("timeout", ["up"]), result
    return late_ms


async def measure_abort(runtime: CodeRuntime, program: str) -> float:
    """Return the milliseconds from the abort to the return of `run`."""
    signal, aborted_s = AbortSignal(), 0.0

    def on_log(_: str) -> None:
        nonlocal aborted_s
        aborted_s = time.monotonic()
        signal.abort("enough")

    result = await runtime.run(CodeRunRequest(program, signal=signal, on_log=on_log))
    assert (result.error and result.error.kind, result.logs) == ("abort", ["up"]), result
    return 1000 * (time.monotonic() - aborted_s)


def measure_kill(provider: str, program: str) -> float:
    """Return the milliseconds from `kill -9` of a host to the end of the last process below it."""
    host = subprocess.Popen(
        [sys.executable, "-c", HOST, provider, program], stdout=subprocess.PIPE, text=True
    )
    with host:
        assert host.stdout is not None
        assert host.stdout.readline() == "up\n"
        family = descendants(host.pid)
        killed_s = time.monotonic()
        host.kill()
    while alive(family):
        assert time.monotonic() - killed_s < 30, alive(family)
        time.sleep(0.002)  # polls the system: no one is left to wait for these
    return 1000 * (time.monotonic() - killed_s)


async def measure(provider: str, times: int) -> dict[str, list[float]]:
    """Measure one provider."""
    program = PROGRAMS[provider]
    walls, aborts = [], []
    async with Context() as ctx:
        await ctx.plugin(LANGUAGES[provider].provider)
        for _ in range(times):
            walls.append(await measure_wall(ctx.codeRuntime, program))
            aborts.append(await measure_abort(ctx.codeRuntime, program))
    kills = [measure_kill(provider, program) for _ in range(times)]
    return {"wall limit": walls, "abort": aborts, "kill -9 of the host": kills}


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure both providers and print the table."""
    parser = argparse.ArgumentParser(description="Measure how late an end comes.")
    parser.add_argument("--times", type=int, default=30)
    times = parser.parse_args(arguments).times
    table = Table(title=f"milliseconds until nothing is left, {times} times, {os.cpu_count()} CPUs")
    for heading in ("provider", "after", "median", "most"):
        table.add_column(heading)
    for provider in LANGUAGES:
        for name, delays in anyio.run(measure, provider, times).items():
            table.add_row(provider, name, f"{statistics.median(delays):.0f}", f"{max(delays):.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
