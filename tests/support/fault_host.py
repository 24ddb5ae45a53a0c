"""A host process of its own, for faults that would hit the test runner: `fault_host.py NAME`.

The second argument is the event loop. Each line of standard input is a command, answered by one
line of JSON:

    load          opens the provider NAME; answers null or the text of the error
    run N         runs N programs, one after the other; answers their outcomes
    crowd N       runs N programs that are all up at one time; answers their outcomes, sorted
    program NAME  runs that program of the backend; answers its outcome
    files N       limits open descriptors to N
    free N        limits open descriptors to N more than there are
    processes N   limits the processes and threads of this user to N
    fill          starts processes until there can be no more
    empty         ends them
    clutter       puts files into the temporary folder until there is no room
    tidy          removes them
    stages DIR    starts four runs, which use DIR; answers when each is at a stage that never ends
    close         disposes the provider
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from faults import BACKENDS, Backend, outcome_of, stuck_reply
from run_requests import build_request

import code_runtime_worker_thread._host as node_host
from code_runtime import CodeRuntime, CodeRuntimeError

LIMITS = {"files": resource.RLIMIT_NOFILE, "processes": resource.RLIMIT_NPROC}


class Host:
    """Carries out the commands."""

    def __init__(self, backend: Backend, stack: AsyncExitStack, tasks: TaskGroup) -> None:
        self._backend = backend
        self._tasks = tasks
        self._stack = stack
        self._runtime: CodeRuntime | None = None
        self._fillers: list[subprocess.Popen[bytes]] = []

    async def obey(self, word: str, *arguments: str) -> object:
        """Carry out one line."""
        numbers = [int(argument) for argument in arguments if argument.isdigit()]
        if word == "load":
            return await self._load()
        if word == "run":
            return [await self._run() for _ in range(*numbers)]
        if word == "program":
            return await self._run(getattr(self._backend, arguments[0]))
        if word == "crowd":
            return await self._crowd(*numbers)
        if word in LIMITS:
            hard = resource.getrlimit(LIMITS[word])[1]
            resource.setrlimit(LIMITS[word], (numbers[0], hard))
        elif word == "free":
            lowest = os.dup(0)
            os.close(lowest)
            hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + numbers[0], hard))
        elif word == "fill":
            self._fill()
        elif word == "clutter":
            self._clutter()
        elif word == "tidy":
            self._tidy()
        elif word == "stages":
            await self._reach_stages(Path(arguments[0]))
        elif word == "empty":
            self._empty()
        elif word == "close":
            await self._stack.aclose()
        return None

    async def _load(self) -> str | None:
        try:
            self._runtime = await self._stack.enter_async_context(self._backend.open())
        except CodeRuntimeError as error:
            return f"{type(error).__name__}: {error}"
        return None

    async def _run(
        self, program: str | None = None, echo: Callable[[object], object] = lambda value: value
    ) -> str:
        assert self._runtime is not None
        request = build_request(program or self._backend.echo, {"echo": echo})
        result = await self._runtime.run(request)
        return outcome_of(result, "fine")

    async def _crowd(self, count: int) -> list[str]:
        outcomes: list[str] = []
        missing = count
        complete = anyio.Event()

        def come() -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                complete.set()

        async def wait(value: object) -> object:
            come()
            await complete.wait()
            return value

        async def run() -> None:
            outcome = await self._run(echo=wait)
            if outcome != "value":
                come()
            outcomes.append(outcome)

        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(run)
        return sorted(outcomes)

    async def _reach_stages(self, folder: Path) -> None:
        assert self._runtime is not None
        runtime = self._runtime
        there = {name: anyio.Event() for name in ("first statement", "mid-call", "after done")}
        held, pids = anyio.Event(), list[int]()

        async def call(_: object) -> None:
            there["mid-call"].set()
            await anyio.sleep_forever()

        def reply(pid: object) -> str:
            assert isinstance(pid, int)
            pids.append(pid)
            return "x" * 4_000_000

        async def hold(_: object) -> None:
            held.set()
            try:
                await anyio.sleep_forever()
            finally:
                there["after done"].set()
                with anyio.CancelScope(shield=True):
                    await anyio.sleep_forever()

        async def acted(_: object) -> None:
            await held.wait()

        never = {"release": repr(str(folder / "never"))}
        first = self._backend.first.substitute(signal=0, levels=0, waits=1)
        for request in (
            build_request(first, on_log=lambda _: there["first statement"].set()),
            build_request(self._backend.call, {"act": call}),
            build_request(self._backend.reply.substitute(never), {"act": reply}),
            build_request(self._backend.done, {"act": hold, "acted": acted}),
        ):
            self._tasks.start_soon(runtime.run, request)
        for event in there.values():
            await event.wait()
        while not pids or not stuck_reply(runtime, pids[0])():  # noqa: ASYNC110 nothing tells
            await anyio.sleep(0.005)

    def _fill(self) -> None:
        with suppress(BlockingIOError):
            while True:
                self._fillers.append(subprocess.Popen(["/bin/sleep", "100"]))

    def _clutter(self) -> None:
        with suppress(OSError):
            for number in itertools.count():
                Path(tempfile.gettempdir(), f"clutter-{number}").write_bytes(bytes(4096))

    def _tidy(self) -> None:
        for path in Path(tempfile.gettempdir()).glob("clutter-*"):
            path.unlink()

    def _empty(self) -> None:
        while self._fillers:
            filler = self._fillers.pop()
            filler.kill()
            filler.wait()


async def main(name: str) -> None:
    """Obey until standard input ends."""
    # A minute is for a starved machine; a Node that gets no thread would take it whole.
    setattr(node_host, "BOOT_TIMEOUT_S", 10)  # noqa: B010 final for everyone else
    # A choice of tempfile's own would pass over a folder that is full.
    tempfile.tempdir = os.environ.get("TMPDIR")
    async with anyio.create_task_group() as tasks, AsyncExitStack() as stack:
        host = Host(BACKENDS[name], stack, tasks)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline):
            answer = await host.obey(*line.split())
            os.write(1, json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], backend=sys.argv[2])
