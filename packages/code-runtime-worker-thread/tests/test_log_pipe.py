"""The pipe of a worker's logs: their order with calls and ends, and what else may come through it.

`test_peer.py` sends junk through it, `test_streams.py` and the conformance suite hold the logs
themselves.
"""

from __future__ import annotations

import os

import anyio
import pytest
from forgery import FORGE
from run_requests import Provider, Run, build_request, slowly

pytestmark = pytest.mark.anyio

COUNT = 5_000


async def test_lines_before_a_call_are_told_before_its_function_is_called(run: Run) -> None:
    """The call comes by the socket, and may arrive first."""
    told: list[str] = []
    told_counts: list[int] = []

    def mark(value: object) -> None:
        told_counts.append(len(told))

    result = await run(
        f"""
        for (let turn = 0; turn < 5; turn++) {{
          for (let i = 0; i < {COUNT}; i++) console.log("line", i);
          await tools.mark(turn);
        }}
        """,
        {"mark": mark},
        on_log=told.append,
    )
    assert result.error is None
    assert told_counts == [COUNT * turn for turn in range(1, 6)]
    assert result.logs == told == [f"line {i}" for _ in range(5) for i in range(COUNT)]


async def test_lines_before_a_kill_are_kept(provider: Provider) -> None:
    """WT-159: more of them than the pipe holds."""
    async with provider(compute_ms=5_000, max_wall_ms=60_000) as runtime:
        result = await runtime.run(
            build_request(f"for (let i = 0; i < {COUNT}; i++) console.log(i); process.exit(3)")
        )
    assert result.error is not None
    assert result.error.message == "worker exited with code 3 before completing"
    assert result.logs == [str(i) for i in range(COUNT)]


async def test_forged_line_in_the_pipe_is_a_line(run: Run) -> None:
    result = await run(FORGE + "throughPipe(); log('\"forged\"'); console.log('own')")
    assert (result.logs, result.error) == (["forged", "own"], None)


async def test_call_through_the_pipe_ends_the_run(run: Run) -> None:
    seen: list[object] = []
    result = await run(
        FORGE + "throughPipe(); call(1, ['tools', 'echo'], '1'); for (;;);", {"echo": seen.append}
    )
    assert result.error is not None
    assert (result.error.kind, result.error.message, seen) == (
        "worker-exit",
        "the Node process was killed: the worker sent CALL through the pipe of its logs",
        [],
    )


async def test_program_that_closes_the_pipe_ends_only_itself(provider: Provider) -> None:
    async with provider() as runtime:
        result = await runtime.run(
            build_request(
                FORGE + "console.log('before'); pipes.forEach((fd) => fs.closeSync(fd)); "
                "console.log('after'); await new Promise(() => {})"
            )
        )
        after = await runtime.run(build_request("console.log('next'); return 1"))
    assert result.error is not None
    assert (result.logs, result.error.kind) == (["before"], "worker-exit")
    assert (after.logs, after.value, after.error) == (["next"], 1, None)


async def test_process_that_keeps_the_pipe_keeps_no_run(provider: Provider) -> None:
    """A process of the program has the writing end; it is killed, and nobody waits for its end."""
    program = (
        FORGE
        + """
        const { spawn } = process.getBuiltinModule("child_process");
        spawn("/bin/sleep", ["100"], { stdio: ["ignore", "ignore", "ignore", ...pipes] });
        console.log("kept"); return 1
    """
    )
    async with provider() as runtime:
        with anyio.fail_after(20):
            result = await runtime.run(build_request(program))
            after = await runtime.run(build_request("console.log('next'); return 2"))
    assert (result.logs, result.value, result.error) == (["kept"], 1, None)
    assert (after.logs, after.value, after.error) == (["next"], 2, None)


async def test_call_is_answered_though_the_program_prints_on_and_on(run: Run) -> None:
    """What is printed after the call is not waited for, though it comes faster than it is told."""
    told: list[str] = []

    result = await run(
        """
        let answered = false;
        let count = 0;
        for (; !answered; count++) {
          console.log("x");
          if (count === 2_500) tools.echo(1).then(() => { answered = true });
          if (count % 1_000 === 0) await new Promise((resolve) => setImmediate(resolve));
        }
        return count
        """,
        {"echo": lambda value: value},
        on_log=slowly(told.append),
        max_wall_ms=20_000,
    )
    assert result.error is None
    assert len(told) == result.value


@pytest.mark.parametrize("end", ["return 1", "for (;;);", "process.exit(0)"])
async def test_name_of_the_pipe_is_the_programs_to_use(provider: Provider, end: str) -> None:
    """What a program puts there is removed with the folder, and disturbs nobody before."""
    program = FORGE + f"fs.mkdirSync(name(pipes[0]).slice(0, -10)); console.log('made'); {end}"
    async with provider(max_wall_ms=1_000) as runtime:
        result = await runtime.run(build_request(program))
        after = await runtime.run(build_request("console.log('next'); return 2"))
    assert result.logs == ["made"]
    assert (after.logs, after.value, after.error) == (["next"], 2, None)


async def test_pipe_of_a_run_has_no_name(run: Run) -> None:
    """No other program can open it by name."""
    result = await run(FORGE + "return pipes.map((fd) => fs.existsSync(name(fd).slice(0, -10)))")
    assert result.value == [False]


async def test_lines_come_by_the_socket_where_there_are_no_named_pipes(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, mode: int = 0o666) -> None:
        raise PermissionError(1, "Operation not permitted", path)

    monkeypatch.setattr(os, "mkfifo", refuse)
    async with provider() as runtime:
        result = await runtime.run(
            build_request(FORGE + f"for (let i = 0; i < {COUNT}; i++) console.log(i); return pipes")
        )
    assert (result.logs, result.value) == ([str(i) for i in range(COUNT)], [])
