"""A runtime for programs that are written for AutoGen: theirs in its interface, ours in how messages travel.

Intervention handlers of AutoGen's form a chain here: each sees what the one before it returned; in AutoGen's own runtime
each sees the original, and only the last one counts. What a handler raises goes to the sender; there, an `on_publish`
that fails is only logged.

A team of AutoGen's has a random id, and its manager and all members in one runtime. A `SharedTeam` is built by every
process under the same name, and each process says which part of it runs there.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel

from callboard.broker import AgentId, AgentType, BrokerSettings
from callboard.errors import DeclarationError, MisuseError, UnknownNameError

from .bus import HostingRuntime, aside_of, enters
from .hosted import run_here
from .messages import Carried
from .translation import (
    as_theirs,
    core,
    errors,
    our_agent,
    our_sender,
    our_subscription,
    our_topic,
    register_their_errors,
)

__all__ = ["CallboardRuntime", "SharedTeam"]


class CallboardRuntime:
    """Implements `autogen_core.AgentRuntime`, so that agents and teams of the real AutoGen packages run over Redis.

    ```python
    team = RoundRobinGroupChat([writer, critic], runtime=CallboardRuntime())
    ```

    What it carries survives the processes: messages, and with `save_states` what agents save of themselves. Within a handler
    AutoGen's promises hold and not ours: what an agent publishes leaves at once, a handler that fails is not run again and
    leaves its agent as it is, and a message whose process was killed is handled again from its start. See
    docs/from-autogen.md.

    Where AutoGen's SingleThreadedAgentRuntime is known to be broken this one is right: interceptors chain, and an unknown
    recipient raises UndeliverableException, as AutoGen's own page has it.

    Args:
        url: As for RedisAgentRuntime; None: CALLBOARD_URL, else REDIS_URL, else a server that is started here.
        namespace: As for RedisAgentRuntime; None: CALLBOARD_NAMESPACE, else one that is deleted by `close`.
        settings: Everything else; None: from the environment.
        intervention_handlers: AutoGen's.
        ignore_unhandled_exceptions: False: what a handler of an event raised is raised again by `stop`, `stop_when_idle`
            and `stop_when`.
        save_states: Whether what `save_state` of an agent returns is stored with each message that it has handled, and
            loaded by the process that handles the next one.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        settings: BrokerSettings | None = None,
        intervention_handlers: Sequence[Any] | None = None,
        ignore_unhandled_exceptions: bool = True,
        save_states: bool = True,
    ) -> None:
        register_their_errors()
        self.bus = HostingRuntime(
            url,
            namespace=namespace,
            settings=settings,
            ignore_unhandled_exceptions=ignore_unhandled_exceptions,
            saves=save_states,
        )
        self._interventions = Interventions(intervention_handlers)
        self._has_begun_by_itself = False

    # Messages

    async def send_message(
        self,
        message: Any,
        recipient: Any,
        *,
        sender: Any | None = None,
        cancellation_token: Any | None = None,
        message_id: str | None = None,
    ) -> Any:
        """Send a request to an agent and wait for its response, as long as it takes.

        A runtime that has not been started starts now: in AutoGen the call would never return.

        Args:
            message: Any model, dataclass or plain value.
            recipient: An AgentId of AutoGen's.
            sender: The agent that sends, if one does.
            cancellation_token: Ends the wait; the handler, in whatever process, gets it in its context.
            message_id: An id of your own; a second request with the same id gets the reply to the first.

        Raises:
            UndeliverableException: There is no such agent type (AutoGen's).
            MessageDroppedException: An intervention handler dropped it (AutoGen's).
            asyncio.CancelledError: The token was cancelled.
            Exception: What the handler raised.
        """
        if not self.bus.is_running:
            self._begin()
        if self._interventions:
            context = _context(sender, None, True, cancellation_token, message_id)
            message = await self._interventions.sent(message, context, recipient)
        asked = self._ask(message, our_agent(recipient), our_sender(sender), cancellation_token, message_id)
        if cancellation_token is not None:
            asked = cancellation_token.link_future(asyncio.ensure_future(asked))
        with as_theirs():
            answer = await asked
        response = answer.message if isinstance(answer, Carried) else answer
        if self._interventions:
            return await self._interventions.answered(response, recipient, sender)
        return response

    async def _ask(
        self, message: Any, recipient: AgentId, sender: AgentId | None, token: Any, message_id: str | None
    ) -> Any:
        carried = Carried(message, self.bus.tokens.name_of(token))
        agent = aside_of(recipient) if enters(message) else recipient
        return await self.bus.ask(carried, agent, sender, message_id)

    async def publish_message(
        self,
        message: Any,
        topic_id: Any,
        *,
        sender: Any | None = None,
        cancellation_token: Any | None = None,
        message_id: str | None = None,
    ) -> None:
        """Publish a message to all who subscribe to a topic. It leaves at once, also in a handler.

        Args:
            message: Any model, dataclass or plain value.
            topic_id: A TopicId of AutoGen's.
            sender: The agent that publishes, if one does; it does not get the message.
            cancellation_token: The handlers, in whatever process, get it in their contexts.
            message_id: An id of your own; a second message with the same id is dropped.
        """
        if self._interventions:
            context = _context(sender, topic_id, False, cancellation_token, message_id)
            message, leaves = await self._interventions.published(message, context)
            if not leaves:
                return
        token, run = self.bus.tokens.name_of(cancellation_token), run_here.get()
        carried = Carried(message, token, None if run == token else run)
        await self.bus.publish_at_once(carried, our_topic(topic_id), our_sender(sender), message_id)

    # Registering

    async def register_factory(
        self,
        type: Any,
        agent_factory: Callable[[], Any | Awaitable[Any]],
        *,
        expected_class: Any | None = None,
    ) -> Any:
        """Say how agents of a type are made.

        Args:
            type: An AgentType of AutoGen's, or its name.
            agent_factory: Makes one agent; it may be async.
            expected_class: What it has to make. Where it is not given, the states of these agents are not stored.

        Raises:
            ValueError: The type is taken.
        """
        agent_type = core.AgentType(type) if isinstance(type, str) else type

        async def make(agent_id: AgentId) -> Any:
            their_id = core.AgentId(agent_id.type, agent_id.key)
            with core.AgentInstantiationContext.populate_context((self, their_id)):
                made = agent_factory()
                agent = await made if inspect.isawaitable(made) else made
            if expected_class is not None and not isinstance(agent, expected_class):
                raise DeclarationError(
                    f"the factory of {agent_type.type!r} made a {agent.__class__.__name__}; "
                    f"it was registered for {expected_class.__name__}",
                )
            return agent

        await self.bus.host_type(agent_type.type, expected_class, make)
        return agent_type

    async def register_agent_instance(self, agent_instance: Any, agent_id: Any) -> Any:
        """Add one agent that exists already.

        Raises:
            ValueError: The id is taken, its type has a factory, or other instances of it have another class.
        """
        await agent_instance.bind_id_and_runtime(id=agent_id, runtime=self)
        await self.bus.host_instance(agent_instance, our_agent(agent_id))
        return agent_id

    async def add_subscription(self, subscription: Any) -> None:
        """Add a TypeSubscription, DefaultSubscription or TypePrefixSubscription of AutoGen's.

        Raises:
            DeclarationError: It is of a class of your own (a TypeError).
            ValueError: There is an equal one.
        """
        await self.bus.runtime.add_subscription(our_subscription(subscription))

    async def remove_subscription(self, id: str) -> None:
        """End a subscription.

        Raises:
            LookupError: There is none with this id.
        """
        await self.bus.runtime.remove_subscription(id)

    def add_message_serializer(self, serializer: Any) -> None:
        """Make the classes of serializers known. The serializers themselves are not used: models travel as they are."""
        for one in serializer if isinstance(serializer, Sequence) else (serializer,):
            cls = getattr(one, "cls", None)
            if inspect.isclass(cls):
                self.bus.registry.add_class(cls)
                for other in _spoken_with(cls):
                    self.bus.registry.add_class(other)

    # Agents

    async def try_get_underlying_agent_instance(self, id: Any, type: Any = None) -> Any:
        """The agent object itself, made when needed.

        Raises:
            LookupError: There is no such agent type.
            NotAccessibleError: It lives in another process (AutoGen's).
            TypeError: It is of another class than `type`.
        """
        agent = await (await self._hosted(id)).current()
        if type is not None and not isinstance(agent, type):
            raise TypeError(f"{id} is a {agent.__class__.__name__}, not a {type.__name__}")
        return agent

    async def get(self, id_or_type: Any, /, key: str = "default", *, lazy: bool = True) -> Any:
        """The id of an agent; with `lazy=False` the agent is made as well."""
        agent_id = id_or_type if isinstance(id_or_type, core.AgentId) else core.AgentId(id_or_type, key)
        if not lazy:
            await self._hosted(agent_id)
        return agent_id

    async def agent_metadata(self, agent: Any) -> Any:
        """Who an agent is."""
        return (await self._hosted(agent)).agent.metadata

    async def _hosted(self, agent_id: Any) -> Any:
        with as_theirs():
            return await self.bus.hosted(our_agent(agent_id))

    # States

    async def agent_save_state(self, agent: Any) -> Mapping[str, Any]:
        """The state of one agent, also of one that another process runs and this one only knows."""
        with as_theirs():
            return await self.bus.runtime.agent_save_state(our_agent(agent))

    async def agent_load_state(self, agent: Any, state: Mapping[str, Any]) -> None:
        """Give an agent a state; it is stored at once."""
        with as_theirs():
            await self.bus.runtime.agent_load_state(our_agent(agent), state)

    async def save_state(self) -> Mapping[str, Any]:
        """States by `type/key`: of the agents in this process, and of those of its types that are stored."""
        return await self.bus.runtime.save_state()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned; agents of types that are not registered are left out."""
        await self.bus.runtime.load_state(state)

    # Working

    def start(self) -> None:
        """Begin to handle messages.

        Raises:
            MisuseError: It was started before (a RuntimeError).
        """
        if self._has_begun_by_itself and self.bus.is_running:
            self._has_begun_by_itself = False
            return
        self.bus.runtime.start()

    def _begin(self) -> None:
        self._has_begun_by_itself = True
        self.bus.runtime.start()

    async def stop(self) -> None:
        """Let running handlers finish and stop. What is queued stays in Redis; in AutoGen it is thrown away."""
        await self.bus.runtime.stop()

    async def stop_when_idle(self) -> None:
        """Stop when nothing is left to do in the namespace."""
        await self.bus.runtime.stop_when_idle()

    async def stop_when(self, condition: Callable[[], bool]) -> None:
        """Stop as soon as a condition holds; it is asked after every change."""
        await self.bus.runtime.stop_when(condition)

    async def close(self) -> None:
        """Stop, close the agents, end every connection; a namespace that was made up is deleted."""
        await self.bus.close()

    async def __aenter__(self) -> Self:
        await self.bus.runtime.open()
        if not self.bus.is_running:
            self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def unprocessed_messages_count(self) -> int:
        """Messages that this process holds or is sending."""
        return self.bus.runtime.unprocessed_messages_count


def _spoken_with(cls: type[Any]) -> list[type[Any]]:
    """The other messages of a team, of which a manager publishes some that no agent handles."""
    if not cls.__module__.startswith("autogen_agentchat."):
        return []
    module = vars(sys.modules[cls.__module__])
    return [
        other
        for other in module.values()
        if inspect.isclass(other) and issubclass(other, BaseModel) and other.__module__ == cls.__module__
    ]


def _context(sender: Any, topic_id: Any, is_rpc: bool, token: Any, message_id: str | None) -> Any:
    return core.MessageContext(
        sender=sender,
        topic_id=topic_id,
        is_rpc=is_rpc,
        cancellation_token=token or core.CancellationToken(),
        message_id=message_id or "",
    )


class Interventions:
    """The handlers of one runtime, in their order."""

    def __init__(self, handlers: Sequence[Any] | None) -> None:
        self._handlers = tuple(handlers or ())

    def __bool__(self) -> bool:
        return bool(self._handlers)

    async def sent(self, message: Any, context: Any, recipient: Any) -> Any:
        """A request as it leaves.

        Raises:
            MessageDroppedException: a handler dropped it (AutoGen's).
        """
        for handler in self._handlers:
            message = await handler.on_send(message, message_context=context, recipient=recipient)
            if _is_dropped(message):
                raise errors.MessageDroppedException
        return message

    async def published(self, message: Any, context: Any) -> tuple[Any, bool]:
        """An event as it leaves, and whether it leaves at all."""
        for handler in self._handlers:
            message = await handler.on_publish(message, message_context=context)
            if _is_dropped(message):
                return None, False
        return message, True

    async def answered(self, message: Any, sender: Any, recipient: Any) -> Any:
        """A response as it arrives; raises as `sent` does."""
        for handler in self._handlers:
            message = await handler.on_response(message, sender=sender, recipient=recipient)
            if _is_dropped(message):
                raise errors.MessageDroppedException
        return message


def _is_dropped(message: Any) -> bool:
    return message is core.DropMessage or isinstance(message, core.DropMessage)


class SharedTeam:
    """One team in several processes; each builds it alike, with a CallboardRuntime of one namespace.

    ```python
    await SharedTeam(team, "review").host("writer")  # in the writer's process
    ```
    ```python
    SharedTeam(team, "review").lead()  # in the process that runs the team
    result = await team.run(task="Write about Redis.")
    ```

    A member may be hosted in several processes: whichever is free takes its next turn, and what the member has saved goes
    with it. One process leads at a time: there the manager lives, which can't be replaced in the middle of a run.

    Args:
        team: A team of `autogen_agentchat.teams` that has not been used yet.
        name: The same in every process, and of no other team in the namespace; letters, digits, `_`, `-` and `.`.

    Raises:
        MisuseError: The team has run, or has been set up otherwise (a RuntimeError).
        TypeError: Its runtime is no CallboardRuntime.
        ValueError: The name has other characters.
    """

    def __init__(self, team: Any, name: str) -> None:
        self._team = team
        self._name = AgentType(name).type
        # A team offers no way to choose its ids. These are the fields of the version that the extra pins.
        runtime = team._runtime
        if not isinstance(runtime, CallboardRuntime):
            raise TypeError(f"the team {name!r} needs runtime=CallboardRuntime(...) to be shared")
        if team._initialized:
            raise MisuseError(f"the team {name!r} has been used already: share it before its first run")
        self._runtime = runtime
        _rename(team, self._name)

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members."""
        return tuple(self._team._participant_names)

    def lead(self, *here: str) -> None:
        """Say that this process runs the team: its manager lives here.

        Args:
            *here: Members that run here as well; the others are hosted elsewhere.

        Raises:
            UnknownNameError: There is no such member (a LookupError).
        """
        self._check(here)
        self._leave([name for name in self.members if name not in here], manager=False)

    async def host(self, *members: str) -> None:
        """Run members here, from now until the runtime is closed. The call returns as soon as they are ready.

        Raises:
            UnknownNameError: There is no such member (a LookupError).
        """
        self._check(members)
        self._leave([name for name in self.members if name not in members], manager=True)
        await self._team._init(self._runtime)
        if not self._runtime.bus.is_running:
            self._runtime.start()
        await self._runtime.bus.runtime.ready()

    async def serve(self, *members: str) -> None:
        """Run members here until the call is cancelled."""
        await self.host(*members)
        await asyncio.get_running_loop().create_future()

    def _check(self, names: tuple[str, ...]) -> None:
        for name in names:
            if name not in self.members:
                raise UnknownNameError("member of the team", name, self.members)

    def _leave(self, names: list[str], *, manager: bool) -> None:
        types = dict(zip(self.members, self._team._participant_topic_types, strict=True))
        left = [types[name] for name in names]
        if manager:
            left.append(self._team._group_chat_manager_topic_type)
        self._runtime.bus.leave_to_others(left)


def _rename(team: Any, name: str) -> None:
    """Gives a team the ids that it would have had with this name.

    A team among its members keeps its own: it runs where that member has its turn, and is saved with it.
    """
    team._team_id = name
    team._group_topic_type = f"group_topic_{name}"
    team._group_chat_manager_topic_type = f"{team._group_chat_manager_name}_{name}"
    team._participant_topic_types = [f"{member}_{name}" for member in team._participant_names]
    team._output_topic_type = f"output_topic_{name}"
