"""Programs that attack what runs them.

Each gets a typed failure, the host is unharmed, the next run is fine, and the event loop is never
held for more than 50 ms. Forged frames are in `test_peer.py`.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import anyio
import pytest
from processes import alive, descendants, processes_with
from responsiveness import responsive_loop
from run_requests import Provider, Tools, build_request

from code_runtime import CodeRunResult, CodeRuntime

pytestmark = pytest.mark.anyio


async def attack(
    runtime: CodeRuntime, program: str, tools: Tools | None = None, **request: object
) -> CodeRunResult:
    """Run a hostile program, then prove that the next run is as good as any."""
    async with responsive_loop():
        result = await runtime.run(build_request(program, tools, **request))
    after = await runtime.run(
        build_request(
            "console.log(Object.keys(globalThis).includes('leak')); return await tools.echo([1])",
            {"echo": lambda value: value},
        )
    )
    assert (after.logs, after.value, after.error) == (["false"], [1], None)
    return result


@pytest.fixture(scope="module")
def marker() -> str:
    """A word that finds the processes of this module in /proc."""
    return f"hostile-{os.getpid()}"


HEAP_128 = {"max_old_generation_size_mb": 128}


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("const a = []; while (true) a.push(new Array(1000).fill({}))", id="objects"),
        pytest.param(
            "const a = []; for (let i = 0; i < 1e8; i++) a[i] = i; return 1", id="numbers"
        ),
        pytest.param("const a = new Array(1e8); a[5] = 1; return a.fill(1).length", id="array"),
        pytest.param(
            "let s = 'x'; const k = []; while (true) k.push((s += s + s).slice(1) + k.length)",
            id="strings",
        ),
        pytest.param("const m = new Map(); for (let i = 0; ; i++) m.set(i, [i])", id="map"),
    ],
)
async def test_heap_exhaustion_ends_its_own_run(provider: Provider, program: str) -> None:
    """WT-168, GP-001: shapes that abort a whole Node process included."""
    async with provider(**HEAP_128) as runtime:
        result = await attack(runtime, f"console.log('before'); {program}")
    assert result.error is not None
    assert result.logs == ["before"]
    if result.error.kind == "exception":  # a string above the engine's limit is a RangeError
        assert result.error.message.startswith("RangeError: Invalid string length")
    else:
        assert result.error.kind == "worker-exit"
        assert result.error.message == (
            "memory limit reached: the JavaScript heap is limited to 128 MiB "
            "(max_old_generation_size_mb)"
        )


async def test_memory_outside_the_heap_is_limited_too(provider: Provider) -> None:
    """WT-037, GP-009: Buffers do not escape."""
    async with provider(memory_mb=200) as runtime:
        result = await attack(
            runtime,
            "console.log('before'); const k = []; "
            "while (true) { k.push(Buffer.alloc(1e7, 1)); await new Promise(r => setTimeout(r, 5)) }",
        )
    assert result.error is not None
    assert (result.logs, result.error.kind, result.error.message) == (
        ["before"],
        "worker-exit",
        "memory limit reached: the program and its processes used more than 200 MiB (memory_mb)",
    )


async def test_process_kill_is_worker_exit(runtime: CodeRuntime) -> None:
    result = await attack(
        runtime, "console.log('a'); process.kill(process.pid, 'SIGKILL'); for (;;);"
    )
    assert result.error is not None
    assert (result.logs, result.error.kind, result.error.message) == (
        ["a"],
        "worker-exit",
        "the Node process was ended by SIGKILL before completing",
    )


async def test_exit_keeps_the_logs_before_it(runtime: CodeRuntime) -> None:
    """WT-058, WT-164."""
    result = await attack(
        runtime, "for (let i = 0; i < 300; i++) console.log(String(i)); process.exit(7)"
    )
    assert result.error is not None
    assert result.logs == [str(index) for index in range(300)]
    assert (result.error.kind, result.error.message) == (
        "worker-exit",
        "worker exited with code 7 before completing",
    )


async def test_hot_loop_keeps_the_logs_before_it(provider: Provider) -> None:
    """WT-151, WT-152, WT-159."""
    async with provider(compute_ms=300) as runtime:
        result = await attack(
            runtime, "for (let i = 0; i < 300; i++) console.log(String(i)); for (;;);"
        )
    assert result.error is not None
    assert result.logs == [str(index) for index in range(300)]
    assert (result.error.kind, result.error.message) == (
        "timeout",
        "compute budget exceeded: 300 ms of busy time",
    )


@pytest.mark.parametrize("target", ["process.pid", "-process.pid", "0"])
async def test_stopping_itself_ends_at_the_wall(provider: Provider, target: str) -> None:
    async with provider(max_wall_ms=700) as runtime:
        result = await attack(
            runtime, f"console.log('a'); process.kill({target}, 'SIGSTOP'); for (;;);"
        )
    assert result.error is not None
    assert (result.logs, result.error.kind, result.error.message) == (
        ["a"],
        "timeout",
        "wall-clock ceiling exceeded: 700 ms",
    )


async def test_a_stopped_process_counts_as_busy(provider: Provider) -> None:
    """WT-156: a main thread that reports nothing does not stop the clock."""
    async with provider(compute_ms=400) as runtime:
        result = await attack(runtime, "process.kill(process.pid, 'SIGSTOP'); for (;;);")
    assert result.error is not None
    assert (result.error.kind, result.error.message) == (
        "timeout",
        "compute budget exceeded: 400 ms of busy time",
    )


async def test_killing_the_guard_ends_the_run(runtime: CodeRuntime) -> None:
    result = await attack(
        runtime, "console.log('a'); process.kill(process.ppid, 'SIGKILL'); for (;;);"
    )
    assert result.error is not None
    assert (result.logs, result.error.kind) == (["a"], "worker-exit")


async def test_freezing_the_guard_does_not_protect_the_program(provider: Provider) -> None:
    async with provider(max_wall_ms=500) as runtime:
        result = await attack(
            runtime, "console.log('a'); process.kill(process.ppid, 'SIGSTOP'); for (;;);"
        )
    assert result.error is not None
    assert (result.logs, result.error.kind) == (["a"], "timeout")


async def test_killing_the_warden_ends_the_run_and_a_new_one_takes_over(
    runtime: CodeRuntime,
) -> None:
    result = await attack(
        runtime,
        """
        const fs = await import("node:fs");
        const parent = (pid) => Number(/PPid:\\s+(\\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, "utf8"))[1]);
        console.log("a"); process.kill(parent(process.ppid), "SIGKILL");
        process.kill(process.ppid, "SIGKILL"); for (;;);
        """,
    )
    assert result.error is not None
    assert (result.logs, result.error.kind) == (["a"], "worker-exit")


async def test_deep_parentheses_end_their_own_run(runtime: CodeRuntime) -> None:
    """The stripper's WASM breaks for good; the next program is fine."""
    result = await attack(runtime, "return " + "(" * 2000 + "1" + ")" * 2000)
    if result.error is None:
        assert result.value == 1
    else:
        assert result.error.kind == "exception"


async def test_the_main_thread_is_out_of_reach_of_the_inspector(runtime: CodeRuntime) -> None:
    result = await attack(
        runtime,
        """
        const inspector = await import("node:inspector");
        const session = new inspector.Session();
        try { session.connectToMainThread(); return "connected" }
        catch (error) { return (error as { code: string }).code }
        """,
    )
    assert result.error is not None
    assert (result.logs, result.error.kind, result.error.message) == (
        [],
        "worker-exit",
        "the Node process was ended by SIGABRT before completing",
    )


async def test_changed_v8_flags_do_not_reach_the_next_run(provider: Provider) -> None:
    async with provider(spare_hosts=1) as runtime:
        result = await attack(
            runtime,
            "const v8 = await import('node:v8'); v8.setFlagsFromString('--expose-gc'); return 1",
        )
        assert result.value == 1
        for _ in range(4):
            probe = await runtime.run(
                build_request(
                    "const vm = await import('node:vm'); return vm.runInNewContext('typeof gc')"
                )
            )
            assert probe.value == "undefined"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("v8.setFlagsFromString('--random-seed=42')", id="random-seed"),
        pytest.param("run(`prlimit --pid ${process.pid} --fsize=1000:1000`)", id="limits"),
        pytest.param("fs.writeFileSync('/proc/self/oom_score_adj', '1000')", id="oom"),
        pytest.param("run(`taskset -ap 1 ${process.pid}`)", id="affinity"),
        pytest.param("run(`renice -n 5 ${fs.readdirSync('/proc/self/task').at(-2)}`)", id="nice"),
        pytest.param("process.title = 'mine'", id="title"),
    ],
)
async def test_a_change_to_the_process_does_not_reach_the_next_run(
    provider: Provider, change: str
) -> None:
    """SC-043, WT-038."""
    probe = """
    const fs = await import("node:fs");
    const nice = fs.readdirSync("/proc/self/task").map((t) =>
      fs.readFileSync(`/proc/self/task/${t}/stat`, "utf8").replace(/^.*\\) /s, "").split(" ")[16]);
    return [fs.readFileSync("/proc/self/limits", "utf8"), fs.readFileSync("/proc/self/oom_score_adj", "utf8"),
      /Cpus_allowed:.*/.exec(fs.readFileSync("/proc/self/status", "utf8"))[0],
      [...new Set(nice)], process.title, Math.random()]
    """
    prelude = """
    import fs from "node:fs"; import v8 from "node:v8"; import { execSync } from "node:child_process";
    const run = (command) => execSync(command, { stdio: "ignore" });
    """
    async with provider(spare_hosts=1) as runtime:
        first = await runtime.run(build_request(probe))
        assert isinstance(first.value, list)
        changed = await runtime.run(build_request(f"{prelude}{change}; return 1"))
        assert (changed.value, changed.error) == (1, None)
        randoms = {first.value[-1]}
        for _ in range(3):
            after = await runtime.run(build_request(probe))
            assert isinstance(after.value, list)
            assert after.value[:-1] == first.value[:-1]
            randoms.add(after.value[-1])
        assert len(randoms) == 4


CLOSE_ALL = """
const fs = await import("node:fs");
console.log("a");
for (let fd = 0; fd < 100; fd++) { try { fs.closeSync(fd) } catch {} }
for (;;) await new Promise(r => setTimeout(r, 10));
"""


async def test_closing_every_descriptor_ends_the_run(runtime: CodeRuntime) -> None:
    result = await attack(runtime, CLOSE_ALL)
    assert result.error is not None
    assert (result.logs, result.error.kind) == (["a"], "worker-exit")


async def test_garbage_on_every_descriptor_ends_the_run(runtime: CodeRuntime) -> None:
    result = await attack(
        runtime,
        """
        const fs = await import("node:fs");
        const junk = Buffer.from("\\x00\\xff junk ".repeat(50), "latin1");
        for (let fd = 3; fd < 60; fd++) { try { fs.writeSync(fd, junk) } catch {} }
        await new Promise(r => setTimeout(r, 5000));
        """,
    )
    assert result.error is not None
    assert result.error.kind == "worker-exit"


async def test_a_log_flood_is_cut_off_and_the_host_stays_small(provider: Provider) -> None:
    """WT-185."""
    import resource

    async with provider(max_output_bytes=1_000_000) as runtime:
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = await attack(runtime, "for (;;) console.log('x'.repeat(1000))")
        grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert result.error is not None
    assert result.error.kind == "output-limit"
    assert 0 < sum(map(len, result.logs)) < 1_000_000
    assert grown_kb < 50_000


async def test_a_flood_on_descriptor_1_is_cut_off(provider: Provider) -> None:
    """WT-064: counted and captured; WT-092."""
    async with provider(max_output_bytes=100_000) as runtime:
        result = await attack(
            runtime,
            "const fs = await import('node:fs'); for (;;) fs.writeSync(1, 'y'.repeat(999) + '\\n')",
        )
    assert result.error is not None
    assert result.error.kind == "output-limit"
    assert result.logs[0] == "y" * 999


async def test_a_blocking_native_call_delays_nothing(provider: Provider, marker: str) -> None:
    """WT-157, GP-004: 10 s of execSync under a wall limit of 0.5 s, back within 1 s."""
    async with provider(max_wall_ms=500) as runtime:
        before_s = time.monotonic()
        result = await runtime.run(
            build_request(
                "const c = await import('node:child_process'); "
                f"console.log('a'); c.execSync('exec -a {marker}-block sleep 10', {{shell: '/bin/bash'}})"
            )
        )
        took_s = time.monotonic() - before_s
    assert result.error is not None
    assert (result.logs, result.error.kind) == (["a"], "timeout")
    assert took_s < 1.5  # the limit itself is 0.5 s; ten seconds would be the defect
    assert processes_with(f"{marker}-block") == []


async def test_children_are_gone_when_run_returns(runtime: CodeRuntime, marker: str) -> None:
    """WT-170, GP-005: detached ones and those of a session of their own included."""
    result = await attack(
        runtime,
        f"""
        const {{ spawn }} = await import("node:child_process");
        for (const detached of [true, false])
          spawn("/bin/bash", ["-c", "exec -a {marker}-child sleep 60"], {{ detached, stdio: "ignore" }}).unref();
        spawn("/bin/bash", ["-c", "setsid bash -c '(exec -a {marker}-child sleep 60) & disown' & disown"],
          {{ detached: true, stdio: "ignore" }}).unref();
        await new Promise(r => setTimeout(r, 200));
        return "done"
        """,
    )
    assert (result.value, result.error) == ("done", None)
    assert processes_with(f"{marker}-child") == []


async def test_a_tool_that_ignores_cancellation_does_not_hold_the_run(provider: Provider) -> None:
    release = anyio.Event()
    ended = anyio.Event()

    async def stubborn(_: object) -> None:
        with anyio.CancelScope(shield=True):
            await release.wait()
        ended.set()

    async with provider(binding_grace_ms=100) as runtime:
        result = await runtime.run(
            build_request(
                "tools.stubborn(null); await tools.echo(1); return 1",
                {"stubborn": stubborn, "echo": lambda v: v},
            )
        )
        assert not ended.is_set()
        assert [(call.member, call.outcome) for call in result.calls] == [
            ("stubborn", "abandoned"),
            ("echo", "ok"),
        ]
        release.set()
    assert ended.is_set()  # disposal has waited for it


HOST_SCRIPT = """
import sys, anyio
from code_runtime import CodeRunRequest, Context
from code_runtime_worker_thread import WorkerThreadCodeRuntime
async def main():
    async with Context() as ctx:
        await ctx.plugin(WorkerThreadCodeRuntime)
        await ctx.codeRuntime.run(CodeRunRequest(sys.argv[1], on_log=lambda text: print(text, flush=True)))
anyio.run(main)
"""


def test_nothing_survives_a_killed_host(marker: str) -> None:
    """`kill -9` of the Python host leaves no process after 2 s."""
    program = f"""
    const {{ spawn }} = await import("node:child_process");
    spawn("/bin/bash", ["-c", "exec -a {marker}-orphan setsid sleep 60"], {{ detached: true, stdio: "ignore" }});
    await new Promise(r => setTimeout(r, 100));
    console.log("ready"); for (;;);
    """
    host = subprocess.Popen(
        [sys.executable, "-c", HOST_SCRIPT, program], stdout=subprocess.PIPE, text=True
    )
    assert host.stdout is not None
    assert host.stdout.readline() == "ready\n"
    session = f"code-runtime-{host.pid}"
    family = descendants(host.pid)
    assert len(family) >= 5, family
    host.send_signal(signal.SIGKILL)
    host.wait()
    host.stdout.close()
    deadline_s = time.monotonic() + 2
    while alive(family) and time.monotonic() < deadline_s:
        time.sleep(0.01)  # polls the system: no one is left to wait for these
    assert alive(family) == [], session
    assert processes_with(f"{marker}-orphan") == []
