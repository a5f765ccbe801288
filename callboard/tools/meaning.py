"""Ranks tools by what they mean: by the vectors of an embedder, and by their words as well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from callboard.memory.embedders.base import Embedder

from .ranking import text_of
from .schema import ToolSchema

RANK_OFFSET: Final = 10
"""How little the first places of a ranking differ when rankings are joined (reciprocal rank fusion)."""


class ToolVectors:
    """The vectors of tools, made when they are first needed and again when a tool's description has changed.

    Args:
        embedder: Makes them.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._known: dict[str, tuple[str, Any]] = {}

    async def rank(self, query: str, schemas: Sequence[ToolSchema]) -> list[str]:
        """Names of all the tools, those that are closest to a text in meaning first.

        Raises:
            EmbeddingError: The model failed.
        """
        await self._learn({schema["name"]: text_of(schema) for schema in schemas})
        (asked,) = await self._embedder.embed([query])
        close = {schema["name"]: float(self._known[schema["name"]][1] @ asked) for schema in schemas}
        return sorted(close, key=lambda name: -close[name])

    async def _learn(self, texts: Mapping[str, str]) -> None:
        self._known = {name: known for name, known in self._known.items() if texts.get(name) == known[0]}
        new = {name: text for name, text in texts.items() if name not in self._known}
        if new:
            vectors = await self._embedder.embed(list(new.values()))
            self._known |= {
                name: (text, vector) for (name, text), vector in zip(new.items(), vectors, strict=True)
            }


def joined(*rankings: Sequence[str]) -> list[str]:
    """One ranking of several; a name that is missing in one of them gains nothing there."""
    scores: dict[str, float] = {}
    for ranking in rankings:
        for place, name in enumerate(ranking):
            scores[name] = scores.get(name, 0.0) + 1 / (RANK_OFFSET + place)
    return sorted(scores, key=lambda name: -scores[name])
