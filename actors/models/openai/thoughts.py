"""The reasoning that some models write into their answer, between `<think>` and `</think>`."""

from __future__ import annotations

from typing import Final

OPENING: Final = "<think>"
CLOSING: Final = "</think>"


def split_thought(text: str, *, opened: bool = False) -> tuple[str | None, str]:
    """Separate the reasoning at the start of an answer from the answer.

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
