"""Marks that models put into their text: fences around JSON, and `<think>` tags around their reasoning."""

from __future__ import annotations

import re
from typing import Final

FENCED: Final = re.compile(
    r"```[ \t]*(?:json|tool_call|tool_calls|tool_code)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL
)
OPENING: Final = "<think>"
CLOSING: Final = "</think>"


def without_fence(text: str) -> str:
    """The inside of a text that is one fenced block, else the text itself, stripped."""
    stripped = text.strip()
    whole = FENCED.fullmatch(stripped)
    return whole[1].strip() if whole else stripped


def split_thought(text: str, *, opened: bool = False) -> tuple[str | None, str]:
    """The reasoning at the start of an answer, and the answer.

    AutoGen looks for the tags only in answers of the family R1; other models write them as well. Tags further
    inside belong to the answer, which may be about them.

    Args:
        text: the whole answer.
        opened: the reasoning may begin without its tag, because the model's template has put it into the prompt.

    Returns:
        The reasoning (None when there is none), and the rest. Both are stripped when there is reasoning.
    """
    body = text.lstrip()
    if body.startswith(OPENING):
        body = body[len(OPENING) :]
    elif not (opened and CLOSING in body):
        return None, text
    thought, _, rest = body.partition(CLOSING)
    return thought.strip() or None, rest.strip()
