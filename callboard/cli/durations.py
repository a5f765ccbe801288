"""Durations as people write them."""

from __future__ import annotations

import contextlib
import math
import re
from typing import Final

UNITS: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_AMOUNT: Final = r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d)"


def seconds_of(text: str) -> float:
    """Seconds of a duration such as `90s`, `1h30m`, `2d` or `500ms`; a plain number is seconds.

    Raises:
        ValueError: It is something else.
    """
    text = text.strip().lower()
    with contextlib.suppress(ValueError):
        if math.isfinite(plain := float(text)) and plain >= 0:
            return plain
    if not re.fullmatch(rf"(?:{_AMOUNT}\s*)+", text):
        raise ValueError(f"{text!r} is no duration: write 90s, 1h30m, 2d or 500ms; a plain number is seconds")
    return sum(float(number) * UNITS[unit] for number, unit in re.findall(_AMOUNT, text))
