"""The interface of embedders, texts in and vectors out: how much of a text they read, and embedding in batches."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

from .errors import model_failed

__all__ = []


if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]
else:
    Vectors = Any  # numpy is optional, and slow to import


@dataclass(frozen=True, slots=True)
class EmbeddingModel:
    """The identity of a model. Vectors of different models can't be compared.

    Attributes:
        name: the same for the same weights, wherever they run. The part behind an @ tells weights apart; the part
            before it is for people.
        dimension: numbers in a vector.
    """

    name: str
    dimension: int

    def makes_vectors_of(self, other: EmbeddingModel) -> bool:
        """Whether vectors of both can be compared."""
        mine, its = (model.name.rpartition("@")[2] for model in (self, other))
        return mine == its and self.dimension == other.dimension

    def __str__(self) -> str:
        return f"{self.name} ({self.dimension} numbers)"


class Embedder(Protocol):
    """A maker of vectors of length 1, such that texts close in meaning have a scalar product near 1."""

    async def load(self) -> EmbeddingModel:
        """Make the model ready, if it is not yet, and say which it is."""
        ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts.

        Args:
            texts: Any number. A text longer than the model reads may be cut: an embedder that does so says how much
                it reads with a method `limit`, see `limit_of`, and stores give it parts of such a text.

        Returns:
            float32, shape (len(texts), dimension), each row of length 1.

        Raises:
            MemoryFailedError: the model failed.
        """
        ...


def as_vectors(rows: Any, count: int, model: EmbeddingModel) -> Vectors:
    """Rows of numbers as vectors of length 1.

    Args:
        rows: As a model returned them.
        count: How many there have to be.
        model: The model that returned them.

    Raises:
        MemoryFailedError: there are more or fewer, they have another dimension, or one is not finite.
    """
    import numpy as np

    if not count:
        return np.zeros((0, model.dimension), dtype=np.float32)
    vectors = np.asarray(rows, dtype=np.float32)
    if vectors.shape != (count, model.dimension):
        wanted = (count, model.dimension)
        raise model_failed(model.name, f"it returned the shape {vectors.shape} instead of {wanted}")
    if not np.isfinite(vectors).all():
        raise model_failed(model.name, "it returned numbers that are not finite")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: Vectors = vectors / np.maximum(lengths, 1e-12)
    return scaled


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


T = TypeVar("T")
R = TypeVar("R")

UNLIMITED: Final = 2**31


class _Waiting(NamedTuple, Generic[T, R]):
    item: T
    done: asyncio.Future[R]


class Batches(Generic[T, R]):
    """A queue whose items are worked off in batches, one batch at a time and in order.

    Args:
        run: Works off a batch; returns one result for each item.
        size: Of an item.
        largest: Most that the items of a batch may add up to; a larger item is a batch by itself.
    """

    def __init__(
        self,
        run: Callable[[list[T]], Awaitable[Sequence[R]]],
        size: Callable[[T], int] = lambda _: 1,
        largest: int = UNLIMITED,
    ) -> None:
        self._run = run
        self._size = size
        self._largest = largest
        self._waiting: list[_Waiting[T, R]] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, item: T) -> R:
        """The result for an item. An error of a batch is raised in every call that has an item in it."""
        call = _Waiting[T, R](item, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await call.done

    async def _work(self) -> None:
        try:
            while batch := self._next():
                await self._run_batch(batch)
        finally:
            # There is no await between the empty queue and this line. If there were one, a call could come in between,
            # see a task, start none, and wait for ever.
            self._task = None

    def _next(self) -> list[_Waiting[T, R]]:
        """As many calls as fit into a batch, without those that were cancelled while they waited."""
        batch: list[_Waiting[T, R]] = []
        room = self._largest
        while self._waiting:
            size = self._size(self._waiting[0].item)
            if batch and size > room:
                break
            call = self._waiting.pop(0)
            if not call.done.done():
                batch.append(call)
                room -= size
        return batch

    async def _run_batch(self, batch: list[_Waiting[T, R]]) -> None:
        try:
            results = await self._run([call.item for call in batch])
        except Exception as error:  # noqa: BLE001 - it is raised where the items come from
            for call in batch:
                if not call.done.done():
                    call.done.set_exception(error)
        except BaseException:
            # The loop ends and cancels this task: calls that still wait would otherwise never return.
            for call in (*batch, *self._waiting):
                call.done.cancel()
            self._waiting.clear()
            raise
        else:
            for call, result in zip(batch, results, strict=True):
                # A caller may have given up while its batch ran; the others still get their results.
                if not call.done.done():
                    call.done.set_result(result)


LARGEST_BATCH: Final = 32  # texts in one call of the embedder: nothing that comes meanwhile waits for more
PART: Final = 8  # texts of one caller in a batch; with more, its next ones stand behind those of the others


class BatchingEmbedder:
    """An embedder that gives another one, as one batch, the texts that came while its last batch ran.

    Callers take turns, so that one with many texts does not keep the others waiting; and the texts of `queries` go
    beside these batches, not behind them.

    Args:
        embedder: Makes the vectors.

    Attributes:
        queries: The same embedder for calls that can't wait.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._batches = Batches[list[str], Vectors](self._embed, len, LARGEST_BATCH)
        self.queries: Embedder = _Lane(self, Batches[list[str], Vectors](self._embed, len, LARGEST_BATCH).add)

    async def load(self) -> EmbeddingModel:
        """See Embedder."""
        return await self._embedder.load()

    async def limit(self) -> TextLimit | None:
        """That of the other one."""
        return await limit_of(self._embedder)

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder. An error is raised in every call whose texts were in the batch."""
        return await _in_parts(self._batches.add, texts)

    async def _embed(self, batch: list[list[str]]) -> list[Vectors]:
        vectors = await self._embedder.embed([text for texts in batch for text in texts])
        parts: list[Vectors] = []
        start = 0
        for texts in batch:
            parts.append(vectors[start : start + len(texts)])
            start += len(texts)
        return parts


class _Lane:
    """The embedder of a BatchingEmbedder, with batches of its own."""

    def __init__(self, whole: BatchingEmbedder, add: Callable[[list[str]], Awaitable[Vectors]]) -> None:
        self.load = whole.load
        self.limit = whole.limit
        self._add = add

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder."""
        return await _in_parts(self._add, texts)


async def _in_parts(add: Callable[[list[str]], Awaitable[Vectors]], texts: Sequence[str]) -> Vectors:
    import numpy as np

    if len(texts) <= PART:
        return await add(list(texts))
    parts = [await add(list(texts[start : start + PART])) for start in range(0, len(texts), PART)]
    joined: Vectors = np.concatenate(parts)
    return joined


class FunctionEmbedder:
    """An embedder that calls an async function, such as the client of a service.

    Args:
        function: Takes a list of texts, returns a row of numbers for each.
        model: Its name, stored with what is remembered.
        dimension: Numbers in a row.
        batch_size: Most texts in one call.
        limit: The longest text that it reads whole; None: any.
    """

    def __init__(
        self,
        function: Callable[[list[str]], Awaitable[Any]],
        *,
        model: str,
        dimension: int,
        batch_size: int = 256,
        limit: TextLimit | None = None,
    ) -> None:
        self._function = function
        self._model = EmbeddingModel(model, dimension)
        self._batch_size = batch_size
        self._limit = limit

    async def load(self) -> EmbeddingModel:
        """The model that was named."""
        return self._model

    async def limit(self) -> TextLimit | None:
        """The longest text that it reads whole; None: any."""
        return self._limit

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder. Errors of the function are raised as they are."""
        rows: list[Any] = []
        for start in range(0, len(texts), self._batch_size):
            rows += await self._function(list(texts[start : start + self._batch_size]))
        return as_vectors(rows, len(texts), self._model)
