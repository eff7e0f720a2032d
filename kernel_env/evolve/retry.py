"""When to ask an endpoint again, and when not to: pure, the one retry layer of a run."""

from __future__ import annotations

import email.utils
import math
import time
from collections.abc import Mapping

FIRST_S = 0.5
MOST_S = 8.0
LONGEST_WAIT_S = 120.0  # an endpoint that asks for more is taken as down

_AGAIN = frozenset({408, 409, 425, 429})
_HOPELESS = frozenset({401, 402, 403, 404, 405, 407})


def retryable(status: int) -> bool:
    """Whether the same request may succeed later."""
    return status in _AGAIN or status >= 500


def hopeless(status: int) -> bool:
    """Whether no request of this run can succeed: credentials or address are wrong."""
    return status in _HOPELESS


def delay(attempt: int, asked_s: float | None, chance: float) -> float | None:
    """Seconds before the next attempt (the first was 0): what the endpoint asked for, else doubling.

    `chance` in [0, 1) spreads callers. None where the endpoint asks for more than `LONGEST_WAIT_S`.
    """
    if asked_s is not None:
        return asked_s if asked_s <= LONGEST_WAIT_S else None
    return min(FIRST_S * 2.0**attempt, MOST_S) * (0.5 + 0.5 * chance)


def asked(headers: Mapping[str, str]) -> float | None:
    """Seconds by `Retry-After` (or its milliseconds), as a number or a date; None where neither is given."""
    for name, unit in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        seconds = _seconds(headers.get(name, ""))
        if seconds is not None:
            return seconds * unit
    date = email.utils.parsedate_tz(headers.get("retry-after", ""))
    return None if date is None else max(email.utils.mktime_tz(date) - time.time(), 0.0)


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        return None
    return max(seconds, 0.0) if not math.isnan(seconds) else None
