"""How runs start, overlap and end: abort, cancellation, disposal, queueing, forks, working directory."""

from __future__ import annotations

import os
import random
import threading

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from leftovers import snapshot_resources
from run_requests import Provider, Run, build_request

from code_runtime import (
    AbortSignal,
    BindingNameError,
    CodeBindingNamespace,
    CodeRunRequest,
    CodeRunResult,
    CodeRuntime,
    Context,
    ForkedHostError,
    RequestTypeError,
    RuntimeDisposedError,
    ServiceMissingError,
)
from code_runtime_worker_thread import WorkerThreadCodeRuntime

pytestmark = pytest.mark.anyio

FOREVER = "console.log('up'); await new Promise(() => {})"
HOT = "console.log('up'); for (;;);"


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None
    return result.error.kind, result.error.message


async def test_descriptors(runtime: CodeRuntime) -> None:
    """WT-006, SC-004, SC-005."""
    assert (runtime.language, runtime.isolation) == ("typescript", "worker-thread")


@pytest.mark.parametrize("program", [FOREVER, HOT], ids=["waiting", "hot"])
async def test_abort_ends_a_running_program_with_its_reason(run: Run, program: str) -> None:
    """SC-010, WT-161: logs printed before the abort are kept."""
    signal = AbortSignal()
    result = await run(program, signal=signal, on_log=lambda _: signal.abort("enough"))
    assert (result.logs, failure(result)) == (["up"], ("abort", "enough"))


async def test_abort_from_another_thread(run: Run) -> None:
    signal = AbortSignal()
    started = threading.Event()

    def abort_later() -> None:
        started.wait()
        signal.abort(ValueError("stop"))

    thread = threading.Thread(target=abort_later)
    thread.start()
    result = await run(HOT, signal=signal, on_log=lambda _: started.set())
    thread.join()
    assert failure(result) == ("abort", "ValueError: stop")


async def test_abort_without_a_reason(run: Run) -> None:
    """WT-161."""
    signal = AbortSignal()
    result = await run(HOT, signal=signal, on_log=lambda _: signal.abort())
    assert failure(result) == ("abort", "This operation was aborted")


async def test_an_unrenderable_reason_is_safe(run: Run) -> None:
    """WT-014, GP-001."""

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no text")

    signal = AbortSignal()
    result = await run(HOT, signal=signal, on_log=lambda _: signal.abort(Broken()))
    assert failure(result) == ("abort", "<unrenderable abort reason>")


async def test_a_fired_signal_starts_nothing(run: Run) -> None:
    """SC-011, WT-011: it wins over a program that would not parse."""
    signal = AbortSignal()
    signal.abort("before")
    result = await run("const x =", signal=signal)
    assert (result.logs, failure(result)) == ([], ("abort", "before"))


async def test_bad_bindings_are_refused_before_a_fired_signal_counts(run: Run) -> None:
    """WT-010, SC-036."""
    signal = AbortSignal()
    signal.abort("before")
    with pytest.raises(BindingNameError):
        await run("return 1", signal=signal, bindings=[CodeBindingNamespace("1a", {})])


async def test_a_request_of_a_wrong_type_is_refused(runtime: CodeRuntime) -> None:
    with pytest.raises(RequestTypeError) as caught:
        await runtime.run("return 1")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Cannot build WorkerThreadCodeRuntime.run: request is 'return 1' (str), "
        "expected CodeRunRequest"
    )


async def test_abort_from_inside_a_binding(run: Run) -> None:
    """WT-139; WT-138: the resolution that lands later changes nothing."""
    signal = AbortSignal()

    async def stop(_: object) -> str:
        signal.abort("from the tool")
        return "late"

    result = await run("return await tools.stop(1)", {"stop": stop}, signal=signal)
    assert failure(result) == ("abort", "from the tool")


async def test_the_listener_is_removed_when_the_run_is_over(run: Run) -> None:
    """WT-163."""
    signal = AbortSignal()
    await run("return 1", signal=signal)
    assert not signal._listeners


async def test_cancelling_run_kills_the_program_and_reraises(runtime: CodeRuntime) -> None:
    up = anyio.Event()
    ended = False

    async def call() -> None:
        nonlocal ended
        try:
            await runtime.run(build_request(HOT, on_log=lambda _: up.set()))
        except anyio.get_cancelled_exc_class():
            ended = True
            raise

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(call)
        await up.wait()
        task_group.cancel_scope.cancel()
    assert ended


@pytest.mark.slow
async def test_cancellation_at_random_points_leaves_nothing(provider: Provider) -> None:
    """300 cancellations in all over both backends and three programs."""
    rng = random.Random(20261129)
    programs = (HOT, FOREVER, "for (let i = 0; i < 50; i++) await tools.echo(i); return 'x'")

    async def echo(value: object) -> object:
        await anyio.lowlevel.checkpoint()
        return value

    before = snapshot_resources()
    async with provider(spare_hosts=2) as runtime:
        for index in range(150):
            with anyio.move_on_after(rng.random() * 0.03):
                await runtime.run(build_request(programs[index % 3], {"echo": echo}))
        result = await runtime.run(build_request("return await tools.echo('fine')", {"echo": echo}))
        assert result.value == "fine"
    after = snapshot_resources()
    assert (after[0] - before[0], after[2] - before[2]) == (set(), set())


async def test_runs_overlap(runtime: CodeRuntime) -> None:
    """SC-046: each waits for the other."""
    met = 0
    both = anyio.Event()

    async def meet(_: object) -> None:
        nonlocal met
        met += 1
        if met == 2:
            both.set()
        await both.wait()

    results: list[CodeRunResult] = []

    async def one() -> None:
        results.append(
            await runtime.run(build_request("await tools.meet(0); return 1", {"meet": meet}))
        )

    async with anyio.create_task_group() as task_group:
        task_group.start_soon(one)
        task_group.start_soon(one)
    assert [result.value for result in results] == [1, 1]


async def test_runs_above_the_cap_wait_and_their_wall_budget_does_not_run(
    provider: Provider,
) -> None:
    """GP-014."""
    first_up, release = anyio.Event(), anyio.Event()

    async def hold(_: object) -> None:
        first_up.set()
        await release.wait()

    results: dict[str, CodeRunResult] = {}
    async with provider(max_concurrent_runs=1) as runtime:

        async def start(name: str, program: str, **request: object) -> None:
            results[name] = await runtime.run(build_request(program, {"hold": hold}, **request))

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(start, "first", "await tools.hold(0); return 1")
            await first_up.wait()
            signal = AbortSignal()
            queued = build_request("return 2", max_wall_ms=300)
            aborted = build_request("return 3", signal=signal)

            async def run_into(name: str, request: CodeRunRequest) -> None:
                results[name] = await runtime.run(request)

            task_group.start_soon(run_into, "queued", queued)
            task_group.start_soon(run_into, "aborted", aborted)
            await anyio.sleep(0.35)  # longer than the queued run's whole budget
            assert "queued" not in results
            signal.abort("gave up")
            while "aborted" not in results:
                await anyio.lowlevel.checkpoint()
            release.set()
    assert failure(results["aborted"]) == ("abort", "gave up")
    assert (results["first"].value, results["queued"].value) == (1, 2)


async def test_a_request_can_lower_the_wall_ceiling_and_not_raise_it(provider: Provider) -> None:
    async with provider(max_wall_ms=400) as runtime:
        lowered = await runtime.run(build_request(FOREVER, max_wall_ms=200))
        raised = await runtime.run(build_request(FOREVER, max_wall_ms=9_000))
    assert failure(lowered) == ("timeout", "wall-clock ceiling exceeded: 200 ms")
    assert failure(raised) == ("timeout", "wall-clock ceiling exceeded: 400 ms")


async def test_disposal_aborts_the_runs_and_waits_for_their_processes(
    anyio_backend: str,
) -> None:
    """SC-045, WT-171, WT-173, SC-003."""
    before = snapshot_resources()[0]
    up = anyio.Event()
    results: list[CodeRunResult] = []
    async with Context() as ctx:
        handle = await ctx.plugin(WorkerThreadCodeRuntime)
        runtime = ctx.codeRuntime

        async def one() -> None:
            results.append(await runtime.run(build_request(HOT, on_log=lambda _: up.set())))

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(one)
            await up.wait()
            await handle.dispose()
            assert snapshot_resources()[0] - before == set()
        assert [(r.logs, failure(r)) for r in results] == [(["up"], ("abort", "runtime disposed"))]
        with pytest.raises(RuntimeDisposedError):
            await runtime.run(build_request("return 1"))
        with pytest.raises(ServiceMissingError):
            _ = ctx.codeRuntime
        await handle.dispose()


async def test_disposal_right_after_run_was_called(anyio_backend: str) -> None:
    """WT-172."""
    results: list[CodeRunResult] = []
    async with Context() as ctx:
        handle = await ctx.plugin(WorkerThreadCodeRuntime)
        runtime = ctx.codeRuntime

        async def one() -> None:
            results.append(await runtime.run(build_request("return 1")))

        async with anyio.create_task_group() as task_group:
            task_group.start_soon(one)
            await anyio.lowlevel.checkpoint()
            await handle.dispose()
    assert [failure(result) for result in results] == [("abort", "runtime disposed")]


async def test_no_state_crosses_from_one_run_to_the_next(provider: Provider) -> None:
    """SC-043, WT-038, WT-034: with one host that serves all of them."""
    async with provider(spare_hosts=1, max_concurrent_runs=1) as runtime:
        for _ in range(4):
            result = await runtime.run(
                build_request(
                    """
                    const g = globalThis as any; const seen = g.mark ?? null; g.mark = 1;
                    process.env.MARK ??= ""; const env = process.env.MARK; process.env.MARK = "1";
                    (Array.prototype as any).mark ??= 0;
                    return [seen, env, (Array.prototype as any).mark++]
                    """
                )
            )
            assert result.value == [None, "", 0]


async def test_working_directory_is_private_empty_and_gone_afterwards(run: Run) -> None:
    result = await run(
        """
        import fs from "node:fs"; import os from "node:os";
        const before = fs.readdirSync(".");
        fs.mkdirSync("a/b", { recursive: true }); fs.writeFileSync("a/b/c.txt", "x"); fs.chmodSync("a", 0);
        return [process.cwd(), os.tmpdir(), before, JSON.stringify(process.env)]
        """
    )
    assert isinstance(result.value, list), result
    cwd, tmpdir, before, env = result.value
    assert isinstance(cwd, str)
    assert (tmpdir, before, env) == (cwd, [], f'{{"TMPDIR":"{cwd}"}}')
    assert not await anyio.Path(cwd).exists()


async def test_a_forked_copy_of_the_host_is_refused(runtime: CodeRuntime) -> None:
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover - the forked copy
        try:
            coroutine = runtime.run(build_request("return 1"))
            try:
                coroutine.send(None)
            except ForkedHostError as error:
                os.write(write, str(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    await anyio.to_thread.run_sync(os.waitpid, pid, 0)
    with os.fdopen(read) as stream:
        text = stream.read()
    assert text == (
        f"Cannot use WorkerThreadCodeRuntime: process {pid} is a fork of process {os.getpid()} "
        "that started it, expected a Context of its own in each process"
    )


async def test_a_raising_on_log_surfaces_only_when_the_run_is_over(run: Run) -> None:
    seen: list[str] = []

    def on_log(text: str) -> None:
        seen.append(text)
        raise LookupError("observer broke")

    with pytest.raises(LookupError) as caught:
        await run(
            "console.log('a'); console.log('b'); return await tools.echo(5)",
            {"echo": lambda v: v},
            on_log=on_log,
        )
    result = caught.value.result  # type: ignore[attr-defined]
    assert (seen, result.logs, result.value) == (["a"], ["a", "b"], 5)


async def test_logs_arrive_while_the_program_runs(run: Run) -> None:
    """SC-006: better than upstream, which has no live logs."""
    seen: list[str] = []
    result = await run(
        "console.log('one'); return await tools.look(0)",
        {"look": lambda _: list(seen)},
        on_log=seen.append,
    )
    assert result.value == ["one"]


async def test_record_keeps_times_and_previews(run: Run) -> None:
    result = await run(
        "console.log('a'); await tools.echo({text: 'x'.repeat(5000)}); console.log('b'); return 1",
        {"echo": lambda value: value},
        record=True,
    )
    assert result.log_times_ms is not None
    assert len(result.log_times_ms) == 2
    assert 0 <= result.log_times_ms[0] <= result.log_times_ms[1]
    (call,) = result.calls
    assert call.argument_preview == '{"text":"' + "x" * (2045 - 9) + "…"
    assert call.result_preview == call.argument_preview
    plain = await run("await tools.echo(1); return 1", {"echo": lambda value: value})
    assert (plain.log_times_ms, plain.calls[0].argument_preview) == (None, None)


async def test_the_journal_is_bounded(run: Run) -> None:
    result = await run(
        "for (let i = 0; i < 10_050; i++) await tools.echo(i); return 1", {"echo": lambda v: v}
    )
    assert (result.value, len(result.calls), result.calls_dropped) == (1, 10_000, 50)


async def test_a_fault_that_is_no_exception_surfaces_from_run(run: Run) -> None:
    class Stop(BaseException):
        pass

    def stop(_: object) -> None:
        raise Stop

    with pytest.raises(Stop):
        await run("await tools.stop(1); for (;;);", {"stop": stop})


async def test_a_host_is_replaced_after_its_runs(provider: Provider) -> None:
    async with provider(runs_per_host=1, spare_hosts=1) as runtime:
        pids = [(await runtime.run(build_request("return process.pid"))).value for _ in range(3)]
    assert len(set(pids)) == 3
