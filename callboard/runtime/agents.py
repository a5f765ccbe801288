"""The agents of this process: their types, how they are made, those that are alive, and their states."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from callboard.broker import AgentId, BrokerSettings, MessageRegistry
from callboard.broker.envelope import Holder
from callboard.broker.mailbox import ConsumedType
from callboard.broker.redis.client.states import StoredState
from callboard.broker.redis.client.transport import Declared, RedisTransport
from callboard.broker.retry import RetryPolicy
from callboard.broker.subscriptions import (
    Subscription,
    SubscriptionTable,
    TypePrefixSubscription,
    TypeSubscription,
)
from callboard.core.agent import BaseAgent, is_bound
from callboard.core.declaration import AgentSettings, Declarations, Schedule
from callboard.core.protocol import Agent, AgentRuntime
from callboard.core.resources import Replacements, Resources
from callboard.core.state import dump_state, restore_state, state_model
from callboard.core.subscriptions import AgentInstantiationContext, agent_being_made
from callboard.errors import DeclarationError, DuplicateAgentTypeError, MisuseError, UnknownNameError

from .errors import UnknownInstanceError
from .reports import FACTORY_RAISED, log_construction

logger = logging.getLogger("callboard.actors")

UNKNOWN = -1  # version of an agent whose state has to be loaded, whatever the server says of it

PORTION = 2_000
"""Agents that are looked at, or fall asleep, before messages get their turn; 100,000 at once take a third of a second."""

LoadState = Callable[[str, str], Awaitable[StoredState]]
IsHeld = Callable[[str, str], bool]  # whether the worker holds something of the agent of a type and key


@dataclass(slots=True)
class LiveAgent:
    """An agent in this process.

    Attributes:
        agent: the object.
        agent_id: its id.
        saved: its persistent state as last committed; None: the default.
        version: how many commits that state has seen.
        mailbox: of a persistent agent the mailbox of its last message; as long as it is the same, no other worker handled
            this agent. Others don't keep theirs: it is larger than they are.
        used: when it was last used, loop time in seconds.
    """

    agent: Agent
    agent_id: AgentId
    saved: bytes | None = None
    version: int = 0
    mailbox: Holder | None = None
    used: float = 0.0


Idle = tuple[float, str, LiveAgent]  # an agent that has nothing to do: when it was used last, and its key


def _not_held(agent_type: str, key: str) -> bool:
    """Of no agent something is held: nothing works here."""
    return False


Factory = Callable[[], Any | Awaitable[Any]]
AgentClass = type[Any]


@dataclass(slots=True)
class LocalAgentType:
    """An agent type in this process: it has a factory, or instances that exist already.

    Attributes:
        type: the agent type.
        factory: makes one agent; None for instances.
        expected_class: what it has to make; for instances their class.
        settings: limits of this type.
        live: agents by key.
        making: agents being made, by key.
        persistent: its agents keep their state in Redis.
        is_plain: nothing has to be done around its handlers.
        reentrant: they can be asked while they wait, as its settings or its class say.
        lasting: they are kept until the runtime closes, as their class says: what they know is in no state.
        usual_class: that of an agent that was made and checked, if nothing but its class was to be checked; None: of none.
    """

    type: str
    factory: Factory | None
    expected_class: AgentClass | None
    settings: AgentSettings
    live: dict[str, LiveAgent] = field(default_factory=dict)
    making: dict[str, asyncio.Future[LiveAgent]] = field(default_factory=dict)
    persistent: bool = field(init=False)
    reentrant: bool = field(init=False)
    lasting: bool = field(init=False)
    is_plain: bool = field(init=False)
    usual_class: AgentClass | None = None

    def __post_init__(self) -> None:
        self.persistent = self.expected_class is not None and state_model(self.expected_class) is not None
        self.reentrant = self.settings.reentrant or getattr(self.expected_class, "reentrant", False) is True
        self.lasting = getattr(self.expected_class, "lasting", False) is True
        self.is_plain = self.settings.max_runtime is None and not self.reentrant

    def construct(self, agent_id: AgentId) -> Any:
        """Calls the factory; may return an awaitable.

        Raises:
            UnknownInstanceError: the type has instances only, and this key is not one of them.
        """
        if self.factory is None:
            raise UnknownInstanceError(str(agent_id))
        return self.factory()

    def check(self, agent: object) -> None:
        """Checks what the factory made.

        Raises:
            DeclarationError: it is not an instance of the expected class, or it has a State and that class has none.
        """
        expected = self.expected_class or Agent
        if not isinstance(agent, expected):
            raise DeclarationError(
                f"the factory of {self.type!r} made a {type(agent).__name__}; "
                f"it was registered for {expected.__name__}",
            )
        if not self.persistent and state_model(type(agent)) is not None:
            given = type(agent).__name__
            raise DeclarationError(
                f"the factory of {self.type!r} made a {given}, whose State would not be stored",
                f"register it with expected_class={given}",
            )
        bind = getattr(type(agent), "bind_id_and_runtime", None)
        self.usual_class = type(agent) if bind is BaseAgent.bind_id_and_runtime else None


class LocalAgents:
    """Makes agents when they are needed, once each, and keeps them."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self._types: dict[str, LocalAgentType] = {}

    # Types

    def __contains__(self, agent_type: str) -> bool:
        return agent_type in self._types

    def __iter__(self) -> Iterator[LocalAgentType]:
        return iter(self._types.values())

    def kind(self, agent_type: str) -> LocalAgentType:
        """An agent type of this process.

        Raises:
            UnknownNameError: there is none.
        """
        try:
            return self._types[agent_type]
        except KeyError:
            raise UnknownNameError("agent type", agent_type, list(self._types)) from None

    def add_type(
        self, agent_type: str, factory: Factory, agent_class: AgentClass | None, settings: AgentSettings
    ) -> None:
        """Adds a type with a factory.

        Raises:
            DuplicateAgentTypeError: it is there.
        """
        if agent_type in self._types:
            raise DuplicateAgentTypeError(agent_type)
        self._types[agent_type] = LocalAgentType(agent_type, factory, agent_class, settings)

    async def add_instance(self, agent: Agent, agent_id: AgentId) -> bool:
        """Adds one agent that exists; True when its type is new.

        Raises:
            DuplicateAgentTypeError: the type has a factory.
            DeclarationError: the id is taken, or other instances of the type are of another class.
        """
        kind = self._types.get(agent_id.type)
        is_new = kind is None
        if kind is None:
            kind = LocalAgentType(agent_id.type, None, type(agent), AgentSettings())
        elif kind.factory is not None:
            raise DuplicateAgentTypeError(agent_id.type)
        if kind.expected_class is not type(agent):
            raise DeclarationError(
                f"{agent_id} can't be registered", "all instances of one agent type have to be of one class"
            )
        if agent_id.key in kind.live:
            raise DeclarationError(f"{agent_id} can't be registered", "there is an agent with this id")
        await agent.bind_id_and_runtime(agent_id, self._runtime)
        self._types[agent_id.type] = kind
        kind.live[agent_id.key] = LiveAgent(agent, agent_id)
        return is_new

    # Agents

    async def get(self, kind: LocalAgentType, agent_id: AgentId) -> LiveAgent:
        """The agent, made when it is not alive."""
        key = agent_id.key
        live = kind.live.get(key)
        if live is not None:
            return live
        making = kind.making.get(key)
        if making is not None:
            return await asyncio.shield(making)  # a caller that is cancelled takes it from no other caller
        made = self._construct(kind, agent_id)
        # guard: an agent that belongs to another id is refused
        if type(made) is kind.usual_class and is_bound(made, agent_id, self._runtime):
            live = kind.live[key] = LiveAgent(made, agent_id)
            return live
        return await self._complete_once(kind, agent_id, made)

    def _construct(self, kind: LocalAgentType, agent_id: AgentId) -> Any:
        """Calls the factory: returns an agent, or what is to be awaited for one."""
        token = agent_being_made.set((self._runtime, agent_id))
        try:
            return kind.construct(agent_id)
        except (Exception, SystemExit) as error:
            _note_factory(error, agent_id)
            raise
        finally:
            agent_being_made.reset(token)

    async def _complete_once(self, kind: LocalAgentType, agent_id: AgentId, made: Any) -> LiveAgent:
        """An agent of what its factory returned; a caller that comes meanwhile waits for the same one."""
        # A factory may await. Without this future a second message would find no live agent meanwhile and make another
        # one, which would replace the first together with what its handler had changed.
        making = kind.making[agent_id.key] = asyncio.get_running_loop().create_future()
        try:
            live = kind.live[agent_id.key] = await self._complete(kind, agent_id, made)
        except BaseException as error:
            making.set_exception(error if isinstance(error, Exception) else MisuseError("it was not made"))
            making.exception()  # seen: without another caller asyncio would complain that it was never retrieved
            raise
        else:
            making.set_result(live)
            return live
        finally:
            del kind.making[agent_id.key]

    async def _complete(self, kind: LocalAgentType, agent_id: AgentId, made: Any) -> LiveAgent:
        if inspect.isawaitable(made):
            with AgentInstantiationContext.populate_context((self._runtime, agent_id)):
                try:
                    made = await made
                except (Exception, SystemExit) as error:
                    _note_factory(error, agent_id)
                    raise
        kind.check(made)
        await made.bind_id_and_runtime(agent_id, self._runtime)
        return LiveAgent(made, agent_id)

    async def current(self, agent_id: AgentId, load: LoadState) -> LiveAgent:
        """The agent with the state that its last commit left, whichever process made it."""
        kind = self.kind(agent_id.type)
        live = await self.get(kind, agent_id)
        if kind.persistent and not _has_work(live):
            stored = await load(agent_id.type, agent_id.key)
            # While it was loaded, a handler of this agent may have begun: it works on the state that is here. And this
            # process's own commit may still be on its way: then what is here is newer than what was loaded.
            if not _has_work(live) and (live.mailbox is None or stored.version > live.version):
                self.bring_to(live, stored)
        return live

    @staticmethod
    def bring_to(live: LiveAgent, stored: StoredState) -> None:
        """Gives a persistent agent a committed state."""
        restore_state(live.agent, stored.data or None, stored.logs)
        live.saved = stored.data or dump_state(live.agent)
        live.version = stored.version

    @staticmethod
    def roll_back(live: LiveAgent) -> None:
        """Back to the last committed state: a handler that failed may have changed half of it."""
        restore_state(live.agent, live.saved)

    async def forget(self, kind: LocalAgentType, key: str) -> bool:
        """Ends an agent, which is made anew when it is needed; False when it can't be made again."""
        if kind.factory is None:
            if kind.persistent and key in kind.live:
                kind.live[key].version = UNKNOWN
            return kind.persistent
        live = kind.live.pop(key, None)
        if live is not None:
            await self._put_to_sleep(live)
        return True

    def forget_persistent(self) -> None:
        """Others may have changed them: they are made and loaded again when needed."""
        for kind in self:
            if not kind.persistent:
                continue
            if kind.factory is not None and not kind.lasting:
                kind.live.clear()
            for live in kind.live.values():
                live.mailbox = None
                live.version = UNKNOWN

    async def passivate(self, before: float, most: int = sys.maxsize, is_held: IsHeld = _not_held) -> None:
        """Puts agents to sleep that were not used since `before` (loop time, seconds).

        Of agents without a state, whose memory is in no other place, only those beyond the number of `most`.

        Args:
            before: loop time, seconds.
            most: agents of each type that stay, of those that have no state.
            is_held: whether the worker holds something of an agent.
        """
        for kind in list(self):
            spared = 0 if kind.persistent else most
            if kind.factory is None or kind.lasting or len(kind.live) <= spared:
                continue
            runs = await self._idle(kind, before, is_held)
            number = max(0, sum(map(len, runs)) - spared)
            for asleep, (_, key, live) in enumerate(islice(heapq.merge(*runs), number), 1):
                # While others fell asleep, this one may have been forgotten, used, or made again for a message.
                # guard: an agent for which a message has come stays awake
                if kind.live.get(key) is live and live.used < before and not is_held(kind.type, key):
                    del kind.live[key]  # before it is closed: a message that comes meanwhile gets a new agent
                    await self._put_to_sleep(live)
                if asleep % PORTION == 0:
                    await asyncio.sleep(0)

    @staticmethod
    async def _idle(kind: LocalAgentType, before: float, is_held: IsHeld) -> list[list[Idle]]:
        """Agents of a type that were not used since: lists, in each of them those first that were idle longest."""
        keys, runs = list(kind.live), list[list[Idle]]()
        for start in range(0, len(keys), PORTION):
            run: list[Idle] = []
            for key in keys[start : start + PORTION]:
                live = kind.live.get(key)
                if live is not None and live.used < before and not is_held(kind.type, key):
                    run.append((live.used, key, live))
            run.sort()  # no two of them have one key, so it never compares agents
            runs.append(run)
            await asyncio.sleep(0)
        return runs

    @staticmethod
    async def _put_to_sleep(live: LiveAgent) -> None:
        try:
            await live.agent.close()
        except Exception:  # the others go to sleep all the same
            logger.exception("%s could not be closed", live.agent_id)

    async def close(self) -> None:
        """Closes every agent, also after one that fails to.

        Raises:
            Exception: what an agent raised; an ExceptionGroup when several did.
        """
        errors: list[Exception] = []
        for kind in self:
            agents = [live.agent for live in kind.live.values()]
            kind.live.clear()
            for agent in agents:
                try:
                    await agent.close()
                except Exception as error:  # noqa: BLE001 - raised below, when all are closed
                    errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup("several agents could not be closed", errors)

    def hears(self, agent_type: str, message_class: type[Any]) -> bool | None:
        """Whether agents of a type handle published messages of a class; None: that is not known here."""
        kind = self._types.get(agent_type)
        asked = getattr(kind.expected_class, "hears", None) if kind is not None else None
        return asked(message_class) if asked is not None else None

    def settings_of_types(self, retry: RetryPolicy) -> dict[str, Mapping[str, Any]]:
        """The settings of each type that other processes need; `retry` is the policy of types without their own."""
        return {
            kind.type: {"max_attempts": kind.settings.retry_policy(retry).max_attempts}
            | ({"reentrant": True} if kind.reentrant else {})
            for kind in self
        }


class LocalTypes:
    """Agent types, subscriptions, schedules and message classes of this process, as the server is told of them.

    Args:
        agents: the agents of this process.
        registry: message classes.
        only: agent types that this process runs; None: all.
        retry: when a failed message is tried again, unless its agent type says something else; None: as the settings say.

    Attributes:
        app_name: name of the app whose schedules these are; "": of none.
        resources: what the worker of this process opens.
        elsewhere: agent types that are known here, and whose messages other processes handle.
    """

    def __init__(
        self,
        agents: LocalAgents,
        registry: MessageRegistry,
        only: Collection[str] | None,
        retry: RetryPolicy | None,
    ) -> None:
        self.agents = agents
        self.registry = registry
        self.subscriptions = SubscriptionTable()
        self.app_name = ""
        self.schedules: Mapping[str, Schedule] = {}
        self.resources = Resources()
        self.elsewhere: frozenset[str] = frozenset()
        self._only = None if only is None else frozenset(only)
        self._given_retry = retry

    def take_over(self, app: Declarations, replaced: Replacements | None) -> None:
        """Takes over everything that an App declares; `replaced` are objects in place of its resources."""
        self.app_name, self.schedules = app.name, app.schedules
        self.resources = Resources(app.resources, replaced)
        self.registry.register(*app.message_classes())
        for one in app.declarations:
            self.agents.add_type(one.type, one.factory, one.agent_class, one.settings)
            for subscription in one.subscriptions:
                self.subscriptions.add(subscription)

    def retry(self, settings: BrokerSettings) -> RetryPolicy:
        """When a failed message is tried again, unless its agent type says something else."""
        return self._given_retry or RetryPolicy.of(settings)

    async def declare(self, transport: RedisTransport) -> None:
        """Makes all of them known to the server."""
        types = self.agents.settings_of_types(self.retry(transport.settings))
        subscriptions = [declared(subscription) for subscription in self.subscriptions]
        await transport.declare(types, subscriptions, self.registry.versions())

    async def declare_type(self, transport: RedisTransport, name: str) -> None:
        """Makes one agent type known to the server, with all message classes."""
        types = self.agents.settings_of_types(self.retry(transport.settings))
        await transport.declare({name: types[name]}, (), self.registry.versions())

    async def unsubscribe(self, transport: RedisTransport, subscription: Subscription) -> bool:
        """Tells the server that a subscription has ended, and which of them stay. Returns whether there was one."""
        staying = [declared(other) for other in self.subscriptions]
        return await transport.unsubscribe(declared(subscription), staying)

    def consumed(self) -> list[ConsumedType]:
        """The agent types whose messages this process handles."""
        return [
            ConsumedType(kind.type, kind.persistent, kind.settings.concurrency, kind.settings.rate_limit)
            for kind in self.agents
            if (self._only is None or kind.type in self._only) and kind.type not in self.elsewhere
        ]


def declared(subscription: Subscription) -> Declared:
    """A subscription as the server keeps it.

    Raises:
        TypeError: it is of a kind that only this process could know.
    """
    if isinstance(subscription, TypeSubscription):
        return Declared(subscription.agent_type, "topic", subscription.topic_type)
    if isinstance(subscription, TypePrefixSubscription):
        return Declared(subscription.agent_type, "prefix", subscription.topic_type_prefix)
    raise TypeError(
        f"{type(subscription).__name__} can't cross processes: use TypeSubscription or TypePrefixSubscription"
    )


def _note_factory(error: BaseException, agent_id: AgentId) -> None:
    BaseException.add_note(error, f"{FACTORY_RAISED} {agent_id.type!r}, which was making {agent_id}")
    log_construction(error, agent_id)


def _has_work(live: LiveAgent) -> bool:
    return live.mailbox is not None and live.mailbox.has_work
