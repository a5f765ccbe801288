"""The memory of an agent, kept by the memory service."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from callboard.agent import BaseAgent
from callboard.broker.ids import AgentId
from callboard.memory.base import MemoryContent
from callboard.memory.stores.base import (
    Filter,
    MemoryStats,
    MemoryStore,
    Search,
    check_k,
    check_threshold,
    check_ttl,
)
from callboard.memory.stores.records import record_of

from .changes import GatheredChanges, HandlerChanges, additions_of
from .messages import (
    QUERIES,
    Change,
    Clear,
    Delete,
    MemoryIdsQuery,
    MemoryQuery,
    MemoryStatsQuery,
    register_memory_errors,
)
from .service import DEFAULT_TYPE

if TYPE_CHECKING:
    from callboard.protocol import AgentRuntime


class MemoryServiceClient(MemoryStore):
    """A memory that a memory service keeps, reached over the bus; see `memory_service`.

    Inside a handler, additions, deletions and `clear` belong to the handler's commit: they leave with it, in order and
    as one message, or not at all when the handler fails; they are carried out once although the handler, or the
    service, runs again. Outside of handlers everything is a request, which returns when it is done; additions at the
    same time go together.

    Queries are requests and go before changes that wait: they see what is stored when they come, which is at least
    every change whose call has returned outside of a handler. With `in_order` a query waits for all changes that were
    sent to this memory before it, those of earlier commits among them.

    Args:
        owner: The agent whose memory it is, or a runtime.
        agent: Whose memory, such as "writer/default"; None: the owner's, or "default" for a runtime. Agents that name
            the same share it.
        service: The type of the memory service.
        k: Most results of a query; None: as the service is configured.
        score_threshold: Lowest score; None: as the service is configured.
        ttl: Seconds after which additions are forgotten; None: as the service is configured.
        in_order: Whether queries wait for the changes that were sent before them.

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
        in_order: bool = False,
    ) -> None:
        register_memory_errors()
        self._owner = owner
        self._agent = agent
        self._service = service
        self._k = check_k(k)
        self._score_threshold = check_threshold(score_threshold)
        self._ttl = check_ttl(ttl)
        self._in_order = in_order
        self._gathered = GatheredChanges(self._ask)

    @property
    def agent(self) -> str:
        """The agent whose memory it is."""
        if self._agent is not None:
            return self._agent
        return str(self._owner.id) if isinstance(self._owner, BaseAgent) else "default"

    async def _add(self, contents: Sequence[MemoryContent], ttl: float | None) -> list[str]:
        pending = self._of_handler()
        named: list[MemoryContent] = []
        ids: list[str] = []
        for content in contents:
            # Made into a record here and not only in the service, so that the caller learns what is wrong with it.
            id = record_of(content).id  # noqa: A001
            if pending is not None and (content.metadata or {}).get("id") is None:
                id = pending.next_id()  # noqa: A001
            ids.append(id)
            named.append(_named(content, id))
        await self._change(additions_of(named, self._ttl if ttl is None else ttl), pending)
        return ids

    async def _find(self, search: Search) -> list[MemoryContent]:
        message = MemoryQuery(
            text=search.text,
            k=self._k if search.k is None else search.k,
            score_threshold=self._score_threshold
            if search.score_threshold is None
            else search.score_threshold,
            where=_plain(search.where),
        )
        found = await self._look(message)
        return list(found.results)

    async def ids(self, where: Filter | None = None) -> list[str]:
        found = await self._look(MemoryIdsQuery(where=_plain(where)))
        return list(found.ids)

    async def delete(self, ids: Sequence[str] = (), *, where: Filter | None = None) -> None:
        await self._change([Delete(ids=list(ids), where=_plain(where))], self._of_handler())

    async def clear(self) -> None:
        await self._change([Clear()], self._of_handler())

    async def stats(self) -> MemoryStats:
        found = await self._look(MemoryStatsQuery())
        stats: MemoryStats = found.collections[0]
        return stats

    async def all_stats(self) -> list[MemoryStats]:
        """The stats of every collection of the service's store, by name."""
        found = await self._look(MemoryStatsQuery(everything=True))
        return list(found.collections)

    async def close(self) -> None:
        """Nothing to let go of: the service has it all."""

    @property
    def _runtime(self) -> AgentRuntime:
        return self._owner.runtime if isinstance(self._owner, BaseAgent) else self._owner

    def _of_handler(self) -> HandlerChanges | None:
        """The changes of the handler that this is called in; None where no commit would take them along."""
        from callboard.runtime.execution import running
        from callboard.runtime.runtime import RedisAgentRuntime

        runtime = self._runtime
        execution = running(runtime.transport) if isinstance(runtime, RedisAgentRuntime) else None
        if execution is None:
            return None
        return HandlerChanges.of(runtime, execution, (self._service, self.agent))

    async def _change(self, changes: list[Change], pending: HandlerChanges | None) -> None:
        if pending is None:
            await self._gathered.send(changes)
        else:
            pending.changes += changes

    async def _look(self, message: Any) -> Any:
        """Ask without waiting for changes, unless they are to be waited for."""
        return await self._ask(message, "" if self._in_order else QUERIES)

    async def _ask(self, message: Any, side: str = "") -> Any:
        from callboard.runtime.execution import current

        execution = current.get()
        sender = None if execution is None or execution.is_over else execution.agent_id
        return await self._runtime.send_message(
            message, AgentId(f"{self._service}{side}", self.agent), sender=sender
        )


def _plain(where: Filter | None) -> dict[str, Any] | None:
    return None if where is None else dict(where)


def _named(content: MemoryContent, id: str) -> MemoryContent:
    return content.model_copy(update={"metadata": {**(content.metadata or {}), "id": id}})
