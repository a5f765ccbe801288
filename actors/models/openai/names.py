"""Names as the API takes them: letters, digits, `_` and `-`, at most 64 of them."""

from __future__ import annotations

import re
from typing import Final

LONGEST_NAME: Final = 64  # characters
ALLOWED: Final = re.compile(r"[a-zA-Z0-9_-]+")
OTHER: Final = re.compile(r"[^a-zA-Z0-9_-]")


def is_name(text: str) -> bool:
    """Whether the API takes it as the name of a tool or of a speaker."""
    return len(text) <= LONGEST_NAME and ALLOWED.fullmatch(text) is not None


def as_tool_name(text: str) -> str:
    """The name of a tool as a model wrote it, made so that it can be sent back in the next request.

    As AutoGen's `normalize_name`.
    """
    return OTHER.sub("_", text)[:LONGEST_NAME]
