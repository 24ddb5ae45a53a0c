"""What is this provider's own in the life of a run; `code_runtime.testing` has what every provider does."""

from __future__ import annotations

import os

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from run_requests import Provider, Run, build_request

from code_runtime import (
    CodeRunResult,
    CodeRuntime,
    ForkedHostError,
    RequestTypeError,
)

pytestmark = pytest.mark.anyio

FOREVER = "console.log('up'); await new Promise(() => {})"
HOT = "console.log('up'); for (;;);"


def failure(result: CodeRunResult) -> tuple[str, str]:
    assert result.error is not None
    return result.error.kind, result.error.message


async def test_descriptors(runtime: CodeRuntime) -> None:
    """WT-006, SC-004, SC-005."""
    assert (runtime.language, runtime.isolation) == ("typescript", "worker-thread")


async def test_a_request_of_a_wrong_type_is_refused(runtime: CodeRuntime) -> None:
    with pytest.raises(RequestTypeError) as caught:
        await runtime.run("return 1")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "Cannot build WorkerThreadCodeRuntime.run: request is 'return 1' (str), "
        "expected CodeRunRequest"
    )


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


async def test_a_host_is_replaced_after_its_runs(provider: Provider) -> None:
    async with provider(runs_per_host=1, spare_hosts=1) as runtime:
        pids = [(await runtime.run(build_request("return process.pid"))).value for _ in range(3)]
    assert len(set(pids)) == 3
