"""The configuration is checked at load, field by field, before any process is started."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from run_requests import Provider, Run, build_request

from code_runtime import ConfigError, Context, ServiceMissingError
from code_runtime_python import PythonCodeRuntime, PythonConfig

MIB = 1_048_576


def refusal(**config: object) -> str:
    with pytest.raises(ConfigError) as caught:
        PythonConfig.from_mapping(config)
    text = str(caught.value)
    prefix = "Cannot configure PythonCodeRuntime: "
    assert text.startswith(prefix)
    return text.removeprefix(prefix)


def test_defaults() -> None:
    config = PythonConfig()
    assert config == PythonConfig(
        cpu_seconds=60,
        max_wall_ms=600_000,
        memory_mb=512,
        address_space_mb=4_096,
        max_log_bytes=8_388_608,
        max_value_bytes=8_388_608,
        grace_ms=3_000,
        binding_grace_ms=5_000,
        max_concurrent_runs=32,
        spare_hosts=1,
        python_bin=None,
        start_method=None,
        preload=(),
    )
    assert PythonConfig.from_mapping(None) == config
    assert PythonConfig.from_mapping({}) == config
    assert PythonConfig.from_mapping(config) is config


@pytest.mark.parametrize(
    "name",
    [
        "cpu_seconds",
        "max_wall_ms",
        "address_space_mb",
        "memory_mb",
        "max_log_bytes",
        "max_value_bytes",
        "grace_ms",
    ],
)
@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (0, "0 (int)"),
        (-1, "-1 (int)"),
        (math.nan, "nan (float)"),
        (math.inf, "inf (float)"),
        (-math.inf, "-inf (float)"),
        ("5", "'5' (str)"),
        (True, "True"),
        ([], "list"),
    ],
)
def test_number_must_be_positive_and_finite(name: str, value: object, seen: str) -> None:
    """PY-002."""
    optional = " or None" if name == "max_wall_ms" else ""
    assert refusal(**{name: value}) == f"{name} is {seen}, expected a positive number{optional}"


@pytest.mark.parametrize("name", ["max_wall_ms", "max_concurrent_runs", "python_bin"])
def test_none_switches_a_limit_off(name: str) -> None:
    assert getattr(PythonConfig.from_mapping({name: None}), name) is None


@pytest.mark.parametrize(
    ("value", "seen"),
    [(1.5, "1.5 (float)"), (1e100, "1e+100 (float)"), (2**53 - 1, "9007199254740991 (int)")],
)
def test_cpu_seconds_is_an_exact_integer(value: object, seen: str) -> None:
    """PY-003, PY-004: one more is the hard limit, and must be exact too."""
    assert (
        refusal(cpu_seconds=value)
        == f"cpu_seconds is {seen}, expected an integer from 1 to 9007199254740990"
    )


def test_cpu_seconds_has_the_largest_exact_integer_as_its_limit() -> None:
    """PY-004."""
    assert PythonConfig(cpu_seconds=2**53 - 2).cpu_seconds == 2**53 - 2


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (1e308, "1e+308 (float)"),
        (8_589_934_592, "8589934592 (int)"),
        (10**400, "<int of 1329 bits> (int)"),
    ],
)
def test_address_space_is_an_exact_number_of_bytes(value: object, seen: str) -> None:
    """PY-005."""
    assert (
        refusal(address_space_mb=value)
        == f"address_space_mb is {seen}, expected at most 8589934591 MiB"
    )


def test_address_space_of_the_largest_exact_size_is_accepted() -> None:
    """PY-005."""
    assert PythonConfig(address_space_mb=8_589_934_591).address_space_bytes == 2**53 - MIB


def test_address_space_with_a_fraction_counts_whole_bytes() -> None:
    config = PythonConfig(address_space_mb=1_024.3)
    assert config.address_space_bytes == 1_074_056_396  # 1024.3 MiB are 1,074,056,396.8 bytes


@pytest.mark.parametrize(
    ("value", "seen"),
    [(1e308, "1e+308 (float)"), (10**400, "<int of 1329 bits> (int)"), (1e-9, "1e-09 (float)")],
)
def test_memory_is_a_number_of_bytes_that_can_be_counted(value: object, seen: str) -> None:
    assert (
        refusal(memory_mb=value)
        == f"memory_mb is {seen}, expected at least one byte and at most 8589934591 MiB"
    )


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [("max_log_bytes", 3.5, 64), ("max_value_bytes", 1024.5, 1), ("max_log_bytes", 64.0, 64)],
)
def test_budget_is_an_integer(name: str, value: float, least: int) -> None:
    """PY-006."""
    assert (
        refusal(**{name: value})
        == f"{name} is {value} (float), expected an integer from {least} to 67108800"
    )


@pytest.mark.parametrize(("name", "least"), [("max_log_bytes", 64), ("max_value_bytes", 1)])
def test_budget_fits_into_one_frame(name: str, least: int) -> None:
    """PY-007: 64 MiB less the 64 bytes around it."""
    assert (
        refusal(**{name: 67_108_801})
        == f"{name} is 67108801 (int), expected an integer from {least} to 67108800"
    )
    config = PythonConfig.from_mapping({name: 67_108_800, "address_space_mb": 4_096})
    assert getattr(config, name) == 67_108_800


def test_log_budget_holds_its_own_marker() -> None:
    """PY-008."""
    assert (
        refusal(max_log_bytes=63)
        == "max_log_bytes is 63 (int), expected an integer from 64 to 67108800"
    )
    config = PythonConfig(max_log_bytes=64, max_value_bytes=1)
    assert (config.max_log_bytes, config.max_value_bytes) == (64, 1)


@pytest.mark.parametrize("value", [64, 32])
def test_address_space_holds_the_interpreter(value: int) -> None:
    """PY-009: named here, not as a negative limit of a budget."""
    assert refusal(address_space_mb=value) == (
        f"address_space_mb is {value} (int), expected more than 64 MiB, what an interpreter needs "
        "for itself (67108864 bytes)"
    )


@pytest.mark.parametrize("name", ["max_log_bytes", "max_value_bytes"])
@pytest.mark.parametrize(
    ("value", "space_mb", "largest"),
    [
        pytest.param(50_000_000, 256, 16_777_215, id="PY-010"),
        pytest.param(48 * MIB, 512, 39_146_837, id="PY-011"),
    ],
)
def test_budget_fits_twelve_times_beside_the_interpreter(
    name: str, value: int, space_mb: int, largest: int
) -> None:
    """PY-010, PY-011."""
    assert refusal(**{name: value, "address_space_mb": space_mb}) == (
        f"{name} is {value} (int), expected at most {largest} bytes beside address_space_mb "
        f"{space_mb}: text of that size may take 12 times as much in the process"
    )


def test_default_budgets_fit_beside_512_mib() -> None:
    """PY-011."""
    assert PythonConfig(address_space_mb=512).max_log_bytes == 8_388_608


def test_budget_that_takes_exactly_the_room_is_refused_and_the_named_one_is_accepted() -> None:
    """PY-012."""
    space_mb = 64 + 12
    assert refusal(max_value_bytes=MIB, max_log_bytes=64, address_space_mb=space_mb) == (
        "max_value_bytes is 1048576 (int), expected at most 1048575 bytes beside address_space_mb "
        "76: text of that size may take 12 times as much in the process"
    )
    config = PythonConfig(max_value_bytes=MIB - 1, max_log_bytes=64, address_space_mb=space_mb)
    assert config.max_value_bytes == MIB - 1


def test_gates_do_not_ask_for_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """PY-013."""
    monkeypatch.setattr("sys.platform", "darwin")
    assert refusal(address_space_mb=64) == (
        "address_space_mb is 64 (int), expected more than 64 MiB, what an interpreter needs "
        "for itself (67108864 bytes)"
    )


@pytest.mark.parametrize(
    ("name", "most"),
    [
        pytest.param("max_wall_ms", 2_147_483_647, id="PY-014"),
        pytest.param("grace_ms", 2_147_481_647, id="PY-015"),
    ],
)
def test_timer_range(name: str, most: int) -> None:
    """PY-014, PY-015: the longest delay of a timer, less 2 s to reap the process."""
    assert getattr(PythonConfig.from_mapping({name: most}), name) == most
    assert refusal(**{name: most + 1}) == (
        f"{name} is {most + 1} (int), expected at most {most} ms, the longest delay of a timer"
    )


def test_binding_grace_may_be_zero() -> None:
    assert PythonConfig(binding_grace_ms=0).binding_grace_ms == 0
    assert (
        refusal(binding_grace_ms=-1)
        == "binding_grace_ms is -1 (int), expected a number of at least 0"
    )


def test_fractions_of_milliseconds_are_accepted() -> None:
    config = PythonConfig(max_wall_ms=0.5, grace_ms=0.5)
    assert (config.max_wall_ms, config.grace_ms) == (0.5, 0.5)


@pytest.mark.parametrize("name", ["max_concurrent_runs", "spare_hosts"])
@pytest.mark.parametrize(("value", "seen"), [(0, "0 (int)"), (1.0, "1.0 (float)"), (True, "True")])
def test_count_is_an_integer_of_at_least_one(name: str, value: object, seen: str) -> None:
    assert (
        refusal(**{name: value})
        == f"{name} is {seen}, expected an integer from 1 to 9007199254740991"
    )


@pytest.mark.parametrize(
    ("value", "seen"), [("", "'' (str)"), ("a\0b", "'a\\x00b' (str)"), (5, "5 (int)")]
)
def test_python_bin_is_a_path(value: object, seen: str) -> None:
    """PY-027."""
    assert refusal(python_bin=value) == f"python_bin is {seen}, expected a path or None"


@pytest.mark.parametrize(("value", "seen"), [("fork", "'fork' (str)"), ([], "list")])
def test_start_method_is_one_of_two(value: object, seen: str) -> None:
    assert (
        refusal(start_method=value) == f"start_method is {seen}, expected 'zygote', 'spawn' or None"
    )


@pytest.mark.parametrize(
    ("value", "seen"),
    [("numpy", "'numpy' (str)"), (["a b"], "list"), ([1], "list"), ([".a"], "list")],
)
def test_preload_is_a_list_of_module_names(value: object, seen: str) -> None:
    assert refusal(preload=value) == f"preload is {seen}, expected a list of module names"


def test_preload_needs_the_zygote() -> None:
    assert PythonConfig(preload=["os.path"]).preload == ("os.path",)  # type: ignore[arg-type]
    assert (
        refusal(preload=["numpy"], start_method="spawn")
        == "preload is list, expected nothing with start_method 'spawn'"
    )


def test_unknown_field_is_named() -> None:
    assert refusal(cpuSeconds=5) == (
        "config is 'cpuSeconds' (str), expected one of the fields address_space_mb, "
        "binding_grace_ms, cpu_seconds, grace_ms, max_concurrent_runs, max_log_bytes, "
        "max_value_bytes, max_wall_ms, memory_mb, preload, python_bin, spare_hosts, start_method"
    )


def test_config_of_a_wrong_type_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        PythonConfig.from_mapping(5)
    assert str(caught.value) == (
        "Cannot configure PythonCodeRuntime: config is 5 (int), expected a mapping of field "
        "names, PythonConfig or None"
    )


@pytest.mark.anyio
async def test_bad_config_is_refused_before_any_process_is_started(tmp_path: Path) -> None:
    """PY-020, PY-019: the interpreter is not probed, and no runtime is there afterwards."""
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!/bin/sh\necho started > {tmp_path}/proof\n")
    interpreter.chmod(0o700)
    async with Context() as ctx:
        with pytest.raises(ConfigError) as caught:
            await ctx.plugin(
                PythonCodeRuntime, {"python_bin": str(interpreter), "max_log_bytes": 63}
            )
        assert caught.value.field == "max_log_bytes"
        with pytest.raises(ServiceMissingError):
            ctx.codeRuntime  # noqa: B018
    assert not (tmp_path / "proof").exists()


@pytest.mark.anyio
async def test_default_limits_hold_logs_and_value_of_the_same_moment(run: Run) -> None:
    """PY-250: a thread goes on printing while the value is encoded."""
    result = await run(
        """
import threading
is_full = threading.Event()
def print_for_ever():
    for _ in range(12): print("x" * 1_000_000)
    is_full.set()
    while True:
        print("x" * 1_000_000)
threading.Thread(target=print_for_ever, daemon=True).start()
is_full.wait()
return ["\\ud800" * 1_000] * 1_000
"""
    )
    assert result.error is None
    assert result.value == ["\ud800" * 1_000] * 1_000
    assert result.logs_truncated


@pytest.mark.anyio
async def test_a_wall_that_no_start_fits_does_not_keep_the_provider_from_loading(
    provider: Provider,
) -> None:
    """The trial run of an interpreter is not a program of a model."""
    async with provider(start_method="spawn", max_wall_ms=1) as runtime:
        result = await runtime.run(build_request("while True: pass"))
    assert result.error is not None
    assert (result.error.kind, result.error.message) == (
        "timeout",
        "wall-clock ceiling exceeded: 1 ms",
    )
