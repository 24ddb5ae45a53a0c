"""The programs of the figures, in both languages: the same work, and a value that proves it."""

from __future__ import annotations

from .subjects import Language

TRIVIAL: dict[Language, str] = {"typescript": "return 1 + 1;", "python": "return 1 + 1"}

HOLD: dict[Language, str] = {
    "typescript": "return await tools.hold(7);",
    "python": "return await tools.hold(7)",
}

_SEQUENTIAL: dict[Language, str] = {
    "typescript": """
const times = [];
let wrong = 0;
for (let i = 0; i < COUNT; i += 1) {
  const begin = performance.now();
  const back = await tools.echo(i);
  times.push((performance.now() - begin) * 1000);
  if (back !== i) wrong += 1;
}
const total = times.reduce((sum, time) => sum + time, 0);
times.sort((a, b) => a - b);
const [p50, p95] = [times[Math.floor(COUNT * 0.5)], times[Math.floor(COUNT * 0.95)]];
return { wrong, least: times[0], p50, p95, mean: total / COUNT };
""",
    "python": """
from time import perf_counter
times = []
wrong = 0
for i in range(COUNT):
    begin = perf_counter()
    back = await tools.echo(i)
    times.append((perf_counter() - begin) * 1000000)
    if back != i:
        wrong += 1
total = sum(times)
times = sorted(times)
p50, p95 = times[COUNT * 50 // 100], times[COUNT * 95 // 100]
return {"wrong": wrong, "least": times[0], "p50": p50, "p95": p95, "mean": total / COUNT}
""",
}

_GATHER: dict[Language, str] = {
    "typescript": """
const asked = Array.from({ length: COUNT }, (_, i) => i);
const begin = performance.now();
const back = await Promise.all(asked.map((i) => tools.echo(i)));
const seconds = (performance.now() - begin) / 1000;
let wrong = 0;
for (let i = 0; i < COUNT; i += 1) if (back[i] !== i) wrong += 1;
return { wrong, per_second: COUNT / seconds };
""",
    "python": """
import asyncio
from time import perf_counter
begin = perf_counter()
back = await asyncio.gather(*[tools.echo(i) for i in range(COUNT)])
seconds = perf_counter() - begin
wrong = 0
for i in range(COUNT):
    if back[i] != i:
        wrong += 1
return {"wrong": wrong, "per_second": COUNT / seconds}
""",
}

_VALUE_IN: dict[Language, str] = {
    "typescript": """
const items = await tools.make({ kind: "KIND", count: COUNT });
return [items.length, items[COUNT - 1].id];
""",
    "python": """
items = await tools.make({"kind": "KIND", "count": COUNT})
return [len(items), items[COUNT - 1]["id"]]
""",
}

_VALUE_IN_OUT: dict[Language, str] = {
    "typescript": """
return await tools.take(await tools.make({ kind: "KIND", count: COUNT }));
""",
    "python": """
return await tools.take(await tools.make({"kind": "KIND", "count": COUNT}))
""",
}

_LOGS: dict[Language, str] = {
    "typescript": """
for (let i = 0; i < COUNT; i += 1) console.log("line", i);
return COUNT;
""",
    "python": """
for i in range(COUNT):
    print("line", i)
return COUNT
""",
}


def _fill(program: str, count: int, kind: str = "") -> str:
    return program.replace("COUNT", str(count)).replace("KIND", kind)


def sequential(language: Language, count: int) -> str:
    """Return a program that times `count` calls, one after another; µs by the program's clock."""
    return _fill(_SEQUENTIAL[language], count)


def gather(language: Language, count: int) -> str:
    """Return a program that makes `count` calls at once and times them together."""
    return _fill(_GATHER[language], count)


def value_in(language: Language, kind: str, count: int) -> str:
    """Return a program that receives items."""
    return _fill(_VALUE_IN[language], count, kind)


def value_in_out(language: Language, kind: str, count: int) -> str:
    """Return a program that receives items and passes them back."""
    return _fill(_VALUE_IN_OUT[language], count, kind)


def logs(language: Language, count: int) -> str:
    """Return a program that prints `count` lines."""
    return _fill(_LOGS[language], count)
