"""What `import code_runtime` adds to the start of Python."""

from __future__ import annotations

import subprocess
import time

from ..subjects import ROOT, Subject
from .figure import Family, Figure


def _start_ms(subject: Subject, code: str) -> float:
    begin = time.perf_counter()
    subprocess.run(
        [subject.command[0], "-c", code],
        check=True,
        env=dict(subject.environment),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
    )
    return (time.perf_counter() - begin) * 1_000


def measure(subject: Subject, _quick: bool) -> dict[str, float]:
    """Return the difference of two process starts, one right after the other."""
    bare_ms = _start_ms(subject, "pass")
    # Noise can make it nothing or less, of which there is no ratio.
    return {"import": max(_start_ms(subject, "import code_runtime") - bare_ms, 0.1)}


FAMILY = Family(
    (Figure("import", "import code_runtime over bare Python", "ms"),),
    on_subject=measure,
    only_ours=True,
)
