"""The agents of this process: which types there are, those that are alive, and their states."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any

from broker import AgentId

from .declaration import AgentSettings
from .errors import DuplicateAgentTypeError, UnknownAgentTypeError
from .instantiation import AgentInstantiationContext
from .registration import AgentClass, AgentTypeEntry, Factory, LiveAgent
from .runtime_errors import AgentInstanceError, RuntimeStateError
from .runtime_protocol import Agent, AgentRuntime
from .state import dump_state, restore_state

logger = logging.getLogger("callboard.actors")

UNKNOWN = -1  # version of an agent whose state has to be loaded, whatever the server says of it

LoadState = Callable[[str, str], Awaitable[tuple[int, bytes]]]


class LocalAgents:
    """Makes agents when they are needed, once each, and keeps them."""

    def __init__(self, runtime: AgentRuntime) -> None:
        self._runtime = runtime
        self._types: dict[str, AgentTypeEntry] = {}

    # Types

    def __contains__(self, agent_type: str) -> bool:
        return agent_type in self._types

    def __iter__(self) -> Iterator[AgentTypeEntry]:
        return iter(self._types.values())

    def entry(self, agent_type: str) -> AgentTypeEntry:
        """The entry of a type.

        Raises:
            UnknownAgentTypeError: there is none.
        """
        try:
            return self._types[agent_type]
        except KeyError:
            raise UnknownAgentTypeError(agent_type, self._types) from None

    def add_type(
        self, agent_type: str, factory: Factory, agent_class: AgentClass | None, settings: AgentSettings
    ) -> None:
        """Adds a type with a factory.

        Raises:
            DuplicateAgentTypeError: it is there.
        """
        if agent_type in self._types:
            raise DuplicateAgentTypeError(agent_type)
        self._types[agent_type] = AgentTypeEntry(agent_type, factory, agent_class, settings)

    async def add_instance(self, agent: Agent, agent_id: AgentId) -> bool:
        """Adds one agent that exists; True when its type is new.

        Raises:
            DuplicateAgentTypeError: the type has a factory.
            AgentInstanceError: the id is taken, or other instances of the type are of another class.
        """
        entry = self._types.get(agent_id.type)
        is_new = entry is None
        if entry is None:
            entry = AgentTypeEntry(agent_id.type, None, type(agent), AgentSettings())
        elif entry.factory is not None:
            raise DuplicateAgentTypeError(agent_id.type)
        if entry.expected_class is not type(agent):
            raise AgentInstanceError(str(agent_id), "all instances of one agent type have to be of one class")
        if agent_id.key in entry.live:
            raise AgentInstanceError(str(agent_id), "there is an agent with this id")
        await agent.bind_id_and_runtime(agent_id, self._runtime)
        self._types[agent_id.type] = entry
        entry.live[agent_id.key] = LiveAgent(agent, agent_id)
        return is_new

    # Agents

    async def get(self, entry: AgentTypeEntry, agent_id: AgentId) -> LiveAgent:
        """The agent, made when it is not alive."""
        live = entry.live.get(agent_id.key)
        return live if live is not None else await self._make_once(entry, agent_id)

    async def _make_once(self, entry: AgentTypeEntry, agent_id: AgentId) -> LiveAgent:
        """Whoever asks while the agent is being made waits for the same one."""
        making = entry.making.get(agent_id.key)
        if making is not None:
            return await asyncio.shield(making)
        making = entry.making[agent_id.key] = asyncio.get_running_loop().create_future()
        try:
            live = entry.live[agent_id.key] = await self._make(entry, agent_id)
        except BaseException as error:
            making.set_exception(
                error if isinstance(error, Exception) else RuntimeStateError("it was not made")
            )
            making.exception()  # when nobody else waits, nobody else is to hear of it
            raise
        else:
            making.set_result(live)
            return live
        finally:
            del entry.making[agent_id.key]

    async def _make(self, entry: AgentTypeEntry, agent_id: AgentId) -> LiveAgent:
        with AgentInstantiationContext.populate_context((self._runtime, agent_id)):
            agent = entry.construct(agent_id)
            if inspect.isawaitable(agent):
                agent = await agent
        entry.check(agent)
        await agent.bind_id_and_runtime(agent_id, self._runtime)
        return LiveAgent(agent, agent_id)

    async def current(self, agent_id: AgentId, load: LoadState) -> LiveAgent:
        """The agent with the state that its last commit left, whichever process made it."""
        entry = self.entry(agent_id.type)
        live = await self.get(entry, agent_id)
        if entry.persistent and not _has_work(live):
            version, data = await load(agent_id.type, agent_id.key)
            # Its own commit may still be on its way: then what this process has is newer than what was loaded.
            if not _has_work(live) and (live.mailbox is None or version > live.version):
                self.bring_to(live, version, data)
        return live

    @staticmethod
    def bring_to(live: LiveAgent, version: int, data: bytes) -> None:
        """Gives a persistent agent a committed state; b"" is the default."""
        restore_state(live.agent, data or None)
        live.saved = data or dump_state(live.agent)
        live.version = version

    @staticmethod
    def roll_back(live: LiveAgent) -> None:
        """Back to the last committed state: a handler that failed may have changed half of it."""
        restore_state(live.agent, live.saved)

    async def forget(self, entry: AgentTypeEntry, key: str) -> bool:
        """Ends an agent, which is made anew when it is needed; False when it can't be made again."""
        if entry.factory is None:
            if entry.persistent and key in entry.live:
                entry.live[key].version = UNKNOWN
            return entry.persistent
        live = entry.live.pop(key, None)
        if live is not None:
            await self._put_to_sleep(live)
        return True

    def forget_persistent(self) -> None:
        """Others may have changed them: they are made and loaded again when needed."""
        for entry in self:
            if not entry.persistent:
                continue
            if entry.factory is not None:
                entry.live.clear()
            for live in entry.live.values():
                live.mailbox = None
                live.version = UNKNOWN

    async def passivate(self, before: float) -> None:
        """Puts persistent agents to sleep that were not used since `before` (loop time, seconds)."""
        for entry in self:
            if not entry.persistent or entry.factory is None:
                continue
            for key, live in list(entry.live.items()):
                if live.used < before and not _has_work(live):
                    del entry.live[key]
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
        for entry in self:
            agents = [live.agent for live in entry.live.values()]
            entry.live.clear()
            for agent in agents:
                try:
                    await agent.close()
                except Exception as error:  # noqa: BLE001 - raised below, when all are closed
                    errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup("several agents could not be closed", errors)

    def settings_of_types(self, max_attempts: int) -> dict[str, Mapping[str, Any]]:
        """What other processes need to know of each type."""
        return {entry.type: {"max_attempts": entry.settings.max_attempts or max_attempts} for entry in self}


def _has_work(live: LiveAgent) -> bool:
    mailbox = live.mailbox
    return mailbox is not None and (mailbox.task is not None or bool(mailbox.queue) or mailbox.unsent > 0)
