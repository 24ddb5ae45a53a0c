"""The configuration is checked at load, field by field."""

from __future__ import annotations

import math

import pytest

from code_runtime import ConfigError
from code_runtime_worker_thread import WorkerThreadConfig

POSITIVE = "expected a positive number"


def test_defaults() -> None:
    """WT-001."""
    config = WorkerThreadConfig()
    assert config == WorkerThreadConfig(
        compute_ms=60_000,
        max_wall_ms=600_000,
        max_output_bytes=67_108_864,
        max_old_generation_size_mb=512,
        memory_mb=1_024,
        binding_grace_ms=5_000,
        max_concurrent_runs=32,
        runs_per_host=100,
        spare_hosts=2,
        node_bin=None,
    )
    assert WorkerThreadConfig.from_mapping(None) == config
    assert WorkerThreadConfig.from_mapping({}) == config
    assert WorkerThreadConfig.from_mapping(config) is config


@pytest.mark.parametrize(
    "name", ["compute_ms", "max_wall_ms", "max_old_generation_size_mb", "memory_mb"]
)
@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (0, "0 (int)"),
        (-1, "-1 (int)"),
        (math.nan, "nan (float)"),
        (math.inf, "inf (float)"),
        ("5", "'5' (str)"),
        (True, "True"),
        ([], "list"),
    ],
)
def test_budget_must_be_a_positive_number(name: str, value: object, seen: str) -> None:
    """WT-002."""
    with pytest.raises(ConfigError) as caught:
        WorkerThreadConfig.from_mapping({name: value})
    optional = " or None" if name in ("compute_ms", "max_wall_ms") else ""
    assert str(caught.value) == (
        f"Cannot configure WorkerThreadCodeRuntime: {name} is {seen}, {POSITIVE}{optional}"
    )


@pytest.mark.parametrize("name", ["compute_ms", "max_wall_ms", "max_concurrent_runs", "node_bin"])
def test_none_switches_a_limit_off(name: str) -> None:
    assert getattr(WorkerThreadConfig.from_mapping({name: None}), name) is None


@pytest.mark.parametrize(
    ("value", "seen"), [(3, "3 (int)"), (4.5, "4.5 (float)"), (2**53, "9007199254740992 (int)")]
)
def test_max_output_bytes_is_an_integer_of_at_least_four(value: object, seen: str) -> None:
    """WT-003."""
    with pytest.raises(ConfigError) as caught:
        WorkerThreadConfig.from_mapping({"max_output_bytes": value})
    assert str(caught.value) == (
        f"Cannot configure WorkerThreadCodeRuntime: max_output_bytes is {seen}, "
        "expected an integer from 4 to 9007199254740991"
    )


def test_max_output_bytes_four_is_accepted() -> None:
    """WT-003."""
    assert WorkerThreadConfig(max_output_bytes=4).max_output_bytes == 4


@pytest.mark.parametrize("name", ["max_wall_ms", "binding_grace_ms"])
def test_timer_range(name: str) -> None:
    """WT-004: the longest delay that a timer can hold."""
    assert getattr(WorkerThreadConfig.from_mapping({name: 2_147_483_647}), name) == 2_147_483_647
    with pytest.raises(ConfigError) as caught:
        WorkerThreadConfig.from_mapping({name: 2_147_483_648})
    assert str(caught.value) == (
        f"Cannot configure WorkerThreadCodeRuntime: {name} is 2147483648 (int), "
        "expected at most 2147483647 ms, the longest delay of a timer"
    )


def test_compute_ms_has_no_upper_bound_and_fractions_are_accepted() -> None:
    """WT-005."""
    config = WorkerThreadConfig(compute_ms=1e12, max_wall_ms=0.5, max_old_generation_size_mb=64.5)
    assert (config.compute_ms, config.max_wall_ms) == (1e12, 0.5)


@pytest.mark.parametrize("name", ["max_concurrent_runs", "runs_per_host", "spare_hosts"])
@pytest.mark.parametrize(("value", "seen"), [(0, "0 (int)"), (1.0, "1.0 (float)"), (True, "True")])
def test_count_is_an_integer_of_at_least_one(name: str, value: object, seen: str) -> None:
    with pytest.raises(ConfigError) as caught:
        WorkerThreadConfig.from_mapping({name: value})
    assert str(caught.value) == (
        f"Cannot configure WorkerThreadCodeRuntime: {name} is {seen}, "
        "expected an integer from 1 to 9007199254740991"
    )


@pytest.mark.parametrize(
    ("value", "seen"), [("", "'' (str)"), ("a\0b", "'a\\x00b' (str)"), (5, "5 (int)")]
)
def test_node_bin_is_a_path(value: object, seen: str) -> None:
    with pytest.raises(ConfigError) as caught:
        WorkerThreadConfig.from_mapping({"node_bin": value})
    assert str(caught.value) == (
        f"Cannot configure WorkerThreadCodeRuntime: node_bin is {seen}, expected a path or None"
    )


def test_unknown_field_is_named() -> None:
    with pytest.raises(ConfigError) as caught:
        WorkerThreadConfig.from_mapping({"computeMs": 5})
    assert str(caught.value) == (
        "Cannot configure WorkerThreadCodeRuntime: config is 'computeMs' (str), expected one of "
        "the fields binding_grace_ms, compute_ms, max_concurrent_runs, max_old_generation_size_mb, "
        "max_output_bytes, max_wall_ms, memory_mb, node_bin, runs_per_host, spare_hosts"
    )


def test_config_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        WorkerThreadConfig.from_mapping(5)
    assert str(caught.value) == (
        "Cannot configure WorkerThreadCodeRuntime: config is 5 (int), expected a mapping of field "
        "names, WorkerThreadConfig or None"
    )
