"""Configs: whatever is in the fields, they are taken, or refused by the name of one, at load."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import anyio
import pytest
from fuzzing import examples, keys
from hypothesis import example, given
from hypothesis import strategies as st

from code_runtime import ConfigError, Context
from code_runtime_python import PythonCodeRuntime
from code_runtime_python._config import PythonConfig
from code_runtime_worker_thread import WorkerThreadCodeRuntime
from code_runtime_worker_thread._config import WorkerThreadConfig


class Float(float):
    """A float by its class, as those of numpy are."""


class Int(int):
    """An int by its class, as the members of an enumeration are."""


NUMBERS = (
    *(0, 1, -1, 2, 3, 44, 63, 64, 65, 1_000, 2**31 - 1, 2**31, 2**33 - 1, 2**33, 2**53 - 1, 2**53),
    *(0.5, 1.0, 1e-300, 5e-324, -0.0, 1e308, 2.0**53, math.nan, math.inf, -math.inf),
    *(2**63, 2**64, 2**1024, 10**5_000, -(10**5_000)),
    *(Int(5), Int(-1), Int(10**30), Float(5), Float(math.nan), Float(1e308)),
)
OTHERS: tuple[object, ...] = (
    *(
        None,
        True,
        False,
        "",
        "1",
        "\0",
        "\ud800",
        "x" * 10_000,
        b"1",
        (),
        [],
        {},
        set(),
        object(),
        int,
    ),
    *(Decimal(1), Decimal("NaN"), Fraction(1, 3), 1j, ["os"], ("os.path", ""), ["a b"], [1], "os"),
    *("zygote", "spawn", "fork", "/", "/dev/null", "/nowhere", "."),
)
seen = st.sampled_from(NUMBERS) | st.sampled_from(OTHERS) | st.integers() | st.floats() | keys

PROVIDERS: dict[str, tuple[Any, Any]] = {
    "python": (PythonCodeRuntime, PythonConfig),
    "worker-thread": (WorkerThreadCodeRuntime, WorkerThreadConfig),
}


def configs(config: Any) -> st.SearchStrategy[dict[str, Any]]:
    known = st.sampled_from([field.name for field in fields(config)])
    return st.dictionaries(known | known | known | keys, seen, max_size=3)


def refused_field(kind: Any, config: object) -> str | None:
    """Build the provider's service, which starts nothing; return the field that it refuses."""
    refusal: ConfigError | None = None
    try:
        kind(Context(), config)
    except ConfigError as error:
        refusal = error
    if refusal is None:
        return None
    text = str(refusal)
    assert text.startswith(f"Cannot configure {kind.__name__}: {refusal.field} is "), text
    assert len(text) < 1_000, text
    return refusal.field


@pytest.mark.parametrize("name", PROVIDERS)
@examples(150)
@given(st.data())
def test_config_is_taken_or_refused_by_the_name_of_a_field(name: str, data: st.DataObject) -> None:
    """PY-001 to PY-020, WT-001 to WT-008: no other error, and one field alone is blamed rightly."""
    kind, config = PROVIDERS[name]
    drawn = data.draw(configs(config))
    given_as: Mapping[str, Any] = data.draw(
        st.sampled_from([drawn, OrderedDict(drawn), MappingProxyType(drawn)])
    )
    field = refused_field(kind, given_as)
    known = {item.name for item in fields(config)}
    unknown = set(drawn) - known
    assert (field == "config") is bool(unknown)
    # The default of a budget may not fit into a smaller address space, which is in the message.
    budgets = {"max_log_bytes", "max_value_bytes"} if "address_space_mb" in drawn else set()
    assert field in {None, "config", *drawn, *budgets}
    if field in drawn:
        alone = refused_field(kind, {field: drawn[field]})
        assert alone == field or "address_space_mb" in drawn or "start_method" in drawn


@pytest.mark.parametrize("name", PROVIDERS)
@examples(60)
@given(seen)
@example([("spare_hosts", 2)])
@example({1: 2})
@example({None: None})
def test_config_of_another_type_is_refused_as_the_config(name: str, config: Any) -> None:
    if config is not None and config != {}:
        assert refused_field(PROVIDERS[name][0], config) == "config"


@pytest.mark.parametrize("name", PROVIDERS)
@examples(20)
@given(st.data())
def test_config_is_refused_by_a_load_before_anything_starts(name: str, data: st.DataObject) -> None:
    """The context holds nothing of the plugin, and can load it with another config."""
    kind, config = PROVIDERS[name]
    drawn = data.draw(configs(config).filter(lambda item: refused_field(kind, item) is not None))

    async def play() -> None:
        async with Context() as ctx:
            with pytest.raises(ConfigError):
                await ctx.plugin(kind, drawn)
            assert not ctx._owned
            assert ctx.get("codeRuntime") is None

    anyio.run(play, backend=data.draw(st.sampled_from(["asyncio", "trio"])))
