"""The functions that the programs of `tests/scenarios` call; its README lists them."""

from __future__ import annotations

import json
from typing import Any, Final

import anyio
import anyio.abc
from scenario_files import DATA

from code_runtime import AbortSignal, CodeBindingErrorClass, CodeBindingNamespace

ABORT_S: Final = 0.1
SLOW_S: Final = 0.005
ORDERS_OF_A_PAGE: Final = 3
MENU: Final = ["tea", "cake"]
PRICES: Final = {"apples": 1.2, "pears": 2.5, "plums": 0.8}
ODD_NAMES: Final = ("odd name", "__proto__", "constructor", "__class__")


def make_namespaces(
    signal: AbortSignal, tasks: anyio.abc.TaskGroup
) -> tuple[CodeBindingNamespace, ...]:
    """Make the namespaces for one run, with a state of its own."""
    return (
        CodeBindingNamespace("tools", _make_tools()),
        CodeBindingNamespace(
            "shop",
            {"price": _price, "orders": _orders, "refuse": _fail},
            CodeBindingErrorClass("ShopError", "item"),
        ),
        CodeBindingNamespace(
            "files", _make_files(), CodeBindingErrorClass("FileError", "operation")
        ),
        CodeBindingNamespace("control", _make_control(signal, tasks)),
    )


def _make_tools() -> dict[str, Any]:
    tries, in_flight, peak = 0, 0, 0

    def flaky(failure_count: int) -> int:
        nonlocal tries
        tries += 1
        if tries <= failure_count:
            raise ValueError(f"busy, try {tries}")
        return tries

    async def slow(value: object) -> object:
        nonlocal in_flight, peak
        in_flight += 1
        peak = max(peak, in_flight)
        await anyio.sleep(SLOW_S)
        in_flight -= 1
        return value

    return {
        "add": _add,
        "echo": lambda value: value,
        "fail": _fail,
        "flaky": flaky,
        "lossy": lambda _: float("nan"),
        "menu": lambda _: MENU,
        "never": _never,
        "now": lambda _: "2026-03-01T09:30:00Z",
        "peak": lambda _: peak,
        "slow": slow,
        "wait": _wait,
        **{name: (lambda value, name=name: f"{name} got {value}") for name in ODD_NAMES},
    }


def _add(terms: object) -> object:
    match terms:
        case {"a": int() | float() as a, "b": int() | float() as b}:
            return a + b
    raise ValueError("Cannot add: expected {a, b}, two numbers")


async def _wait(ms: int) -> None:
    await anyio.sleep(ms / 1000)


async def _never(_: object) -> None:
    await anyio.sleep_forever()


def _fail(message: str) -> None:
    raise ValueError(message)


def _price(name: str) -> float:
    if name not in PRICES:
        raise ValueError(f"No price for {name}")
    return PRICES[name]


def _orders(query: dict[str, int]) -> object:
    orders = json.loads((DATA / "orders.json").read_text(encoding="utf-8"))
    start = (query["page"] - 1) * ORDERS_OF_A_PAGE
    end = start + ORDERS_OF_A_PAGE
    return {"orders": orders[start:end], "next": query["page"] + 1 if end < len(orders) else None}


def _make_files() -> dict[str, Any]:
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(DATA.iterdir())}

    def read(name: str) -> str:
        if name not in texts:
            raise ValueError(f"No file named {name}")
        return texts[name]

    def write(file: dict[str, str]) -> None:
        texts[file["name"]] = file["text"]

    return {"list": lambda _: sorted(texts), "read": read, "write": write}


def _make_control(signal: AbortSignal, tasks: anyio.abc.TaskGroup) -> dict[str, Any]:
    async def abort_soon(reason: str) -> None:
        await anyio.sleep(ABORT_S)
        signal.abort(reason)

    def abort_later(reason: str) -> None:
        tasks.start_soon(abort_soon, reason)  # its handle is no result: it would be awaited

    return {
        "abort": signal.abort,
        "abort_later": abort_later,
    }
