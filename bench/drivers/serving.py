"""What every Python driver shares: the lines between it and the runner, and the bindings.

Standard library only, and importable as a plain script beside a driver: peers have an environment
of their own.

The protocol: one JSON object per line, an answer for each request, in order. A request is

- `{"op": "about"}`: answered with `{"name", "version", "isolation", "lacks": {feature: reason}}`.
- `{"op": "run", "program", "repeat", "concurrency", "rest_ms", "prepare"}`: runs one program
  `repeat` times, and answers `{"ms": [...], "total_ms", "value", "log_count", "last_log"}`; value
  and logs are those of the last run. `prepare` names data that is built before the clock starts.
- `{"op": "hold", "program", "count"}`: answers `{"held": count}` once `count` runs wait in the
  binding `hold`, and `{"value"}` after the next line, which releases them.

An answer with `error` says that the work failed, and how. The request in `--first` is done before
anything is read, so that a cold start holds no round trip.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence


class Outcome(NamedTuple):
    """What one run gave back."""

    value: object
    logs: Sequence[str]


class Waitable(Protocol):
    """An event of the driver's own loop."""

    def set(self) -> object:
        """Wake everyone who waits."""
        ...

    async def wait(self) -> object:
        """Wait until it is set."""
        ...


class Loop(Protocol):
    """What a driver needs of its event loop."""

    def event(self) -> Waitable:
        """Make an event."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let other tasks run meanwhile."""
        ...

    async def together(self, tasks: Sequence[Callable[[], Awaitable[None]]]) -> None:
        """Run all, and raise what one raises."""
        ...

    async def read_line(self) -> str:
        """Read a line of standard input off the loop; empty at its end."""
        ...


class Subject(Protocol):
    """The runtime under measurement."""

    def about(self) -> dict[str, object]:
        """Name it: see `about` in the protocol."""
        ...

    async def run(self, program: str) -> Outcome:
        """Run one program on a fresh world; raise if it fails."""
        ...


def build_items(kind: str, count: int) -> list[dict[str, object]]:
    """Build the data that crosses: `wide` items take about 100 bytes of JSON, `small` ones 12."""
    if kind == "small":
        return [{"id": index} for index in range(count)]
    return [
        {
            "id": index,
            "name": f"item {index}",
            "tags": ["red", "large"],
            "price": index + 0.5,
            "stock": True,
            "note": "on the shelf",
        }
        for index in range(count)
    ]


class Bindings:
    """The functions that programs of the benchmark call."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._items: dict[tuple[str, int], list[dict[str, object]]] = {}
        self.held = 0
        self.wanted = 0
        self.all_held = loop.event()
        self.released = loop.event()

    def functions(self) -> Mapping[str, Callable[[object], Awaitable[object]]]:
        """Return them under the names that programs use."""
        return {"echo": self.echo, "make": self.make, "take": self.take, "hold": self.hold}

    def prepare(self, kind: str, count: int) -> list[dict[str, object]]:
        """Build data once."""
        key = (kind, count)
        if key not in self._items:
            self._items = {key: build_items(kind, count)}
        return self._items[key]

    def expect(self, count: int) -> None:
        """Make `all_held` wait for `count` calls of `hold`."""
        self.held, self.wanted = 0, count
        self.all_held, self.released = self._loop.event(), self._loop.event()

    async def echo(self, value: object) -> object:
        """Return the argument."""
        return value

    async def make(self, asked: object) -> object:
        """Return `count` items of a `kind`."""
        if not isinstance(asked, dict):
            raise TypeError(f"Cannot make items: {asked!r}, expected kind and count")
        return self.prepare(asked["kind"], int(asked["count"]))

    async def take(self, items: object) -> object:
        """Return how many items came, and the id of the last."""
        if not isinstance(items, list):
            raise TypeError(f"Cannot take items: {type(items).__name__}, expected a list")
        return [len(items), items[-1]["id"]]

    async def hold(self, value: object) -> object:
        """Wait for the runner's next line."""
        self.held += 1
        if self.held == self.wanted:
            self.all_held.set()
        await self.released.wait()
        return value


class Server:
    """Answers the runner's requests, one after another."""

    def __init__(self, loop: Loop, bindings: Bindings, subject: Subject) -> None:
        self._loop = loop
        self._bindings = bindings
        self._subject = subject

    async def serve(self) -> None:
        """Answer until standard input ends."""
        if sys.argv[-2:-1] == ["--first"]:
            await self._answer(sys.argv[-1])
        while line := await self._loop.read_line():
            await self._answer(line)

    async def _answer(self, line: str) -> None:
        request = json.loads(line)
        try:
            match request["op"]:
                case "about":
                    answer = self._subject.about()
                case "run":
                    answer = await self._run(**request)
                case "hold":
                    answer = await self._hold(**request)
                case other:
                    answer = {"error": f"Cannot serve {other!r}, expected about, run or hold"}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:2_000]}
        send(answer)

    async def _run(
        self,
        program: str,
        op: str = "run",
        repeat: int = 1,
        concurrency: int = 1,
        rest_ms: float = 0,
        prepare: Sequence[object] = (),
    ) -> dict[str, object]:
        if prepare:
            self._bindings.prepare(str(prepare[0]), int(str(prepare[1])))
        times_ms: list[float] = []
        last = Outcome(None, ())
        left = repeat

        async def work() -> None:
            nonlocal last, left
            while left > 0:
                left -= 1
                if rest_ms:
                    await self._loop.sleep(rest_ms / 1_000)
                begin = time.perf_counter()
                last = await self._subject.run(program)
                times_ms.append((time.perf_counter() - begin) * 1_000)

        begin = time.perf_counter()
        await self._loop.together([work] * concurrency)
        return {
            "ms": times_ms,
            "total_ms": (time.perf_counter() - begin) * 1_000,
            "value": last.value,
            "log_count": len(last.logs),
            "last_log": last.logs[-1] if last.logs else None,
        }

    async def _hold(self, program: str, count: int, op: str = "hold") -> dict[str, object]:
        bindings = self._bindings
        bindings.expect(count)
        values: list[object] = []

        async def work() -> None:
            values.append((await self._subject.run(program)).value)

        async def release() -> None:
            await bindings.all_held.wait()
            send({"held": count})
            await self._loop.read_line()
            bindings.released.set()

        await self._loop.together([*[work] * count, release])
        return {"value": values}


def send(answer: Mapping[str, object]) -> None:
    """Write one answer."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
