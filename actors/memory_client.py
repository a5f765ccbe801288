"""The memory of an agent, kept by the memory service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from broker.ids import AgentId, TopicId, derived_id
from memory.base import Cancellation, MemoryContent, MemoryQueryResult, cancellable
from memory.chroma_configs import check_k, check_threshold, check_ttl
from memory.records import record_of
from memory.store import Filter, MemoryStats, MemoryStore, refuse_unknown

from .agent import BaseAgent
from .memory_messages import (
    TOPIC,
    Add,
    Change,
    Clear,
    Delete,
    MemoryChanges,
    MemoryIdsQuery,
    MemoryQuery,
    MemoryStatsQuery,
    register_memory_errors,
)
from .memory_service import DEFAULT_TYPE

if TYPE_CHECKING:
    from .activation import Activation
    from .runtime_protocol import AgentRuntime

MOST_CONTENTS = 256  # in one message
MOST_CHARACTERS = (
    100_000  # in one message, so that it stays below a payload's limit whatever the characters are
)


class MemoryServiceClient(MemoryStore):
    """A memory that a memory service keeps, reached over the bus; see `memory_service`.

    Inside a handler, what is added, deleted and cleared belongs to the handler's commit: it leaves with it, in order
    and as one message, or not at all when the handler fails; it is carried out once although the handler, or the
    service, runs again. Queries are requests and see what was stored before they came. Outside of handlers everything
    is a request, which returns when it is done; what is added at the same time goes together.

    Args:
        owner: The agent whose memory it is, or a runtime.
        agent: Whose memory, such as "writer/default"; None: the owner's, or "default" for a runtime. Agents that name
            the same share it.
        service: The type of the memory service.
        k: Most results of a query; None: as the service is configured.
        score_threshold: Lowest score; None: as the service is configured.
        ttl: Seconds after which what is added is forgotten; None: as the service is configured.

    Raises:
        MemorySettingError: A value can't work (a ValueError).
    """

    def __init__(
        self,
        owner: BaseAgent | AgentRuntime,
        agent: str | None = None,
        *,
        service: str = DEFAULT_TYPE,
        k: int | None = None,
        score_threshold: float | None = None,
        ttl: float | None = None,
    ) -> None:
        register_memory_errors()
        self._owner = owner
        self._agent = agent
        self._service = service
        self._k = None if k is None else check_k(k)
        self._score_threshold = check_threshold(score_threshold)
        self._ttl = check_ttl(ttl)
        self._batch: _Batch | None = None

    @property
    def agent(self) -> str:
        """Whose memory it is."""
        if self._agent is not None:
            return self._agent
        return str(self._owner.id) if isinstance(self._owner, BaseAgent) else "default"

    async def add_many(
        self,
        contents: Sequence[MemoryContent],
        cancellation_token: Cancellation | None = None,
        *,
        ttl: float | None = None,
    ) -> list[str]:
        seconds = self._ttl if ttl is None else check_ttl(ttl)
        activation = self._activation()
        pending = None if activation is None else self._pending(activation)
        named: list[MemoryContent] = []
        for content in contents:
            # Here and not only in the service: whoever adds it learns what is wrong with it.
            record = record_of(content)
            has_id = (content.metadata or {}).get("id") is not None
            named.append(
                content if has_id else _named(content, record.id if pending is None else pending.next_id())
            )
        ids = [str((content.metadata or {})["id"]) for content in named]
        changes: list[Change] = [Add(contents=part, ttl=seconds) for part in _parts(named)]
        await self._change(changes, pending, cancellation_token)
        return ids

    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: Cancellation | None = None,
        *,
        k: int | None = None,
        score_threshold: float | None = None,
        where: Filter | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        refuse_unknown(kwargs)
        message = MemoryQuery(
            text=query if isinstance(query, str) else query.text,
            k=self._k if k is None else check_k(k),
            score_threshold=self._score_threshold
            if score_threshold is None
            else check_threshold(score_threshold),
            where=None if where is None else dict(where),
        )
        found = await cancellable(cancellation_token, self._ask(message))
        return MemoryQueryResult(results=found.results)

    async def ids(self, where: Filter | None = None) -> list[str]:
        found = await self._ask(MemoryIdsQuery(where=None if where is None else dict(where)))
        return list(found.ids)

    async def delete(self, ids: Sequence[str] = (), *, where: Filter | None = None) -> None:
        activation = self._activation()
        pending = None if activation is None else self._pending(activation)
        change = Delete(ids=list(ids), where=None if where is None else dict(where))
        await self._change([change], pending)

    async def clear(self) -> None:
        activation = self._activation()
        await self._change([Clear()], None if activation is None else self._pending(activation))

    async def stats(self) -> MemoryStats:
        found = await self._ask(MemoryStatsQuery())
        stats: MemoryStats = found.collections[0]
        return stats

    async def all_stats(self) -> list[MemoryStats]:
        """How every collection of the service's store stands, by name."""
        found = await self._ask(MemoryStatsQuery(everything=True))
        return list(found.collections)

    async def close(self) -> None:
        """Nothing to let go of: the service has it all."""

    @property
    def _runtime(self) -> AgentRuntime:
        return self._owner.runtime if isinstance(self._owner, BaseAgent) else self._owner

    def _activation(self) -> Activation | None:
        """The handler that this is called in, if what it publishes leaves with its commit."""
        from .activation import running
        from .runtime import RedisAgentRuntime

        runtime = self._runtime
        return running(runtime.transport) if isinstance(runtime, RedisAgentRuntime) else None

    def _pending(self, activation: Activation) -> _Pending:
        target = (self._service, self.agent)
        for settle in activation.before_commit:
            if isinstance(settle, _Pending) and settle.target == target:
                return settle
        pending = _Pending(self._runtime, activation, target)
        activation.before_commit.append(pending)
        return pending

    async def _change(
        self, changes: list[Change], pending: _Pending | None, token: Cancellation | None = None
    ) -> None:
        if pending is not None:
            pending.changes += changes
            return
        if self._batch is None:
            self._batch = _Batch(self)
        await cancellable(token, self._batch.send(changes))

    async def _ask(self, message: Any) -> Any:
        from .activation import current

        activation = current.get()
        sender = None if activation is None or activation.is_over else activation.agent_id
        return await self._runtime.send_message(message, AgentId(self._service, self.agent), sender=sender)


class _Pending:
    """What one handler changes in one memory; leaves when the handler has succeeded."""

    def __init__(self, runtime: AgentRuntime, activation: Activation, target: tuple[str, str]) -> None:
        self.target = target
        self.changes: list[Change] = []
        self._runtime = runtime
        self._activation = activation
        self._count = 0

    def next_id(self) -> str:
        """The id of the next record that this handler adds: the same in every attempt at its message."""
        self._count += 1
        where = "\0".join((str(self._activation.agent_id), *self.target))
        return derived_id(self._activation.message_id, where, self._count, b"memory")

    async def __call__(self) -> None:
        changes, self.changes = self.changes, []
        service, agent = self.target
        for message in _messages(changes):
            await self._runtime.publish_message(
                message, TopicId(f"{service}:{TOPIC}", agent), sender=self._activation.agent_id
            )


class _Batch:
    """What is changed outside of handlers: while one request is under way, the next gathers."""

    def __init__(self, client: MemoryServiceClient) -> None:
        self._client = client
        self._waiting: list[tuple[list[Change], asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def send(self, changes: list[Change]) -> None:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((changes, done))
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        await done

    async def _work(self) -> None:
        try:
            while self._waiting:
                taken, self._waiting = self._waiting, []
                await self._send_all(taken)
        finally:
            self._task = None

    async def _send_all(self, taken: list[tuple[list[Change], asyncio.Future[None]]]) -> None:
        alive = [(changes, done) for changes, done in taken if not done.done()]
        try:
            for message in _messages([change for changes, _ in alive for change in changes]):
                await self._client._ask(message)
        except BaseException as error:
            for _, done in alive:
                _fail(done, error)
            if not isinstance(error, Exception):
                raise
            return
        for _, done in alive:
            if not done.done():
                done.set_result(None)


def _fail(done: asyncio.Future[None], error: BaseException) -> None:
    if done.done():
        return
    if isinstance(error, Exception):
        done.set_exception(error)
    else:
        done.cancel()


def _named(content: MemoryContent, id: str) -> MemoryContent:
    return content.model_copy(update={"metadata": {**(content.metadata or {}), "id": id}})


def _parts(contents: list[MemoryContent]) -> list[list[MemoryContent]]:
    """Contents in parts, each small enough for one message."""
    parts: list[list[MemoryContent]] = []
    size = 0
    for content in contents:
        length = len(content.text)
        if not parts or len(parts[-1]) == MOST_CONTENTS or size + length > MOST_CHARACTERS:
            parts.append([])
            size = 0
        parts[-1].append(content)
        size += length
    return parts


def _messages(changes: list[Change]) -> list[MemoryChanges]:
    """Changes in messages, in order, each small enough to be sent."""
    grouped: list[list[Change]] = []
    count = size = 0
    for change in changes:
        contents = change.contents if isinstance(change, Add) else []
        length = sum(len(content.text) for content in contents)
        if not grouped or count + len(contents) > MOST_CONTENTS or size + length > MOST_CHARACTERS:
            grouped.append([])
            count = size = 0
        grouped[-1].append(change)
        count += len(contents)
        size += length
    return [MemoryChanges(changes=group) for group in grouped]
