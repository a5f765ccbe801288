"""Texts that are asked for at the same time run through the model together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .embedder import Embedder, EmbeddingModel

if TYPE_CHECKING:
    from .embedder import Vectors

LARGEST_BATCH = 256  # texts in one call of the embedder, if more than one call waits


class _Waiting(NamedTuple):
    texts: list[str]
    done: asyncio.Future[Vectors]


class BatchingEmbedder:
    """Gives an embedder what came in while its last batch ran as one batch.

    Args:
        embedder: Makes the vectors.
    """

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._queue: list[_Waiting] = []
        self._task: asyncio.Task[None] | None = None

    async def load(self) -> EmbeddingModel:
        """See Embedder."""
        return await self._embedder.load()

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """See Embedder. An error reaches everybody whose texts were in the batch."""
        waiting = _Waiting(list(texts), asyncio.get_running_loop().create_future())
        self._queue.append(waiting)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await waiting.done

    async def _work(self) -> None:
        try:
            while self._queue:
                await self._run(self._next())
        finally:
            self._task = None
            for left in self._queue:
                left.done.cancel()

    def _next(self) -> list[_Waiting]:
        """As many as fit into a batch; the first in any case."""
        batch = [self._queue.pop(0)]
        size = len(batch[0].texts)
        while self._queue and size + len(self._queue[0].texts) <= LARGEST_BATCH:
            batch.append(self._queue.pop(0))
            size += len(batch[-1].texts)
        return batch

    async def _run(self, batch: list[_Waiting]) -> None:
        try:
            vectors = await self._embedder.embed([text for one in batch for text in one.texts])
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where the texts come from
            for one in batch:
                if not one.done.done():
                    one.done.set_exception(error)
            return
        start = 0
        for one in batch:
            if not one.done.done():
                one.done.set_result(vectors[start : start + len(one.texts)])
            start += len(one.texts)
