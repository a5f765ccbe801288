"""The agents of this process: which types there are, those that are alive, and their states."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from callboard.broker import AgentId
from callboard.broker.redis.client.states import StoredState
from callboard.broker.retry import RetryPolicy
from callboard.declaration import AgentSettings
from callboard.errors import DuplicateAgentTypeError, UnknownAgentTypeError
from callboard.instantiation import AgentInstantiationContext
from callboard.protocol import Agent, AgentRuntime
from callboard.state import dump_state, restore_state

from .errors import AgentInstanceError, RuntimeStateError
from .failures import FACTORY_RAISED
from .registration import AgentClass, Factory, LiveAgent, LocalAgentType

logger = logging.getLogger("callboard.actors")

UNKNOWN = -1  # version of an agent whose state has to be loaded, whatever the server says of it

LoadState = Callable[[str, str], Awaitable[StoredState]]


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
            UnknownAgentTypeError: there is none.
        """
        try:
            return self._types[agent_type]
        except KeyError:
            raise UnknownAgentTypeError(agent_type, list(self._types)) from None

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
            AgentInstanceError: the id is taken, or other instances of the type are of another class.
        """
        kind = self._types.get(agent_id.type)
        is_new = kind is None
        if kind is None:
            kind = LocalAgentType(agent_id.type, None, type(agent), AgentSettings())
        elif kind.factory is not None:
            raise DuplicateAgentTypeError(agent_id.type)
        if kind.expected_class is not type(agent):
            raise AgentInstanceError(
                f"{agent_id} can't be registered: all instances of one agent type have to be of one class"
            )
        if agent_id.key in kind.live:
            raise AgentInstanceError(f"{agent_id} can't be registered: there is an agent with this id")
        await agent.bind_id_and_runtime(agent_id, self._runtime)
        self._types[agent_id.type] = kind
        kind.live[agent_id.key] = LiveAgent(agent, agent_id)
        return is_new

    # Agents

    async def get(self, kind: LocalAgentType, agent_id: AgentId) -> LiveAgent:
        """The agent, made when it is not alive."""
        live = kind.live.get(agent_id.key)
        return live if live is not None else await self._make_once(kind, agent_id)

    async def _make_once(self, kind: LocalAgentType, agent_id: AgentId) -> LiveAgent:
        """Makes the agent; a caller that comes while it is being made waits for the same one."""
        # A factory may await. Without this future a second message would find no live agent meanwhile and make another
        # one, which would replace the first together with what its handler had changed.
        making = kind.making.get(agent_id.key)
        if making is not None:
            return await asyncio.shield(making)  # a caller that is cancelled takes it from no other caller
        making = kind.making[agent_id.key] = asyncio.get_running_loop().create_future()
        try:
            live = kind.live[agent_id.key] = await self._make(kind, agent_id)
        except BaseException as error:
            making.set_exception(
                error if isinstance(error, Exception) else RuntimeStateError("it was not made")
            )
            making.exception()  # seen: without another caller asyncio would complain that it was never retrieved
            raise
        else:
            making.set_result(live)
            return live
        finally:
            del kind.making[agent_id.key]

    async def _make(self, kind: LocalAgentType, agent_id: AgentId) -> LiveAgent:
        with AgentInstantiationContext.populate_context((self._runtime, agent_id)):
            try:
                agent = kind.construct(agent_id)
                if inspect.isawaitable(agent):
                    agent = await agent
            except (Exception, SystemExit) as error:
                BaseException.add_note(error, f"{FACTORY_RAISED} {kind.type!r}, which was making {agent_id}")
                raise
        kind.check(agent)
        await agent.bind_id_and_runtime(agent_id, self._runtime)
        return LiveAgent(agent, agent_id)

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

    async def passivate(self, before: float, most: int = sys.maxsize) -> None:
        """Puts agents to sleep that were not used since `before` (loop time, seconds).

        Of agents without a state, whose memory is in no other place, only those beyond the number of `most`.
        """
        for kind in self:
            if kind.factory is None or kind.lasting:
                continue
            idle = [pair for pair in kind.live.items() if pair[1].used < before and not _has_work(pair[1])]
            if not kind.persistent:
                idle = heapq.nsmallest(len(idle) - most, idle, key=_last_use) if len(idle) > most else []
            for key, live in idle:
                # While another agent was closed, this one may have been forgotten, used, or made again for a message.
                if kind.live.get(key) is live and live.used < before and not _has_work(live):
                    del kind.live[key]  # before it is closed: a message that comes meanwhile gets a new agent
                    await self._put_to_sleep(live)

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


def _last_use(pair: tuple[str, LiveAgent]) -> float:
    return pair[1].used


def _has_work(live: LiveAgent) -> bool:
    return live.mailbox is not None and live.mailbox.has_work
