"""Short ways to write contents in tests."""

from __future__ import annotations

from typing import Any

from callboard.memory import MemoryContent, MemoryMimeType


def text(content: str, **metadata: Any) -> MemoryContent:
    return MemoryContent(content=content, mime_type=MemoryMimeType.TEXT, metadata=metadata or None)


def texts(contents: list[MemoryContent]) -> list[Any]:
    return [one.content for one in contents]
