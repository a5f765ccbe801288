"""The ranking of tools by a text: by its words (BM25), and by its meaning."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, Final

from callboard.memory.embedders import Embedder

from .schema import ToolSchema

WORD: Final = re.compile(r"[^\W_]+")
HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
STOP: Final = """
    a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to
    was will with
"""
"""Words that say nothing about what is wanted: Lucene's list for English."""
_STOP: Final = frozenset(STOP.split())


def words_of(text: str) -> Iterator[str]:
    """The stems of a text's words in order, stop words left out; names are split at ``_`` and at capitals."""
    # It loads modules for 36 languages: only where tools are searched.
    from snowballstemmer import stemmer

    english = stemmer("english")  # one for each text: it is not made for two threads
    for found in WORD.findall(HUMP.sub(" ", text)):
        word = found.casefold()
        if word not in _STOP:
            yield english.stemWord(word)


NAME_WEIGHT: Final = 3  # of a word in a name, against 1 elsewhere
SATURATION: Final = 1.2  # how soon more of the same word adds little
LENGTH: Final = 0.3  # how much long descriptions are held back, 0 to 1
PREFIX_WEIGHT: Final = 0.5  # of a word that begins with it, or that it begins with
MIN_PREFIX: Final = 4  # letters


class ToolIndex:
    """The words of tools, for searching."""

    def __init__(self) -> None:
        self._lengths: dict[str, float] = {}
        self._found: defaultdict[str, dict[str, int]] = defaultdict(dict)  # stem -> tool -> count

    def __contains__(self, name: str) -> bool:
        return name in self._lengths

    def add(self, schema: ToolSchema) -> None:
        """Take in a tool."""
        counts = _counts(schema)
        self._lengths[schema["name"]] = counts.total()
        for word, count in counts.items():
            self._found[word][schema["name"]] = count

    def remove(self, name: str) -> None:
        """Forget a tool."""
        self._lengths.pop(name, None)
        for word in [word for word, tools in self._found.items() if tools.pop(name, None) and not tools]:
            del self._found[word]

    def rank(self, query: str, among: Container[str] | None = None) -> list[str]:
        """Names of the tools in which words of a text are found, in any of their forms.

        Args:
            query: The text.
            among: Names of the tools that count; None: all.

        Returns:
            The best first, equals in the order in which they were taken in.
        """
        scores: defaultdict[str, float] = defaultdict(float)
        for word in dict.fromkeys(words_of(query)):
            for name, score in self._scores(word).items():
                scores[name] += score
        names = [name for name in self._lengths if name in scores and (among is None or name in among)]
        return sorted(names, key=lambda name: -scores[name])

    def _scores(self, word: str) -> dict[str, float]:
        """Of one word of the query for each tool; the best of its forms counts where the word itself is in no tool."""
        best: dict[str, float] = {}
        average = sum(self._lengths.values()) / max(1, len(self._lengths))
        for other, weight in self._forms(word):
            tools = self._found[other]
            rarity = math.log(1 + (len(self._lengths) - len(tools) + 0.5) / (len(tools) + 0.5))
            for name, count in tools.items():
                score = weight * rarity * _saturated(count, self._lengths[name] / average)
                best[name] = max(best.get(name, 0.0), score)
        return best

    def _forms(self, word: str) -> Iterator[tuple[str, float]]:
        if word in self._found:
            yield word, 1.0
            return
        for other in self._found:
            if _is_form(word, other):
                yield other, PREFIX_WEIGHT


def rank(query: str, schemas: Sequence[ToolSchema]) -> list[str]:
    """Names of the tools that fit a text, the best first; see `ToolIndex.rank`.

    Args:
        query: The text.
        schemas: The tools.
    """
    index = ToolIndex()
    for schema in schemas:
        index.add(schema)
    return index.rank(query)


def text_of(schema: ToolSchema) -> str:
    """Name, description and arguments of a tool as one text, for an embedder."""
    described = [f"{name}: {part}" for name, part in _parameters(schema)]
    return ". ".join([schema["name"].replace("_", " "), schema.get("description", ""), *described])


def _counts(schema: ToolSchema) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word in words_of(schema["name"]):
        counts[word] += NAME_WEIGHT
    counts.update(words_of(schema.get("description", "")))
    for name, description in _parameters(schema):
        counts.update(words_of(name))
        counts.update(words_of(description))
    return counts


def _parameters(schema: ToolSchema) -> Iterator[tuple[str, str]]:
    """Name and description of each argument."""
    parameters = schema.get("parameters")
    properties: dict[str, Any] = parameters["properties"] if parameters else {}
    for name, part in properties.items():
        yield name, str(part.get("description", "")) if isinstance(part, dict) else ""


def _saturated(count: int, length: float) -> float:
    """Weight of a word that is in a tool so often; `length`: of the tool's text, 1 for an average one."""
    held_back = 1 - LENGTH + LENGTH * length
    return count * (SATURATION + 1) / (count + SATURATION * held_back)


def _is_form(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= MIN_PREFIX and long.startswith(short)


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
            MemoryFailedError: The model failed.
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
