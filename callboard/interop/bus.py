"""Our runtime as the adapter uses it: with AutoGen's messages, hosted agents, and a way past a running turn.

A request waits in its agent's inbox until the handler that runs has ended. In AutoGen it enters at once, and the pause of
teams relies on that. So agents that take such requests have a second type in the same process, `<type>.aside`, whose handler
gives them to the agent that is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from callboard.broker import AgentId, BrokerSettings, TopicId
from callboard.broker.retry import Buried
from callboard.core.context import MessageContext
from callboard.core.protocol import AgentMetadata, AgentRuntime, SendOptions
from callboard.errors import DeclarationError
from callboard.runtime.runtime import RedisAgentRuntime

from . import OnceUnlessKilled
from .hosted import ASKED, PREFIX, HostedAgent, Tokens, class_for, leaving
from .messages import Carried, HostedRegistry

DAY: Final = 86_400.0  # seconds that a cancelled token is remembered
NO_TIMEOUT: Final = 30 * DAY  # seconds that a request waits for its reply: AutoGen's requests have no timeout

Make = Callable[[AgentId], Awaitable[Any]]
SUFFIX: Final = ".aside"


class HostingRuntime:
    """Runs agents of AutoGen's, by a runtime of ours.

    Args:
        url, namespace, settings, ignore_unhandled_exceptions: as for RedisAgentRuntime.
        saves: whether the states of its agents are stored.

    Attributes:
        runtime: carries the messages.
        registry: their classes.
        tokens: the cancellation tokens of AutoGen's that were sent along.
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
        self.registry = HostedRegistry()
        self.registry.register(Buried)
        self.runtime = RedisAgentRuntime(
            url,
            namespace=namespace,
            # AutoGen knows no largest message: what is large goes beside its stream.
            settings=replace(settings or BrokerSettings.from_env(), claim_check=True),
            ignore_unhandled_exceptions=ignore_unhandled_exceptions,
            retry=OnceUnlessKilled(),
            registry=self.registry,
        )
        self.runtime.work.cancelled = self._hear_cancelled
        self.tokens = Tokens(self._tell_cancelled, self._was_cancelled)
        self._saves = saves
        self._instances: dict[str, type[Any]] = {}

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
        known = self._instances.get(agent_id.type, type(agent))
        if known is not type(agent):
            raise DeclarationError(
                f"{agent_id} can't be registered",
                f"all instances of one agent type have to be of one class, and there is a {known.__name__}",
            )
        host = class_for(type(agent), saves=self._saves)
        await self.runtime.register_agent_instance(host(agent, agent_id, self.tokens), agent_id)
        self._instances[agent_id.type] = type(agent)

    def leave_to_others(self, names: Iterable[str]) -> None:
        """Agent types that are registered here, too, and whose messages other processes handle."""
        self.runtime.local.elsewhere |= {name for given in names for name in (given, given + SUFFIX)}

    async def hosted(self, agent_id: AgentId) -> HostedAgent:
        """An agent, made when needed, with what is stored of it."""
        return await self.runtime.try_get_underlying_agent_instance(agent_id, HostedAgent)

    async def _add_type(self, name: str, host: type[Any], make: Callable[[AgentId], Awaitable[Any]]) -> None:
        from callboard.core.subscriptions import AgentInstantiationContext

        async def factory() -> Any:
            return await make(AgentInstantiationContext.current_agent_id())

        await self.runtime.register_factory(name, factory, expected_class=host)

    async def _aside(self, agent_id: AgentId) -> Aside:
        return Aside(agent_id, self._busy, self.ask)

    def _busy(self, agent_id: AgentId) -> HostedAgent | None:
        if not self.runtime.work.holds(agent_id):
            return None
        live = self.runtime.local.agents.kind(agent_id.type).live.get(agent_id.key)
        return live.agent if live is not None and isinstance(live.agent, HostedAgent) else None

    # Messages

    async def ask(
        self,
        message: Carried,
        recipient: AgentId,
        sender: AgentId | None = None,
        message_id: str | None = None,
    ) -> Any:
        """Sends a request that waits for its reply as long as it takes."""
        return await self.runtime.send_message(
            message, recipient, sender=sender, message_id=message_id, timeout=NO_TIMEOUT
        )

    async def publish_at_once(
        self, message: Carried, topic_id: TopicId, sender: AgentId | None, message_id: str | None
    ) -> None:
        """Publishes an event. In a handler it is on its way when this returns, and what is published next follows it."""
        sending = await self.runtime.connection.open_sender()
        # So a manager hears that the member whose turn it is can not take it, and a run does not wait for ever.
        is_told = sender is not None and type(message.message).__name__ == ASKED
        how = SendOptions(message_id, now=True, strict=False, if_buried=is_told)
        posted = sending.post(message, topic_id, sender, how)
        handler = leaving.get()
        if posted is not None:
            await (posted if handler is None else handler.add(posted))

    # Tokens

    async def _tell_cancelled(self, name: str) -> bool:
        transport = self.runtime.transport
        return await transport.order("cancel", name, transport.now_ms() + int(DAY * 1000))

    async def _was_cancelled(self, name: str) -> bool:
        transport = self.runtime.transport
        return await transport.admin.command("ZSCORE", transport.keys.of("cancelled"), name) is not None

    def _hear_cancelled(self, what: str) -> None:
        if what.startswith(PREFIX):
            self.tokens.hear(what)

    # Working

    @property
    def is_running(self) -> bool:
        """Whether it handles messages."""
        return self.runtime.work.task is not None

    async def close(self) -> None:
        """Closes the runtime when what was cancelled here has been told."""
        if self.runtime.connection.transport is not None:
            await self.tokens.close()
        await self.runtime.close()


ENTERING: Final = frozenset({"GroupChatPause", "GroupChatResume"})

FindBusy = Callable[[AgentId], HostedAgent | None]
Ask = Callable[[Carried, AgentId], Awaitable[Any]]


def takes_entering(agent_class: type[Any] | None) -> bool:
    """Whether agents of a class of AutoGen's handle requests that enter past a running turn."""
    handled: Callable[[], Any] | None = getattr(agent_class, "_handles_types", None)
    return handled is not None and any(cls.__name__ in ENTERING for cls, _ in handled())


def enters(message: object) -> bool:
    """Whether a request goes past a running turn."""
    return type(message).__name__ in ENTERING


def aside_of(agent_id: AgentId) -> AgentId:
    """The agent that takes such requests for another."""
    return AgentId(agent_id.type + SUFFIX, agent_id.key)


class Aside:
    """Takes requests for one agent while that is busy.

    Args:
        agent_id: its own id.
        find_busy: the agent of an id, when it runs a handler in this process.
        ask: sends a request the usual way.
    """

    lasting = False

    def __init__(self, agent_id: AgentId, find_busy: FindBusy, ask: Ask) -> None:
        self.id = agent_id
        self._for = AgentId(agent_id.type.removesuffix(SUFFIX), agent_id.key)
        self._find_busy = find_busy
        self._ask = ask

    @property
    def metadata(self) -> AgentMetadata:
        """Who it is."""
        return AgentMetadata(
            type=self.id.type, key=self.id.key, description=f"what enters {self._for} at once"
        )

    async def bind_id_and_runtime(self, id: AgentId, runtime: AgentRuntime) -> None:
        """Does nothing: it knows both."""

    async def on_message(self, message: Any, ctx: MessageContext) -> Any:
        """Has the agent handle a request beside what it handles now."""
        busy = self._find_busy(self._for)
        if busy is None:
            # It is idle, or busy in another process that runs its type too: then the request waits for its turn there.
            return await self._ask(message, self._for)
        return await busy.enter(message, ctx)

    async def save_state(self) -> Mapping[str, Any]:
        """It has none."""
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """It has none."""

    async def close(self) -> None:
        """Nothing is to be closed."""
