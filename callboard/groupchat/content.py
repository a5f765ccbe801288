"""The content of messages as text."""

from __future__ import annotations

from typing import Any, Final

IMAGE: Final = "<image>"


def text_of(content: Any) -> str:
    """The content of a message as text: of a list the texts in their order, and a mark for each image.

    Args:
        content: A text, a list of parts as OpenAI has them, or None.
    """
    if content is None:
        return ""
    if isinstance(content, list):
        return "".join(_part(part) for part in content)
    return str(content)


def _part(part: Any) -> str:
    if isinstance(part, dict):
        return str(part.get("text", "")) if part.get("type") == "text" else IMAGE
    return str(part)
