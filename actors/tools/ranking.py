"""Ranks tools by how well they fit a text: words in names, descriptions and arguments, rare ones counting more."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from .schema import ToolSchema

WORD: Final = re.compile(r"[^\W_]+")
HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
NAME_WEIGHT: Final = 3
MIN_STEM: Final = 4  # letters that two words have to begin with to count as forms of one

_STOP: Final = frozenset(
    ["a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "how", "i", "in", "is", "it", "me", "my"]
) | frozenset(["of", "on", "or", "that", "the", "to", "what", "with"])


def rank(query: str, schemas: Sequence[ToolSchema]) -> list[str]:
    """Names of the tools in which words of a text are found, the best first; equals in their order.

    Args:
        query: The text.
        schemas: The tools.
    """
    wanted = set(_words(query)) - _STOP
    counts = [_counts(schema) for schema in schemas]
    spread = {word: sum(1 for count in counts if _found(word, count)) for word in wanted}
    scores = [
        sum(
            _found(word, count) * math.log(1 + len(schemas) / spread[word]) for word in wanted if spread[word]
        )
        for count in counts
    ]
    order = sorted(range(len(schemas)), key=lambda i: -scores[i])
    return [schemas[i]["name"] for i in order if scores[i] > 0]


def _words(text: str) -> Iterator[str]:
    for found in WORD.findall(HUMP.sub(" ", text)):
        yield found.casefold()


def _counts(schema: ToolSchema) -> Counter[str]:
    counts: Counter[str] = Counter()
    for word in _words(schema["name"]):
        counts[word] += NAME_WEIGHT
    counts.update(_words(schema.get("description", "")))
    parameters = schema.get("parameters")
    for name, part in (parameters["properties"] if parameters else {}).items():
        counts.update(_words(name))
        counts.update(_words(str(part.get("description", ""))) if isinstance(part, dict) else ())
    return counts


def _found(word: str, counts: Counter[str]) -> float:
    """The weight of a word in a tool. More of the same adds little; another form of it counts half."""
    if word in counts:
        return 1 + math.log(counts[word])
    forms = [count for other, count in counts.items() if _same_stem(word, other)]
    return (1 + math.log(max(forms))) / 2 if forms else 0.0


def _same_stem(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= MIN_STEM and long.startswith(short)
