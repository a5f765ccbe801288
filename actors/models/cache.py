"""The client that answers from a cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

from pydantic import BaseModel, ValidationError

from callboard.memory.cancelling import cancellable

from .base import ChatCompletionClient
from .request import ModelRequest, WrappedChatCompletionClient
from .settings import DEFAULTS
from .stores import InMemoryStore, Store
from .types import CreateResult, RequestUsage


class CachedAnswer(BaseModel):
    """An answer as the store keeps it, as JSON.

    Attributes:
        result: the answer.
        pieces: the texts that came before it in a stream; None: it was no stream.
    """

    result: CreateResult
    pieces: list[str] | None = None


class CachedChatCompletionClient(WrappedChatCompletionClient):
    """A client that answers repeated requests from a store; such an answer says `cached=True`.

    The key is a hash of everything that decides the answer: messages, tools, tool choice, output schema, arguments,
    and the fingerprint of the client (model, address, its own arguments), which AutoGen's ChatCompletionCache leaves out,
    so that two models with one store answer for each other there. Errors are not kept, nor streams that ended early.

    Of equal requests at the same time in one process the first asks the model, and the others wait for its answer; when it
    fails or is cancelled, the next one asks. Streams, and requests of several processes, do not wait for each other: the
    later answer takes the place of the earlier one.

    A stream gives the pieces that it gave first; of an answer that was no stream, its text in one piece.

    Args:
        client: asked when the store has no answer.
        store: keeps the answers; default: one in this process.
        seconds: how long answers are kept.
    """

    def __init__(
        self,
        client: ChatCompletionClient,
        store: Store | None = None,
        *,
        seconds: float = DEFAULTS.cache_seconds,
    ) -> None:
        super().__init__(client)
        self.store = store or InMemoryStore()
        self._seconds = seconds
        self._saved = RequestUsage(0, 0)
        self._asking: dict[str, asyncio.Event] = {}

    def total_usage(self) -> RequestUsage:
        return self.client.total_usage() + self._saved

    async def _create(self, request: ModelRequest) -> CreateResult:
        name = self._name(request)
        while (under_way := self._asking.get(name)) is not None:
            await cancellable(_ended(under_way), request.cancellation_token)
        # Nothing is awaited in between: of those that waited for one that failed, one asks.
        self._asking[name] = done = asyncio.Event()
        try:
            return await self._found_or_asked(name, request)
        finally:
            del self._asking[name]
            done.set()

    async def _found_or_asked(self, name: str, request: ModelRequest) -> CreateResult:
        found = await self._find(name)
        if found is not None:
            return found.result
        result = await request.create(self.client)
        await self._keep(name, CachedAnswer(result=result))
        return result

    async def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]:
        name = self._name(request)
        found = await self._find(name)
        if found is not None:
            for piece in found.pieces or pieces_of(found.result):
                yield piece
            yield found.result
            return
        pieces: list[str] = []
        async with aclosing(request.create_stream(self.client)) as items:
            async for item in items:
                if isinstance(item, CreateResult):
                    await self._keep(name, CachedAnswer(result=item, pieces=pieces))
                else:
                    pieces.append(item)
                yield item

    def _name(self, request: ModelRequest) -> str:
        return f"answer:{request.digest(self.client)}"

    async def _find(self, name: str) -> CachedAnswer | None:
        data = await self.store.get(name)
        if data is None:
            return None
        try:
            answer = CachedAnswer.model_validate_json(data)
        except ValidationError:
            return None  # another version of this package kept it; the new answer takes its place
        self._saved += answer.result.usage
        return answer.model_copy(update={"result": answer.result.model_copy(update={"cached": True})})

    async def _keep(self, name: str, answer: CachedAnswer) -> None:
        await self.store.set(name, answer.model_dump_json().encode(), self._seconds)


def pieces_of(result: CreateResult) -> list[str]:
    """The pieces of a stream whose answer is there already: the text in one piece."""
    return [result.content] if isinstance(result.content, str) and result.content else []


async def _ended(request: asyncio.Event) -> None:
    await request.wait()
