"""Backends, programs and blows for tests of faults: which process, at which stage, by which signal.

The words of the tables in docs/reference/faults.md are the words used here.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import venv
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from string import Template

import anyio
from processes import alive, descendants
from run_requests import build_request

from code_runtime import CodeRunResult, CodeRuntime, Context
from code_runtime_python import PythonCodeRuntime
from code_runtime_worker_thread import WorkerThreadCodeRuntime
from code_runtime_worker_thread._node import list_candidates

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "faults.md"
HOST = Path(__file__).with_name("fault_host.py")
# How many parents up from the program each process is.
LEVELS = {"program": 0, "guard": 1, "warden": 2}
SIGNALS = {"SIGKILL": signal.SIGKILL, "SIGSTOP": signal.SIGSTOP}

Provider = type[PythonCodeRuntime] | type[WorkerThreadCodeRuntime]


@dataclass(frozen=True)
class Blow:
    """A signal for one of our processes."""

    victim: str
    signal_name: str

    def strike(self, program_pid: int) -> None:
        """Send it; on a starved machine a program that has returned is gone already."""
        with suppress(ProcessLookupError, FileNotFoundError):
            target = program_pid
            for _ in range(LEVELS[self.victim]):
                target = parent_of(target)
            os.kill(target, SIGNALS[self.signal_name])

    @property
    def depth(self) -> int:
        """How many generations below the host the victims are."""
        return 3 - LEVELS[self.victim]

    @property
    def text(self) -> str:
        """What a hook in the program's process needs to know: signal and parents up."""
        return f"{int(SIGNALS[self.signal_name])} {LEVELS[self.victim]}"

    @property
    def lets_run(self) -> bool:
        """Whether the run is not touched by it and must be let go on."""
        return (self.victim, self.signal_name) == ("warden", "SIGSTOP")


BLOWS = tuple(Blow(victim, name) for victim in LEVELS for name in SIGNALS)


@dataclass(frozen=True)
class Backend:
    """A provider with one way to start processes, and programs in its language.

    Placeholders of `first`: `$signal`, `$levels`, `$waits`; of `reply`: `$release`.
    """

    name: str
    provider: Provider
    config: dict[str, object] = field(hash=False)
    # Returns what a binding gives back.
    echo: str
    # Strikes at its first statement.
    first: Template
    # Tells a binding its process and returns what that gives back.
    call: str
    # Calls a binding, reads nothing until a file exists, and returns the length of the reply.
    reply: Template
    # Leaves a call behind and returns.
    done: str
    # Calls 1,500 times at once, prints 5,000 lines and returns what came back, 300,000 chars too.
    traffic: str
    # Says that it is up, prints 3,000 lines and returns.
    flood: str
    # Prints 400 lines and is ended by SIGKILL.
    crash: str
    # Writes a file of 1,000,000 bytes.
    write: str

    @property
    def fresh(self) -> dict[str, object]:
        """The config with which every run has a process of its own."""
        return {"runs_per_host": 1} if self.provider is WorkerThreadCodeRuntime else {}

    @property
    def heading(self) -> str:
        """Where the page has its table."""
        return "Python" if self.name.startswith("python") else "Worker thread"

    @asynccontextmanager
    async def open(self, **config: object) -> AsyncIterator[CodeRuntime]:
        """Open a runtime."""
        async with Context() as ctx:
            await ctx.plugin(self.provider, {**self.config, **config})
            yield ctx.codeRuntime

    async def run_fine(self, runtime: CodeRuntime) -> None:
        """Fail unless the next run works."""
        result = await runtime.run(build_request(self.echo, {"echo": lambda value: value}))
        assert (result.value, result.error) == ("fine", None)


def outcome_of(result: CodeRunResult, value: object) -> str:
    """Say how a run ended in the words of the page; a value that it returned must be this one."""
    if result.error is None:
        assert result.value == value, result
        return "value"
    return f"`{result.error.kind}`: {result.error.message}"


def parent_of(pid: int) -> int:
    """Return the parent of a process."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


def depth_of(pid: int) -> int:
    """Return how many generations below this process another one is, -1 when it is gone."""
    depth = 0
    while pid != os.getpid():
        try:
            pid, depth = parent_of(pid), depth + 1
        except OSError:
            return -1
    return depth


async def wait_idle(runtime: CodeRuntime) -> None:
    """Wait until a process is ready for the next run, and none is on its way."""
    pool = runtime._pool  # type: ignore[attr-defined]
    with anyio.fail_after(20):
        while (  # noqa: ASYNC110 nobody tells
            pool._booting_count or pool._is_replacing or not pool._idle
        ):
            await anyio.sleep(0.005)


async def end_waiting_guards() -> None:
    """Kill the guards without a program, so that the next program gets a new one."""
    family = descendants(os.getpid())
    guards = [item for item in family if depth_of(item[0]) == 2 and not descendants(item[0])]
    for pid, _ in guards:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await wait_dead(guards)


def stuck_reply(runtime: CodeRuntime, pid: int) -> Callable[[], bool]:
    """Tell whether a part of a frame waits for room in the socket to this process."""
    hosts = [host for host in runtime._pool._hosts if host._process]  # type: ignore[attr-defined]
    host = next(host for host in hosts if host.process.pid == pid)
    channel = host.worker.channel if hasattr(host, "worker") else host.channel
    return lambda: bool(channel.sender.needs_flush)


def read_table(heading: str) -> dict[tuple[str, str, str], str]:
    """Read the outcomes under a heading of the page: (stage, victim, signal) to outcome."""
    section = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found: dict[tuple[str, str, str], str] = {}
    for line in re.findall(r"^\|(.*)\|$", section, re.MULTILINE)[2:]:
        stage, victim, killed, stopped = (cell.strip() for cell in line.split("|"))
        found[stage, victim, "SIGKILL"] = killed
        found[stage, victim, "SIGSTOP"] = stopped
    return found


_PYTHON_FIRST = """
import os, time
print("up")
target = os.getpid()
for _ in range($levels):
    target = int(open(f"/proc/{target}/stat").read().rsplit(")", 1)[1].split()[1])
os.kill(target, $signal)
while $waits: time.sleep(1)
return "fine"
"""

_PYTHON_REPLY = """
import asyncio, os, time
reply = asyncio.ensure_future(tools.act(os.getpid()))
await asyncio.sleep(0)
while not os.path.exists($release): time.sleep(0.005)
return len(await reply)
"""

_PYTHON_DONE = """
import asyncio, atexit, os, time
atexit.register(time.sleep, 1)  # as long as the exit window lasts
held = asyncio.ensure_future(tools.act(os.getpid()))
await tools.acted(None)
return "fine"
"""

_PYTHON_TRAFFIC = """
import asyncio
numbers = await asyncio.gather(*(tools.echo(n) for n in range(1500)))
for n in range(5000): print(n)
return [numbers, await tools.echo("x" * 300_000)]
"""

_TYPESCRIPT_TRAFFIC = """
const numbers = await Promise.all(Array.from({ length: 1500 }, (_, n) => tools.echo(n)));
for (let n = 0; n < 5000; n++) console.log(n);
return [numbers, await tools.echo("x".repeat(300_000))];
"""

_TYPESCRIPT_FIRST = """
import fs from "node:fs";
console.log("up");
let target = process.pid;
for (let i = 0; i < $levels; i++) {
  target = Number(/PPid:\\s+(\\d+)/.exec(fs.readFileSync(`/proc/$${target}/status`, "utf8"))[1]);
}
process.kill(target, $signal);
if ($waits) { setInterval(() => {}, 1000); await new Promise(() => {}); }
return "fine";
"""

_TYPESCRIPT_REPLY = """
import fs from "node:fs";
const reply = tools.act(process.pid);
const cell = new Int32Array(new SharedArrayBuffer(4));
while (!fs.existsSync($release)) Atomics.wait(cell, 0, 0, 5);
return (await reply).length;
"""


def _python(name: str, start_method: str) -> Backend:
    return Backend(
        name,
        PythonCodeRuntime,
        {"start_method": start_method, "grace_ms": 200},
        echo="return await tools.echo('fine')",
        first=Template(_PYTHON_FIRST),
        call="import os\nprint('up')\nreturn await tools.act(os.getpid())",
        reply=Template(_PYTHON_REPLY),
        done=_PYTHON_DONE,
        traffic=_PYTHON_TRAFFIC,
        flood="await tools.up(None)\nfor n in range(3000): print(n)\nreturn 'fine'",
        crash="import os\nfor n in range(400): print(n)\nos.kill(os.getpid(), 9)",
        write="open('big', 'wb').write(bytes(1_000_000))\nreturn 'fine'",
    )


BACKENDS = {
    backend.name: backend
    for backend in (
        Backend(
            "worker-thread",
            WorkerThreadCodeRuntime,
            {"spare_hosts": 1},
            echo="return await tools.echo('fine')",
            first=Template(_TYPESCRIPT_FIRST),
            call="console.log('up'); return await tools.act(process.pid)",
            reply=Template(_TYPESCRIPT_REPLY),
            done="tools.act(process.pid); await tools.acted(null); return 'fine'",
            traffic=_TYPESCRIPT_TRAFFIC,
            flood="await tools.up(null); for (let n = 0; n < 3000; n++) console.log(n); return 'fine'",
            crash="for (let n = 0; n < 400; n++) console.log(n); process.kill(process.pid, 9); for (;;);",
            write="(await import('node:fs')).writeFileSync('big', Buffer.alloc(1e6)); return 'fine'",
        ),
        _python("python-zygote", "zygote"),
        _python("python-spawn", "spawn"),
    )
}


class Ambush:
    """Strikes the first new process so many generations below this one, as soon as it appears.

    A thread, because the event loop is busy with the start that is to be hit.
    """

    def __init__(self, blow: Blow) -> None:
        self._depth = blow.depth
        self._signal = SIGNALS[blow.signal_name]
        self._known = set(descendants(os.getpid()))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self.hit: int | None = None
        self.family: list[tuple[int, str]] = []

    def __enter__(self) -> Ambush:
        """Lie in wait."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Give up, if nothing came."""
        self._over.set()
        self._thread.join()

    async def wait(self) -> None:
        """Wait until it has struck."""
        with anyio.fail_after(20):
            while self.hit is None:  # noqa: ASYNC110 a thread sets it
                await anyio.sleep(0.005)

    def _watch(self) -> None:
        while not self._over.is_set():
            for pid, start in descendants(os.getpid()):
                if (pid, start) not in self._known and depth_of(pid) == self._depth:
                    with suppress(ProcessLookupError):
                        self.family = [(pid, start), *descendants(pid)]
                        os.kill(pid, self._signal)
                        self.hit = pid
                        return


_PYTHON_HOOK = """
import os, resource, time

folder = {folder!r}
real_write, real_limit = os.write, resource.setrlimit

def reach(point):
    try:
        os.rename(f"{{folder}}/{{point}}", f"{{folder}}/hit")
    except OSError:
        return
    with open(f"{{folder}}/hit") as file:
        number, levels = map(int, file.read().split())
    target = os.getpid()
    for _ in range(levels):
        with open(f"/proc/{{target}}/stat") as file:
            target = int(file.read().rsplit(")", 1)[1].split()[1])
    os.kill(target, number)
    while number == 9:
        time.sleep(1)  # its end is on the way

def write(fd, data):
    if bytes(data[:18]) == b'{{"type":"boot-ack"':
        reach("before the run frame")
    return real_write(fd, data)

def setrlimit(number, limits):
    if number == resource.RLIMIT_CPU:
        reach("handshake")
    return real_limit(number, limits)

os.write, resource.setrlimit = write, setrlimit
"""

_NODE_HOOK = """
const fs = require("node:fs"), net = require("node:net");
const { isMainThread } = require("node:worker_threads");
const folder = FOLDER;
function reach(point) {
  try { fs.renameSync(`${folder}/${point}`, `${folder}/hit`) } catch { return }
  const [number, levels] = fs.readFileSync(`${folder}/hit`, "utf8").split(" ").map(Number);
  let target = process.pid;
  for (let i = 0; i < levels; i++) {
    target = Number(/PPid:\\s+(\\d+)/.exec(fs.readFileSync(`/proc/${target}/status`, "utf8"))[1]);
  }
  process.kill(target, number);
  while (number === 9) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1000);
}
if (isMainThread) {
  const { write } = net.Socket.prototype, { chdir } = process;
  net.Socket.prototype.write = function (...data) { reach("handshake"); return write.apply(this, data) };
  process.chdir = (to) => { if (to !== "/") reach("before the run frame"); return chdir(to) };
}
"""


@dataclass(frozen=True)
class Trap:
    """An interpreter or a Node that strikes once at a point of its start, then is as any other."""

    folder: Path
    config: dict[str, object] = field(hash=False)

    def set(self, point: str, blow: Blow) -> None:
        """Let the next process that comes to the point strike."""
        (self.folder / "hit").unlink(missing_ok=True)
        (self.folder / f".{point}").write_text(blow.text)
        (self.folder / f".{point}").rename(self.folder / point)

    @property
    def has_struck(self) -> bool:
        """Whether a process has come to the point."""
        return (self.folder / "hit").exists()


def build_trap(backend: Backend, folder: Path) -> Trap:
    """Make the binary of a trap in an empty folder."""
    folder.mkdir(parents=True)
    if backend.provider is WorkerThreadCodeRuntime:
        hook = folder / "hook.cjs"
        hook.write_text(_NODE_HOOK.replace("FOLDER", json.dumps(str(folder))))
        node = next(item.path for item in list_candidates() if item.path is not None)
        wrapper = folder / "node"
        wrapper.write_text(f'#!/bin/sh\nexec {node} --require {hook} "$@"\n')
        wrapper.chmod(0o755)
        return Trap(folder, {"node_bin": str(wrapper)})
    venv.create(folder / "venv", symlinks=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (packages / "fault_hook.py").write_text(_PYTHON_HOOK.format(folder=str(folder)))
    (packages / "fault_hook.pth").write_text("import fault_hook\n")
    return Trap(folder, {"python_bin": str(folder / "venv" / "bin" / "python")})


class HostProcess:
    """A host process that obeys `fault_host.py`'s commands."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def tell(self, line: str) -> None:
        """Give it a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """End it by SIGKILL."""
        self._process.kill()
        self._process.wait()

    def ask(self, line: str) -> object:
        """Give it a command and return its answer."""
        assert self._process.stdout is not None
        self.tell(line)
        answer: object = json.loads(self._process.stdout.readline())
        return answer

    def outcomes(self, line: str) -> list[str]:
        """Give it a command that answers outcomes."""
        answer = self.ask(line)
        assert isinstance(answer, list)
        return [str(item) for item in answer]


@contextmanager
def host_process(
    backend: Backend, loop: str, *, launcher: Sequence[str] = (), env: dict[str, str] | None = None
) -> Iterator[HostProcess]:
    """Run a host process, and see that it ends by itself."""
    process = subprocess.Popen(
        [*launcher, sys.executable, str(HOST), backend.name, loop],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )
    with process:
        try:
            yield HostProcess(process)
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.close()
            assert process.wait(timeout=30) in (0, -signal.SIGKILL)
        finally:
            process.kill()


async def wait_dead(family: list[tuple[int, str]]) -> None:
    """Wait until processes that were killed are gone."""
    with anyio.fail_after(20):
        while alive(family):  # noqa: ASYNC110 they are not ours to wait for
            await anyio.sleep(0.005)
