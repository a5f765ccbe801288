"""How much of a text an embedder reads, and cutting texts that are longer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

WORD: Final = re.compile(r"\S+\s*")
SENTENCE_END: Final = re.compile(r"[.!?…。！？][\"'”’)\]]*\s+\Z")
EARLIEST_END: Final = 0.6  # of a part, from which on it may end at a sentence instead of a word
REPEATED: Final = 0.1  # of a part, that the next one repeats, so that no thought is cut in two for both


@dataclass(frozen=True, slots=True)
class TextLimit:
    """The longest text that an embedder reads whole.

    Attributes:
        tokens: the most tokens.
        count: how many tokens a text has, without those that the model puts around it. Any thread may call it.
    """

    tokens: int
    count: Callable[[str], int]

    def fits(self, text: str) -> bool:
        """Whether the model reads all of a text."""
        # No token is shorter than a byte, so most texts need not be counted.
        return len(text.encode(errors="replace")) <= self.tokens or self.count(text) <= self.tokens


@runtime_checkable
class LimitedEmbedder(Protocol):
    """An embedder that knows how much of a text it reads. One without this method reads texts of any length."""

    async def limit(self) -> TextLimit | None:
        """The longest text that it reads whole; None: there is no limit, or none is known."""
        ...


async def limit_of(embedder: Any) -> TextLimit | None:
    """The longest text that an embedder reads whole; None: any."""
    return await embedder.limit() if isinstance(embedder, LimitedEmbedder) else None


def parts_of(text: str, limit: TextLimit | None) -> list[str]:
    """A text in parts that are read whole, in order: the text itself where it fits.

    A part ends at a sentence where that is near, else at a word, else anywhere; each begins with the last words of the
    one before it.
    """
    if limit is None or limit.fits(text):
        return [text]
    words = [piece for word in WORD.findall(text) for piece in _fitting(word, limit)]
    return list(_packed(words, limit)) or [text]


def _fitting(word: str, limit: TextLimit) -> list[str]:
    """A word, or a text without spaces, in pieces of which two fit into a part."""
    if limit.count(word) <= limit.tokens // 2 or len(word) == 1:
        return [word]
    middle = len(word) // 2
    return [*_fitting(word[:middle], limit), *_fitting(word[middle:], limit)]


def _packed(words: list[str], limit: TextLimit) -> Iterator[str]:
    sizes = [limit.count(word) for word in words]
    start = 0
    while start < len(words):
        end = _end(words, sizes, start, limit)
        yield "".join(words[start:end]).strip()
        if end == len(words):
            return
        start = max(start + 1, _back(sizes, start, end, int(limit.tokens * REPEATED)))


def _end(words: list[str], sizes: list[int], start: int, limit: TextLimit) -> int:
    """Where a part ends that begins at `start`."""
    end, size = start, 0
    while end < len(words) and (end == start or size + sizes[end] <= limit.tokens):
        size += sizes[end]
        end += 1
    # The tokens of words need not add up to those of the text.
    while end > start + 1 and limit.count("".join(words[start:end]).strip()) > limit.tokens:
        end -= 1
    if end == len(words):
        return end
    earliest = start + max(1, int((end - start) * EARLIEST_END))
    return next((at for at in range(end, earliest, -1) if SENTENCE_END.search(words[at - 1])), end)


def _back(sizes: list[int], start: int, end: int, most: int) -> int:
    """Where the words begin that are repeated of a part."""
    size = 0
    while end > start and size + sizes[end - 1] <= most:
        end -= 1
        size += sizes[end]
    return end
