"""Blocks of code that models put around JSON."""

from __future__ import annotations

import re
from typing import Final

FENCED: Final = re.compile(
    r"```[ \t]*(?:json|tool_call|tool_calls|tool_code)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL
)


def without_fence(text: str) -> str:
    """The inside of a text that is one fenced block, else the text itself, stripped."""
    stripped = text.strip()
    whole = FENCED.fullmatch(stripped)
    return whole[1].strip() if whole else stripped
