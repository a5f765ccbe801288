"""Short ways to write contents in tests, and an embedder that reads little."""

from __future__ import annotations

from typing import Any

from callboard.memory import HashingEmbedder, MemoryContent, MemoryMimeType, TextLimit


def text(content: str, /, **metadata: Any) -> MemoryContent:
    return MemoryContent(content=content, mime_type=MemoryMimeType.TEXT, metadata=metadata or None)


def texts(contents: list[MemoryContent]) -> list[Any]:
    return [one.content for one in contents]


def words(content: str) -> int:
    return len(content.split())


class ShortSighted(HashingEmbedder):
    """An embedder that reads eight words of a text, as a model with a limit does."""

    LIMIT = TextLimit(8, words)

    async def limit(self) -> TextLimit:
        return self.LIMIT

    def _embed(self, texts: list[str]) -> Any:
        return super()._embed([" ".join(content.split()[:8]) for content in texts])
