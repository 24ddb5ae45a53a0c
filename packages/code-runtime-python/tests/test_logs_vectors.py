"""The Python host's log list, held to the vectors that the Node host reads too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from code_runtime._execution._logs import LogObserver
from code_runtime_python._logs import LineLog

VECTORS = Path(__file__).parents[3] / "tests/vectors/fd3/logs.json"
CASES = json.loads(VECTORS.read_text("utf-8"))["cases"]


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=f"{case['spec']} {case['name']}") for case in CASES]
)
def test_log_list_equals_the_vector(case: dict[str, object]) -> None:
    """PY-129 to PY-132, PY-163 to PY-175."""
    log = LineLog(int(str(case["max_log_bytes"])), LogObserver(None, record=False))
    frames = case["frames"]
    assert isinstance(frames, list)
    for frame in frames:
        for _ in range(frame.get("times", 1)):
            if frame.get("truncated"):
                log.truncate()
            else:
                log.add_part(frame["text"], is_open=frame.get("open", False))
    log.finish()
    assert (log.entries, log.truncated) == (case["logs"], case["truncated"])
