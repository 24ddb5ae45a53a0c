"""One deliberately broken provider for each rule of the suite."""

from __future__ import annotations

from typing import Final

from .breaking import Broken
from .broken_calls import BROKEN_CALLS
from .broken_endings import BROKEN_ENDINGS
from .broken_outcomes import BROKEN_OUTCOMES
from .broken_requests import BROKEN_REQUESTS

BROKEN: Final[dict[str, Broken]] = {
    **BROKEN_OUTCOMES,
    **BROKEN_REQUESTS,
    **BROKEN_CALLS,
    **BROKEN_ENDINGS,
}
