"""Our runtime as the adapter uses it: with AutoGen's messages, agents that are hosted, and tokens in several processes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Final

from callboard.broker import AgentId, BrokerSettings, TopicId
from callboard.declaration import AgentSettings
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.send_options import SendOptions

from .aside import SUFFIX, Aside, takes_entering
from .hosted import HostedAgent, class_for, leaving
from .messages import Carried, HostedRegistry
from .retrying import OnceUnlessKilled
from .tokens import PREFIX, Tokens

DAY: Final = 86_400.0  # seconds that a cancelled token is remembered
NO_TIMEOUT: Final = 30 * DAY  # seconds that a request waits for its reply: AutoGen's requests have no timeout

Make = Callable[[AgentId], Awaitable[Any]]


class HostingRuntime(RedisAgentRuntime):
    """Runs agents of AutoGen's.

    Args:
        url, namespace, settings, ignore_unhandled_exceptions: as for RedisAgentRuntime.
        saves: whether the states of its agents are stored.
    """

    def __init__(
        self,
        url: str | None,
        *,
        namespace: str | None,
        settings: BrokerSettings | None,
        ignore_unhandled_exceptions: bool,
        saves: bool,
    ) -> None:
        super().__init__(
            url,
            namespace=namespace,
            # AutoGen knows no largest message: what is large goes beside its stream.
            settings=replace(settings or BrokerSettings.from_env(), claim_check=True),
            ignore_unhandled_exceptions=ignore_unhandled_exceptions,
            retry=OnceUnlessKilled(),
        )
        self.hosted_registry = HostedRegistry()
        self.registry = self.hosted_registry
        self.tokens = Tokens(self._tell_cancelled, self._was_cancelled)
        self._saves = saves

    # Agents

    async def host_type(self, name: str, agent_class: type[Any] | None, make: Make) -> None:
        """Adds an agent type.

        Args:
            name: the type.
            agent_class: AutoGen's; None: it is not known.
            make: makes AutoGen's agent of an id.

        Raises:
            DuplicateAgentTypeError: it is there (a ValueError).
        """
        host = class_for(agent_class, saves=self._saves)

        async def made(agent_id: AgentId) -> HostedAgent:
            return host(await make(agent_id), agent_id, self.tokens)

        await self._add_type(name, host, made)
        if takes_entering(agent_class):
            await self._add_type(name + SUFFIX, Aside, self._aside)

    async def host_instance(self, agent: Any, agent_id: AgentId) -> None:
        """Adds an agent that exists already.

        Raises:
            ValueError: see RedisAgentRuntime.register_agent_instance.
        """
        host = class_for(type(agent), saves=self._saves)
        await self.register_agent_instance(host(agent, agent_id, self.tokens), agent_id)

    def leave_to_others(self, names: Iterable[str]) -> None:
        """Agent types that are registered here, too, and whose messages other processes handle."""
        self._elsewhere |= {name for given in names for name in (given, given + SUFFIX)}

    async def hosted(self, agent_id: AgentId) -> HostedAgent:
        """An agent, made when needed, with what is stored of it."""
        return await self.try_get_underlying_agent_instance(agent_id, HostedAgent)

    async def _add_type(self, name: str, host: type[Any], make: Callable[[AgentId], Awaitable[Any]]) -> None:
        from callboard.instantiation import AgentInstantiationContext

        async def factory() -> Any:
            return await make(AgentInstantiationContext.current_agent_id())

        self._agents.add_type(name, factory, host, AgentSettings())
        await self._announce_type(name)

    async def _aside(self, agent_id: AgentId) -> Aside:
        return Aside(agent_id, self._busy, self.ask)

    def _busy(self, agent_id: AgentId) -> HostedAgent | None:
        if self._worker is None or not self._worker.consumer.holds(agent_id.type, agent_id.key):
            return None
        live = self._agents.kind(agent_id.type).live.get(agent_id.key)
        return live.agent if live is not None and isinstance(live.agent, HostedAgent) else None

    # Messages

    async def ask(self, message: Carried, recipient: AgentId) -> Any:
        """Sends a request that waits for its reply as long as it takes."""
        return await self.send_message(message, recipient, timeout=NO_TIMEOUT)

    async def publish_at_once(
        self, message: Carried, topic_id: TopicId, sender: AgentId | None, message_id: str | None
    ) -> None:
        """Publishes an event. In a handler it is on its way when this returns, and what is published next follows it."""
        sending = await self._open_sender()
        posted = sending.post(message, topic_id, sender, SendOptions(message_id, now=True, strict=False))
        handler = leaving.get()
        if posted is not None:
            await (posted if handler is None else handler.add(posted))

    # Tokens

    async def _tell_cancelled(self, name: str) -> bool:
        until = self.transport.now_ms() + int(DAY * 1000)
        return await self.transport.order("cancel", name, until)

    async def _was_cancelled(self, name: str) -> bool:
        transport = self.transport
        return await transport.admin.command("ZSCORE", transport.keys.of("cancelled"), name) is not None

    def _hear_cancelled(self, what: str) -> None:
        if what.startswith(PREFIX):
            self.tokens.hear(what)

    # Working

    @property
    def is_running(self) -> bool:
        """Whether it handles messages."""
        return self._task is not None

    async def close(self) -> None:
        """Closes the runtime when what was cancelled here has been told."""
        if self._transport is not None:
            await self.tokens.close()
        await super().close()
