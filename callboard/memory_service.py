"""Long-term memory over the bus: the memory of an agent, the messages, and the service that owns the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypeVar, Unpack

from pydantic import BaseModel, ConfigDict, Field

from callboard.broker.codec import message
from callboard.broker.ids import AgentId, TopicId, derived_id
from callboard.broker.remote_errors import register_error
from callboard.core.agent import BaseAgent
from callboard.core.context import MessageContext, host
from callboard.core.declaration import AgentOptions, AgentSettings
from callboard.core.handlers import RoutedAgent, event, rpc
from callboard.memory.base import MemoryContent
from callboard.memory.chroma import ChromaDBVectorMemory
from callboard.memory.chroma_config import (
    ChromaDBVectorMemoryConfig,
    InMemoryChromaDBVectorMemoryConfig,
    PersistentChromaDBVectorMemoryConfig,
)
from callboard.memory.embedders import Batches, BatchingEmbedder, Embedder
from callboard.memory.errors import LongTermMemoryError, setting_error
from callboard.memory.local_embedders import default_embedder
from callboard.memory.stores import (
    Filter,
    MemoryCheck,
    MemoryStats,
    MemoryStore,
    Search,
    check_k,
    check_threshold,
    check_ttl,
    record_of,
)

from .memory import errors as memory_errors

if TYPE_CHECKING:
    from callboard.core.declaration import AgentDeclaration
    from callboard.core.protocol import AgentRuntime
    from callboard.runtime.execution import Execution

    from .app import App

__all__ = ["MemoryServiceClient", "memory_service"]


DEFAULT_TYPE = "memory"

QUERIES = ".queries"
"""Behind the service's type, the type of the agents that look things up while the service works off changes."""


class MemoryServiceClient(MemoryStore):
    """A memory that a memory service keeps, reached over the bus; see `memory_service`.

    Inside a handler, additions, deletions and `clear` belong to the handler's commit: they leave with it, in order and
    as one message, or not at all when the handler fails; they are carried out once although the handler, or the
    service, runs again. Outside of handlers everything is a request, which returns when it is done; additions at the
    same time go together.

    Queries are requests and go before changes that wait: they see what is stored when they come, which is at least
    every change whose call has returned outside of a handler. With `in_order` a query waits for all changes that were
    sent to this memory before it, those of earlier commits among them.

    In a team on the bus the agents of all conversations share it, so there `agent` is a function of the conversation:

    ```python
    memory = MemoryServiceClient(agent=lambda conversation: f"customer/{conversation}")
    team = app.team(RoundRobinGroupChat([AssistantAgent("clerk", model, memory=[memory])], name="desk"))
    ```

    Args:
        owner: The agent whose memory it is, or a runtime; None: the agent of a team that uses it.
        agent: Whose memory, such as "writer/default", or a function that says so of a conversation, of the key of the
            owner, or of "default" for a runtime; None: the owner's, such as "desk.clerk/17" for the agent clerk of the team
            desk in the conversation 17, or "default" for a runtime. Agents that name the same share it.
        service: The type of the memory service.
        k: Most results of a query; None: as the service is configured.
        score_threshold: Lowest score; None: as the service is configured.
        ttl: Seconds after which additions are forgotten; None: as the service is configured.
        in_order: Whether queries wait for the changes that were sent before them.

    Raises:
        MemoryValueError: A value can't work (a ValueError).
    """

    def __init__(
        self,
        owner: BaseAgent | AgentRuntime | None = None,
        agent: str | Callable[[str], str] | None = None,
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
        self._is_shared = owner is None and not isinstance(agent, str)  # by agents whose memories differ

    @property
    def agent(self) -> str:
        """The agent whose memory it is.

        Raises:
            MemoryValueError: There is no owner, and it is used outside of a team on the bus (a ValueError).
        """
        if isinstance(self._agent, str):
            return self._agent
        owner, key = self._user
        if self._agent is not None:
            return self._agent(key)
        return f"{owner.id.type}/{key}" if isinstance(owner, BaseAgent) else key

    @property
    def _user(self) -> tuple[BaseAgent | AgentRuntime, str]:
        """The owner and its key; in a team the actor that speaks, and its conversation."""
        owner = self._owner
        if owner is not None:
            return owner, owner.id.key if isinstance(owner, BaseAgent) else "default"
        around = host.get()
        if around is None or not isinstance(around[0], BaseAgent):
            raise setting_error(
                "owner", "None", "an agent or a runtime, unless agents of a team on the bus use it"
            )
        return around[0], around[1]

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

    async def verify(self, *, repair: bool = True) -> MemoryCheck:
        check: MemoryCheck = await self._ask(MemoryVerify(repair=repair))
        return check

    async def close(self) -> None:
        """Nothing to let go of: the service has it all."""

    @property
    def _runtime(self) -> AgentRuntime:
        owner, _ = self._user
        return owner.runtime if isinstance(owner, BaseAgent) else owner

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
            # Of several memories none may wait in the request of another.
            gathered = GatheredChanges(self._ask) if self._is_shared else self._gathered
            await gathered.send(changes)
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


# Changes, gathered by a handler

T = TypeVar("T")

MOST_CONTENTS: Final = 256  # in one message
# In one message, so that it stays below a payload's limit whatever the characters are.
MOST_CHARACTERS: Final = 100_000

TOPIC = "memory"
"""The topic of changes, behind the service's type: `<type>:memory`."""


class HandlerChanges:
    """The changes that one handler makes in one memory. They leave with the handler's commit, or never.

    Attributes:
        target: type of the memory service, and the agent whose memory it is.
        changes: in the order in which they were made.
    """

    def __init__(self, runtime: AgentRuntime, execution: Execution, target: tuple[str, str]) -> None:
        self.target = target
        self.changes: list[Change] = []
        self._runtime = runtime
        self._activation = execution
        self._count = 0

    @classmethod
    def of(cls, runtime: AgentRuntime, execution: Execution, target: tuple[str, str]) -> HandlerChanges:
        """The changes of a handler in a memory: one object, so that all of them keep their order."""
        for known in execution.before_commit:
            if isinstance(known, cls) and known.target == target:
                return known
        changes = cls(runtime, execution, target)
        execution.before_commit.append(changes)
        return changes

    def next_id(self) -> str:
        """The id of the next record that this handler adds: the same in every attempt at its message.

        A worker may die after its commit and before it has seen the answer, or be fenced while its message is handled
        elsewhere: what both attempts add gets the same ids, and the second one only writes the same records again.
        """
        self._count += 1
        where = "\0".join((str(self._activation.agent_id), *self.target))
        return derived_id(self._activation.message_id, where, self._count, b"memory")

    async def __call__(self) -> None:
        """Publish the changes; awaited before the commit, so that they belong to it."""
        changes, self.changes = self.changes, []
        service, agent = self.target
        for changed in messages_of(changes):
            await self._runtime.publish_message(
                changed, TopicId(f"{service}:{TOPIC}", agent), sender=self._activation.agent_id
            )


class GatheredChanges:
    """Changes outside of handlers: while one request is under way, the next one gathers.

    One request at a time also keeps them in order: the service handles two requests that are under way at once in the
    order in which they reach the server, which need not be the order of the calls.

    Args:
        ask: Makes a request to the service.
    """

    def __init__(self, ask: Callable[[MemoryChanges], Awaitable[Any]]) -> None:
        self._ask = ask
        self._batches = Batches[list[Change], None](self._send)

    async def send(self, changes: list[Change]) -> None:
        """Send changes, and wait until they are carried out."""
        await self._batches.add(changes)

    async def _send(self, batch: list[list[Change]]) -> list[None]:
        for changed in messages_of(change for changes in batch for change in changes):
            await self._ask(changed)
        return [None] * len(batch)


def messages_of(changes: Iterable[Change]) -> list[MemoryChanges]:
    """Changes in messages, in order, each small enough to be sent."""
    groups = _grouped(changes, lambda change: change.contents if isinstance(change, Add) else [])
    return [MemoryChanges(changes=group) for group in groups]


def additions_of(contents: Iterable[MemoryContent], ttl: float | None) -> list[Change]:
    """Contents as changes, each small enough for one message."""
    return [Add(contents=group, ttl=ttl) for group in _grouped(contents, lambda content: [content])]


def _grouped(items: Iterable[T], contents_of: Callable[[T], list[MemoryContent]]) -> list[list[T]]:
    groups: list[list[T]] = []
    count = size = 0
    for item in items:
        contents = contents_of(item)
        length = sum(len(content.text) for content in contents)
        count, size = count + len(contents), size + length
        if not groups or count > MOST_CONTENTS or size > MOST_CHARACTERS:
            groups.append([])
            count, size = len(contents), length
        groups[-1].append(item)
    return groups


# Messages


class _MemoryMessage(BaseModel):
    model_config = ConfigDict(frozen=True)


class Add(_MemoryMessage):
    """Remember these; each has an id in its metadata. `ttl` is in seconds."""

    kind: Literal["add"] = "add"
    contents: list[MemoryContent]
    ttl: float | None = None


class Delete(_MemoryMessage):
    """Forget records by id, and those whose metadata fit."""

    kind: Literal["delete"] = "delete"
    ids: list[str] = Field(default_factory=list)
    where: dict[str, Any] | None = None


class Clear(_MemoryMessage):
    """Forget everything."""

    kind: Literal["clear"] = "clear"


Change = Add | Delete | Clear


@message(name="callboard.memory.changes")
class MemoryChanges(_MemoryMessage):
    """Additions and deletions, to be carried out in this order."""

    changes: list[Annotated[Change, Field(discriminator="kind")]]


@message(name="callboard.memory.query")
class MemoryQuery(_MemoryMessage):
    """A query; see `MemoryStore.query`."""

    text: str
    k: int | None = None
    score_threshold: float | None = None
    where: dict[str, Any] | None = None


@message(name="callboard.memory.found")
class MemoryFound(_MemoryMessage):
    """The results of a query, the best first."""

    results: list[MemoryContent]


@message(name="callboard.memory.ids_query")
class MemoryIdsQuery(_MemoryMessage):
    """A question for the ids of records."""

    where: dict[str, Any] | None = None


@message(name="callboard.memory.ids")
class MemoryIds(_MemoryMessage):
    """The ids of records."""

    ids: list[str]


@message(name="callboard.memory.stats_query")
class MemoryStatsQuery(_MemoryMessage):
    """A question for the stats of this collection, or of every one of the store."""

    everything: bool = False


@message(name="callboard.memory.stats")
class MemoryStatsList(_MemoryMessage):
    """The stats of collections."""

    collections: list[MemoryStats]


@message(name="callboard.memory.verify")
class MemoryVerify(_MemoryMessage):
    """An order to look for memories that no search finds; see `MemoryStore.verify`."""

    repair: bool = True


@message(name="callboard.memory.checked")
class MemoryChecked(MemoryCheck):
    """The answer to it."""


def register_memory_errors() -> None:
    """Let the errors of long-term memory come back from the service as themselves. Safe to repeat."""
    register_error(
        *(
            value
            for value in vars(memory_errors).values()
            if isinstance(value, type) and issubclass(value, LongTermMemoryError)
        )
    )


# The service

DEFAULT_PATH = Path(".callboard/memory")
MOST_AT_ONCE = 32  # memories that one process changes at once
LOCK_PATIENCE = 30.0  # seconds that a service waits for the one it replaces to let go of the folder


class MemoryService(RoutedAgent):
    """The agent that remembers and finds for another agent, which its key names, such as "writer/default".

    Changes of one memory are carried out in the order in which they were sent. Every change can be carried out twice
    without harm, because records have ids: a service that dies after it has written, and before its commit, handles the
    message again and writes the same records.

    A memory has a second agent of this class, of the type `<type>.queries`, in the same process. It looks things up while
    the first one works off changes: a query waits neither behind them nor for a place among them.

    Args:
        stores: The stores of this process.
    """

    def __init__(self, stores: SharedStores) -> None:
        super().__init__("remembers and finds for other agents")
        self._stores = stores
        self._opened: MemoryStore | None = None
        self._place = Place(None)

    @event
    async def on_changes(self, message: MemoryChanges, ctx: MessageContext) -> None:
        """Changes that agents made in their handlers."""
        await self._apply(message.changes)

    @rpc
    async def on_changes_now(self, message: MemoryChanges, ctx: MessageContext) -> MemoryIds:
        """Changes made outside of handlers; the reply has the ids that were added."""
        return MemoryIds(ids=await self._apply(message.changes))

    @rpc
    async def on_query(self, message: MemoryQuery, ctx: MessageContext) -> MemoryFound:
        """The results of a query."""
        found = await self._memory().query(
            message.text, k=message.k, score_threshold=message.score_threshold, where=message.where
        )
        return MemoryFound(results=found.results)

    @rpc
    async def on_ids(self, message: MemoryIdsQuery, ctx: MessageContext) -> MemoryIds:
        """The ids of records."""
        return MemoryIds(ids=await self._memory().ids(message.where))

    @rpc
    async def on_stats(self, message: MemoryStatsQuery, ctx: MessageContext) -> MemoryStatsList:
        """The stats of this collection, or of all."""
        memory = self._memory()
        stats = await memory.all_stats() if message.everything else [await memory.stats()]
        return MemoryStatsList(collections=stats)

    @rpc
    async def on_verify(self, message: MemoryVerify, ctx: MessageContext) -> MemoryChecked:
        """What no search found."""
        check = await self._memory().verify(repair=message.repair)
        return MemoryChecked(**check.model_dump())

    async def close(self) -> None:
        """Let go of the store."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await self._stores.give_back(self._place, self.id.key)

    async def _apply(self, changes: Sequence[Change]) -> list[str]:
        added: list[str] = []
        memory = self._memory()
        for change in _joined(changes):
            if isinstance(change, Add):
                added += await memory.add_many(change.contents, ttl=change.ttl)
            elif isinstance(change, Delete):
                await memory.delete(change.ids, where=change.where)
            else:
                await memory.clear()
        return added

    def _memory(self) -> MemoryStore:
        if self._opened is None:
            # Made here and not with the agent, which has its key and its runtime only now.
            self._place = Place.of(self.runtime)
            self._opened = self._stores.take(self._place, self.id.key)
        return self._opened


class Place(NamedTuple):
    """Where a memory service runs: what says which memories are its own.

    Attributes:
        namespace: The one in force; None: it is not known.
        scratch: A folder for the stores of a test, which is deleted after it; None: it is no test.
        is_lasting: Whether the namespace is on a server that outlives this process.
    """

    namespace: str | None
    scratch: Path | None = None
    is_lasting: bool = False

    @classmethod
    def of(cls, runtime: AgentRuntime) -> Place:
        """The place of the agents of a runtime."""
        from callboard.runtime.runtime import RedisAgentRuntime

        if not isinstance(runtime, RedisAgentRuntime):
            return cls(None)
        transport = runtime.transport
        make = runtime.connection.scratch
        return cls(transport.keys.namespace, make and make(), transport.endpoint.scheme != "memory")


OpenStore = Callable[[Place, str], MemoryStore]
"""Makes the store of an agent such as "writer/default" at a place."""


class ServiceFactory:
    """Makes the agents of a memory service.

    Attributes:
        embedder: Returns what makes the vectors; None: the service has a store of its own kind.
        folder: Where its memories are, on the machine that runs it; None: not in a folder.

    Args:
        open_store: Makes the store of a memory.
        embedder: As the attribute.
        folder: As the attribute.
    """

    def __init__(
        self,
        open_store: OpenStore,
        embedder: Callable[[], Embedder] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.embedder = embedder
        self.folder = folder
        self._stores = SharedStores(open_store)

    def __call__(self) -> MemoryService:
        return MemoryService(self._stores)


def memory_service(
    app: App,
    path: str | Path | None = None,
    *,
    config: ChromaDBVectorMemoryConfig | None = None,
    embedder: Embedder | None = None,
    store: Callable[[str], MemoryStore] | None = None,
    type: str = DEFAULT_TYPE,
    **settings: Unpack[AgentOptions],
) -> AgentDeclaration:
    """Give an app a memory: declare the agent type that owns the store.

    It runs in one process, unless `config` names a Chroma server. Agents reach it with `MemoryServiceClient`.

    Memories belong to the namespace in force, so what `app.running(namespace="staging")` stores is found there and
    nowhere else; a namespace that `config` names is for all of them. In a test with a `Harness` they are in a folder of the
    test, which goes with it. What was stored in a folder when all namespaces shared the memories of the app's own belongs
    to the first namespace that opens the folder.

    Args:
        app: The app.
        path: Folder of the store; None: .callboard/memory.
        config: Where the store is and what applies to all memories, instead of `path`; its `agent` and
            `collection_name` are chosen for each agent that uses it.
        embedder: Makes the vectors; None: the default model, loaded when it is first needed.
        store: Makes the store of an agent such as "writer/default", instead of all of the above; None: Chroma's. It is
            not told the namespace.
        type: The agent type.
        **settings: The fields of AgentSettings, such as `retry=RetryPolicy(outage=3600.0)`: for how long changes wait
            for a Chroma server that can't be reached.

    Returns:
        The declaration.

    Raises:
        DeclarationError: There is no such setting (a TypeError).
        DuplicateAgentTypeError: The app has that type already (a ValueError).
        MemoryValueError: Two arguments are given that exclude each other (a ValueError).
    """
    if config is not None and path is not None:
        raise setting_error("path", repr(str(path)), "left out where config says where the store is")
    if store is not None and any(given is not None for given in (path, config, embedder)):
        raise setting_error("store", repr(store), "given without path, config and embedder")
    register_memory_errors()
    factory = _chroma(app, path, config, embedder, type) if store is None else _given(store)
    # Fewer than all places of a process: the others are for queries.
    limits = AgentSettings.of({"concurrency": MOST_AT_ONCE, **settings})
    declaration = app.register(
        type, factory, expected_class=MemoryService, subscriptions=[f"{type}:{TOPIC}"], settings=limits
    )
    app.register(f"{type}{QUERIES}", factory, expected_class=MemoryService, settings=limits, beside=type)
    return declaration


def embedder_of_service(declaration: AgentDeclaration) -> Embedder | None:
    """The embedder of a memory service; None: it is not known."""
    factory = declaration.factory
    return factory.embedder() if isinstance(factory, ServiceFactory) and factory.embedder else None


def folder_of_service(declaration: AgentDeclaration) -> Path | None:
    """The folder of a memory service, on the machine that runs it; None: it has none, or it is not known."""
    factory = declaration.factory
    return factory.folder if isinstance(factory, ServiceFactory) else None


def _given(store: Callable[[str], MemoryStore]) -> ServiceFactory:
    """Makes agents whose stores a function makes."""
    return ServiceFactory(lambda _, agent: store(agent))


def _chroma(
    app: App,
    path: str | Path | None,
    config: ChromaDBVectorMemoryConfig | None,
    embedder: Embedder | None,
    type: str,
) -> ServiceFactory:
    """Makes agents whose stores are in Chroma."""
    settings = config or PersistentChromaDBVectorMemoryConfig(
        persistence_path=path or DEFAULT_PATH, lock_patience=LOCK_PATIENCE
    )
    settings = replace(settings, collection_name=None)

    @cache
    def shared() -> BatchingEmbedder:
        # One for all agents of this type, and made in the process that runs them: the default one may not be there in
        # the process that only declares the service.
        return BatchingEmbedder(embedder or default_embedder())

    def open_chroma(place: Place, agent: str) -> MemoryStore:
        memory = ChromaDBVectorMemory(
            replace(_at(settings, place, app.namespace, type), agent=agent),
            shared(),
            query_embedder=shared().queries,
        )
        if place.is_lasting and place.scratch is None:
            memory.take_over_from(app.namespace)
        return memory

    if isinstance(settings, PersistentChromaDBVectorMemoryConfig):
        return ServiceFactory(open_chroma, shared, Path(settings.persistence_path))
    return ServiceFactory(open_chroma, shared)


def _at(
    config: ChromaDBVectorMemoryConfig, place: Place, otherwise: str, type: str
) -> ChromaDBVectorMemoryConfig:
    """A configuration for a place: with its namespace, unless one is named, and for a test in a folder of the test."""
    is_named = config.namespace != ChromaDBVectorMemoryConfig.namespace
    # guard: memories belong to the namespace in force
    at = config if is_named else replace(config, namespace=place.namespace or otherwise)
    if place.scratch is None or isinstance(at, InMemoryChromaDBVectorMemoryConfig):
        return at
    common = {one.name: getattr(at, one.name) for one in fields(ChromaDBVectorMemoryConfig)}
    return PersistentChromaDBVectorMemoryConfig(persistence_path=place.scratch / type, **common)


def _joined(changes: Sequence[Change]) -> list[Change]:
    """Changes in which neighbouring additions are one, so that they are embedded and written together."""
    joined: list[Change] = []
    for change in changes:
        last = joined[-1] if joined else None
        if isinstance(change, Add) and isinstance(last, Add) and last.ttl == change.ttl:
            joined[-1] = Add(contents=[*last.contents, *change.contents], ttl=last.ttl)
        else:
            joined.append(change)
    return joined


class SharedStores:
    """The stores of one process, one for each memory: who changes a memory and who looks something up share it.

    Args:
        open_store: Makes the store of a memory.
    """

    def __init__(self, open_store: OpenStore) -> None:
        self._open_store = open_store
        self._opened: dict[tuple[Place, str], tuple[MemoryStore, int]] = {}

    def take(self, place: Place, name: str) -> MemoryStore:
        """The store of a memory at a place, to be given back."""
        store, users = self._opened.get((place, name)) or (self._open_store(place, name), 0)
        self._opened[place, name] = (store, users + 1)
        return store

    async def give_back(self, place: Place, name: str) -> None:
        """Let go of the store; its last user closes it."""
        store, users = self._opened[place, name]
        if users > 1:
            self._opened[place, name] = (store, users - 1)
            return
        del self._opened[place, name]
        await store.close()
