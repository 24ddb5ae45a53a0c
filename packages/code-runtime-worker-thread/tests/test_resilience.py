"""What goes wrong around a run ends that run at most, never the provider."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from leftovers import snapshot_resources
from run_requests import Provider, build_request

from code_runtime import CodeRunResult, CodeRuntime, Context
from code_runtime._execution._logs import LogObserver
from code_runtime_worker_thread import WorkerThreadCodeRuntime

pytestmark = pytest.mark.anyio


async def run_fine(runtime: CodeRuntime) -> None:
    result = await runtime.run(build_request("return await tools.echo(1)", {"echo": lambda v: v}))
    assert (result.value, result.error) == (1, None)


def node_pids() -> list[int]:
    """List the Node hosts below this process."""
    found = []
    for item in snapshot_resources()[0]:
        pid = int(item.split()[0])
        with suppress(OSError):  # it has just ended
            if b"host.mjs" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


class Odd(Exception):
    """An error whose text cannot be made, in the worst way."""

    def __str__(self) -> str:
        raise SystemExit(1)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
async def test_an_error_without_a_text_fails_its_call_only(
    provider: Provider, is_async: bool
) -> None:
    """WT-142, BF-022."""

    def plain(_: object) -> None:
        raise Odd

    async def later(_: object) -> None:
        raise Odd

    async with provider() as runtime:
        result = await runtime.run(
            build_request(
                "try { await tools.odd(1) } catch (error) { return error.message }",
                {"odd": later if is_async else plain},
            )
        )
        assert result.value == "<unrenderable binding error>"
        await run_fine(runtime)


async def test_a_plain_function_that_makes_up_a_cancellation_fails_its_call(
    provider: Provider,
) -> None:
    def cancelled(_: object) -> None:
        raise asyncio.CancelledError("made up")

    async with provider() as runtime:
        request = build_request(
            "try { await tools.cancelled(1) } catch (error) { return error.message }",
            {"cancelled": cancelled},
        )
        if isinstance(asyncio.CancelledError(), anyio.get_cancelled_exc_class()):
            assert (await runtime.run(request)).value == "made up"
        else:
            with pytest.raises(asyncio.CancelledError):
                await runtime.run(request)
        await run_fine(runtime)


async def test_a_program_may_delete_the_folder_of_all_runs(provider: Provider) -> None:
    async with provider() as runtime:
        gone = await runtime.run(
            build_request(
                """
                import fs from "node:fs"; import path from "node:path";
                fs.rmSync(path.dirname(process.cwd()), { recursive: true }); return 1
                """
            )
        )
        assert gone.value == 1
        for _ in range(4):
            await run_fine(runtime)


async def test_hosts_that_die_or_freeze_while_they_wait_cost_no_run(provider: Provider) -> None:
    async with provider() as runtime:
        await run_fine(runtime)
        for number in (signal.SIGKILL, signal.SIGSTOP):
            for pid in node_pids():
                os.kill(pid, number)
            await run_fine(runtime)


async def test_a_node_that_freezes_while_it_boots_costs_no_run(provider: Provider) -> None:
    """It is told to go on, long before its boot would be given up after a minute."""
    async with provider(spare_hosts=1) as runtime:
        await run_fine(runtime)
        known = set(node_pids())
        for pid in known:
            os.kill(pid, signal.SIGKILL)
        frozen: set[int] = set()

        async def freeze() -> None:
            while True:
                for pid in set(node_pids()) - known - frozen:
                    os.kill(pid, signal.SIGSTOP)
                    frozen.add(pid)
                await anyio.sleep(0.001)

        with anyio.fail_after(25):
            async with anyio.create_task_group() as task_group:
                task_group.start_soon(freeze)
                await run_fine(runtime)
                task_group.cancel_scope.cancel()
        assert frozen != set()


async def test_a_native_cancellation_does_not_cut_the_end_of_a_run_short(
    provider: Provider, anyio_backend: str
) -> None:
    """`task.cancel()` of asyncio passes through every shield of anyio."""
    if anyio_backend == "trio":
        return  # trio has no such cancellation
    program = """
    const { spawn } = await import("node:child_process");
    (await import("node:v8")).setFlagsFromString("--expose-gc");
    spawn("sleep", ["30"], { detached: true, stdio: "ignore" }).unref(); return 1
    """
    async with provider(spare_hosts=1) as runtime:
        for delay_ms in range(0, 40, 2):
            before = snapshot_resources()[0]
            task = asyncio.ensure_future(runtime.run(build_request(program)))
            await asyncio.sleep(delay_ms / 1000)
            task.cancel()
            await asyncio.wait([task])
            left = {item for item in snapshot_resources()[0] - before if "(sleep)" in item}
            assert left == set()
        probe = "const vm = await import('node:vm'); return vm.runInNewContext('typeof gc')"
        for _ in range(3):
            assert (await runtime.run(build_request(probe))).value == "undefined"


async def test_a_muted_meter_does_not_lift_the_compute_budget(provider: Provider) -> None:
    """WT-151, WT-160, GP-009: the kernel's clock of the process is a second bound."""
    program = """
    import fs from "node:fs"; import { spawn } from "node:child_process";
    const forger = `const b = Buffer.from([0,0,0,4,0x93,19,1,0]);
      setInterval(() => require("fs").writeSync(3, b), 20)`;
    spawn(process.execPath, ["-e", forger], { stdio: ["ignore", "ignore", "ignore", 3] });
    await new Promise(r => setTimeout(r, 300));
    fs.closeSync(3); fs.openSync("/dev/null", "w");
    for (;;);
    """
    async with provider(compute_ms=400, max_wall_ms=20_000, spare_hosts=1) as runtime:
        result = await runtime.run(build_request(program))
        assert result.error is not None
        assert result.error.kind in ("timeout", "worker-exit")
        assert "wall-clock" not in result.error.message
        await run_fine(runtime)


async def test_nested_workers_are_bounded_too(provider: Provider) -> None:
    """WT-160, GP-009."""
    program = """
    const { Worker } = await import("node:worker_threads");
    for (let i = 0; i < 2; i++) new Worker("for (;;);", { eval: true });
    await new Promise(() => {});
    """
    async with provider(compute_ms=300, max_wall_ms=30_000) as runtime:
        result = await runtime.run(build_request(program))
    assert result.error is not None
    assert result.error.kind == "timeout"
    assert result.error.message.startswith("compute budget exceeded: 300 ms of busy time (")


async def test_an_exit_is_seen_although_a_child_holds_the_socket(provider: Provider) -> None:
    program = """
    import fs from "node:fs"; import { spawn } from "node:child_process";
    const sockets = fs.readdirSync("/proc/self/fd").map(Number).filter((fd) => {
      try { return fs.fstatSync(fd).isSocket() } catch { return false } });
    spawn("sleep", ["20"], { stdio: ["ignore", "ignore", "ignore", ...sockets] });
    process.exit(7);
    """
    async with provider(max_wall_ms=15_000) as runtime:
        result = await runtime.run(build_request(program))
    assert result.error is not None
    assert (result.error.kind, result.error.message) == (
        "worker-exit",
        "worker exited with code 7 before completing",
    )


async def test_text_that_looks_like_a_dump_is_charged_like_any_other(provider: Provider) -> None:
    program = """
    import fs from "node:fs";
    fs.writeSync(2, "FATAL ERROR: not really\\n");
    for (let i = 0; i < 200; i++) fs.writeSync(2, "x".repeat(9_999) + "\\n");
    return 1
    """
    async with provider(max_output_bytes=1_000_000) as runtime:
        result = await runtime.run(build_request(program))
        kept = await runtime.run(
            build_request(
                "const fs = await import('node:fs'); fs.writeSync(2, 'FATAL ERROR: no\\n')"
            )
        )
    assert result.error is not None
    assert result.error.kind == "output-limit"
    assert kept.logs == ["FATAL ERROR: no"]


async def test_a_load_that_is_cancelled_leaves_nothing(anyio_backend: str) -> None:
    for delay_ms in (5, 30, 60, 120, 200):
        with anyio.move_on_after(delay_ms / 1000):
            async with Context() as ctx:
                await ctx.plugin(WorkerThreadCodeRuntime)
                await anyio.sleep_forever()


async def test_an_abort_from_a_signal_handler(provider: Provider) -> None:
    from code_runtime import AbortSignal

    abort = AbortSignal()
    before = signal.signal(signal.SIGUSR2, lambda *_: abort.abort("by signal"))
    try:
        async with provider() as runtime:
            result: CodeRunResult = await runtime.run(
                build_request(
                    f"console.log('up'); process.kill({os.getpid()}, 'SIGUSR2'); for (;;);",
                    signal=abort,
                )
            )
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert result.error is not None
    assert (result.error.kind, result.error.message) == ("abort", "by signal")


async def test_a_fault_of_our_own_in_a_log_ends_its_run(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever raises where frames are read, the run does not wait for its wall."""

    def fail(_: LogObserver) -> None:
        raise RuntimeError("a fault of our own")

    async with provider() as runtime:
        with monkeypatch.context() as patch:
            patch.setattr(LogObserver, "mark", fail)
            result = await runtime.run(build_request("console.log('x'); for (;;);"))
        assert result.error is not None
        assert (result.error.kind, result.error.message) == (
            "worker-exit",
            "the Node process was killed: its output could not be read",
        )
        await run_fine(runtime)
