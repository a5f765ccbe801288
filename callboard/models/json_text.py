"""JSON in texts of models."""

from __future__ import annotations

import re
from typing import Any, Final

from callboard.foundation.json_texts import read_json

BLOCK: Final = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\n(.*?)```", re.DOTALL)


def extract_json_from_str(content: str) -> list[Any]:
    """The JSON values in a text; a name of `autogen_core.utils`.

    Args:
        content: A text with fenced blocks of JSON, whatever else stands around them; without any block, JSON itself.

    Returns:
        A value for each block, in their order.

    Raises:
        ValueError: A block, or the text, is no JSON, or a block says that it is of another language.
    """
    blocks = BLOCK.findall(content) or [("json", content)]
    for language, _ in blocks:
        if language.lower() not in ("", "json"):
            raise ValueError(f"Expected JSON object, but found language: {language}")
    return [read_json(text) for _, text in blocks]
