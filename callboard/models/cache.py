"""The client that answers from a cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import Any, Self

from pydantic import BaseModel, ValidationError

from callboard.foundation.cache_store import CacheStore
from callboard.foundation.component import Component, ComponentLoader, ComponentModel, dumped
from callboard.memory.cancelling import cancellable

from .base import ChatCompletionClient, ModelRequest, WrappedChatCompletionClient
from .info import DEFAULTS
from .stores import AnswerStore, LocalStore
from .types import CreateResult, RequestUsage


class RecordedAnswer(BaseModel):
    """An answer that is kept, as JSON, to be given again.

    Attributes:
        result: the answer.
        pieces: the texts that came before it in a stream; None: it was no stream.
    """

    result: CreateResult
    pieces: list[str] | None = None

    def items(self) -> Iterator[str | CreateResult]:
        """The stream again; of an answer that was none, or an empty one, the text in one piece."""
        content = self.result.content
        yield from self.pieces or ([content] if isinstance(content, str) and content else ())
        yield self.result


class _SyncStore:
    """A store with AutoGen's interface as one of ours. It keeps values for as long as it likes."""

    def __init__(self, store: CacheStore[Any]) -> None:
        self._store = store

    async def get(self, name: str) -> bytes | None:
        value = self._store.get(name)
        # Some stores give text back for bytes.
        return value.encode() if isinstance(value, str) else value

    async def set(self, name: str, value: bytes, seconds: float) -> None:
        self._store.set(name, value)


class CachedChatCompletionClientConfig(BaseModel):
    """A client with a cache as plain data; its fields are the arguments of CachedChatCompletionClient.

    Without a store it is one of its own in the process.
    """

    client: ComponentModel
    store: ComponentModel | None = None
    seconds: float = DEFAULTS.cache_seconds


class CachedChatCompletionClient(WrappedChatCompletionClient, Component[CachedChatCompletionClientConfig]):
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
        store: keeps the answers; default: one in this process. A CacheStore, as AutoGen's programs have it, is called in
            the event loop.
        seconds: how long answers are kept; a CacheStore keeps them for as long as it likes.
    """

    component_config_schema = CachedChatCompletionClientConfig
    component_provider_override = "callboard.models.CachedChatCompletionClient"

    def __init__(
        self,
        client: ChatCompletionClient,
        store: AnswerStore | CacheStore[Any] | None = None,
        *,
        seconds: float = DEFAULTS.cache_seconds,
    ) -> None:
        super().__init__(client)
        self.store = LocalStore() if store is None else store
        self._answers: AnswerStore = (
            _SyncStore(self.store) if isinstance(self.store, CacheStore) else self.store
        )
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
        await self._keep(name, RecordedAnswer(result=result))
        return result

    async def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]:
        name = self._name(request)
        found = await self._find(name)
        if found is not None:
            for item in found.items():
                yield item
            return
        pieces: list[str] = []
        async with aclosing(request.create_stream(self.client)) as items:
            async for item in items:
                if isinstance(item, CreateResult):
                    await self._keep(name, RecordedAnswer(result=item, pieces=pieces))
                else:
                    pieces.append(item)
                yield item

    def _name(self, request: ModelRequest) -> str:
        return f"answer:{request.digest(self.client)}"

    async def _find(self, name: str) -> RecordedAnswer | None:
        data = await self._answers.get(name)
        if data is None:
            return None
        try:
            answer = RecordedAnswer.model_validate_json(data)
        except ValidationError:
            return None  # another version of this package kept it; the new answer takes its place
        self._saved += answer.result.usage
        return answer.model_copy(update={"result": answer.result.model_copy(update={"cached": True})})

    async def _keep(self, name: str, answer: RecordedAnswer) -> None:
        await self._answers.set(name, answer.model_dump_json().encode(), self._seconds)

    def _to_config(self) -> CachedChatCompletionClientConfig:
        store = None if isinstance(self.store, LocalStore) else dumped(self.store, self)
        return CachedChatCompletionClientConfig(
            client=dumped(self.client, self), store=store, seconds=self._seconds
        )

    @classmethod
    def _from_config(cls, config: CachedChatCompletionClientConfig) -> Self:
        client = ChatCompletionClient.load_component(config.client)
        store: Any = None if config.store is None else ComponentLoader.load_component(config.store)
        return cls(client, store, seconds=config.seconds)


async def _ended(request: asyncio.Event) -> None:
    await request.wait()
