"""The host's side of binding calls."""

from __future__ import annotations

import math

import anyio
import pytest
from run_requests import Provider, Run, build_request

from code_runtime import CodeBindingNamespace

pytestmark = pytest.mark.anyio

REJECTION = (
    "try:\n    return await tools.f(1)\nexcept ToolCallError as error:\n"
    "    return [str(error), error.toolName]"
)


async def test_a_call_is_a_function_of_one_argument(run: Run) -> None:
    """PY-176, PY-179, PY-191: 2**60 and a whole float come back as integers."""
    result = await run(
        "return [await tools.f({'a': [1]}), await tools['odd name'](2**60), await tools.f(1.0)]",
        {"f": lambda value: value, "odd name": lambda value: value},
    )
    assert isinstance(result.value, list)
    assert result.value == [{"a": [1]}, 2**60, 1]
    assert type(result.value[2]) is int


async def test_members_that_cannot_be_called_are_not_there(run: Run) -> None:
    """PY-046, PY-047, PY-048: and a later change of the mapping has no effect."""
    functions: dict[str, object] = {
        "f": lambda value: value,
        "number": 5,
        "__proto__": lambda value: value,
        "__class__": lambda value: value,
    }
    namespace = CodeBindingNamespace("tools", functions)  # type: ignore[arg-type]
    functions["later"] = functions["f"]
    functions["f"] = lambda value: "changed"
    result = await run(
        "return [hasattr(tools, 'number'), hasattr(tools, 'later'), await tools.f(1), "
        "await tools['__proto__'](2), await tools.__class__(3)]",
        bindings=[namespace],
    )
    assert result.value == [False, False, 1, 2, 3]


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no"), "no"),
        (ValueError(), ""),
        (KeyError("k"), "'k'"),
        (ValueError(["a", 1]), "['a', 1]"),
        (ValueError("\ud800"), "\ud800"),
    ],
)
async def test_a_rejection_is_its_text(
    run: Run, error: Exception, text: str, is_async: bool
) -> None:
    """PY-183, PY-184, PY-187."""

    def plain(_: object) -> None:
        raise error

    async def later(_: object) -> None:
        raise error

    result = await run(REJECTION, {"f": later if is_async else plain})
    assert result.value == [text, "f"]
    assert [call.outcome for call in result.calls] == ["error"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "$: non-finite float nan"),
        ({"a": [object()]}, "$.a[0]: object is not JSON"),
        (-0.0, "$: negative zero"),
    ],
)
async def test_a_lossy_result_is_a_rejection(run: Run, value: object, text: str) -> None:
    """PY-188."""
    result = await run(REJECTION, {"f": lambda _: value})
    assert isinstance(result.value, list), result
    message = result.value[0]
    assert isinstance(message, str)
    assert message.startswith("Binding resolution must be lossless JSON: $")
    assert [call.outcome for call in result.calls] == ["error"], text


async def test_arguments_may_be_larger_than_a_value(provider: Provider) -> None:
    """PY-189."""
    async with provider(max_value_bytes=1024) as runtime:
        result = await runtime.run(
            build_request(
                "return [await tools.f('x' * 4096 * n) for n in range(50)]",
                {"f": lambda text: len(str(text))},
            )
        )
    assert result.value == [4096 * number for number in range(50)]


async def test_results_of_any_size_and_depth_arrive(run: Run) -> None:
    """PY-190: 4 MiB of text, and 12,000 levels."""
    deep: list[object] = []
    for _ in range(12_000 - 1):
        deep = [deep]
    result = await run(
        "text, deep, depth = await tools.long(1), await tools.deep(1), 1\n"
        "while deep: deep, depth = deep[0], depth + 1\nreturn [len(text), depth]",
        {"long": lambda _: "x" * 4_194_304, "deep": lambda _: deep},
    )
    assert result.value == [4_194_304, 12_000]


@pytest.mark.parametrize("count", [1024, 1025, 1300])
async def test_instant_calls_have_no_limit(run: Run, count: int) -> None:
    """PY-196."""
    result = await run(
        f"import asyncio\nreturn sum(await asyncio.gather(*[tools.f(1) for _ in range({count})]))",
        {"f": lambda value: value},
    )
    assert (result.value, result.error) == (count, None)


async def test_a_value_is_delivered_with_calls_outstanding(run: Run) -> None:
    """PY-197: exactly 1,024; they are cancelled when the run is over."""
    cancelled = 0

    async def never(_: object) -> None:
        nonlocal cancelled
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            cancelled += 1
            raise

    result = await run(
        "import asyncio\ntasks = [asyncio.ensure_future(tools.f(1)) for _ in range(1024)]\n"
        "await asyncio.sleep(0)\nreturn 'value'",
        {"f": never},
    )
    assert (result.value, result.error) == ("value", None)
    assert cancelled <= 1024
    assert {call.outcome for call in result.calls} <= {"cancelled"}


async def test_a_timeout_in_the_program_leaves_later_calls_alone(run: Run) -> None:
    """PY-201: the late reply finds nobody."""

    async def slow(value: object) -> object:
        await anyio.sleep(0.05)
        return value

    result = await run(
        "import asyncio\n"
        "try:\n    await asyncio.wait_for(tools.f(1), 0.01)\n"
        "except asyncio.TimeoutError:\n    print('timeout')\n"
        "return [await tools.f(2), await tools.f(3)]",
        {"f": slow},
    )
    assert (result.logs, result.value) == (["timeout"], [2, 3])
