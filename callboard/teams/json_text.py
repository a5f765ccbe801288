"""JSON in the answers of models."""

from __future__ import annotations

import re
from typing import Final

from pydantic import ValidationError

FENCED: Final = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\n(.*?)```", re.DOTALL)


def json_text(text: str) -> str:
    """The JSON in an answer: the one fenced block in it, or all of it.

    Raises:
        ValueError: There are several blocks, or one in another language.
    """
    blocks = FENCED.findall(text)
    if not blocks:
        return text
    if len(blocks) > 1:
        raise ValueError(f"there are {len(blocks)} blocks in the answer")
    language, content = blocks[0]
    if language.lower() not in ("", "json"):
        raise ValueError("the block in the answer is not JSON")
    return str(content)


def first_problem(error: ValidationError) -> str:
    """What does not fit, without what was given: it may be secret."""
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
