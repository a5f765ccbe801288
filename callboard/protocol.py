"""The two halves of the programming model as protocols: an agent, and the runtime that it lives in.

They name each other, so they stand in one module; all that agents are written with depends on this one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, overload, runtime_checkable

from callboard.broker.ids import AgentId, AgentType, TopicId
from callboard.broker.subscriptions import Subscription

from .cancellation import CancellationToken
from .context import MessageContext
from .requests import Request, ResponseT
from .send_options import PublishOptions, ReminderOptions, RequestOptions, TellOptions

__all__ = ["Agent", "AgentMetadata", "AgentRuntime", "MessageType"]

MessageType: TypeAlias = type[Any]
"""A message class; named, because inside an agent `type` is the agent's own."""


class AgentMetadata(TypedDict):
    """Who an agent is: its type, its key and the sentence that describes it."""

    type: str
    key: str
    description: str


@runtime_checkable
class Agent(Protocol):
    """Anything that handles messages. `BaseAgent` is the class to derive from."""

    @property
    def metadata(self) -> AgentMetadata:
        """Who this agent is."""
        ...

    @property
    def id(self) -> AgentId:
        """Its address."""
        ...

    async def bind_id_and_runtime(self, id: AgentId, runtime: AgentRuntime) -> None:
        """Give an instance its address and its runtime.

        Raises:
            RuntimeError: It already has others.
        """
        ...

    def on_message(self, message: Any, ctx: MessageContext) -> Coroutine[Any, Any, Any]:
        """Handle one message. Only runtimes call this.

        Args:
            message: The decoded message, a copy of its own.
            ctx: Its circumstances.

        Returns:
            The response; None is one too.

        Raises:
            CantHandleException: The agent does not take this message.
            asyncio.CancelledError: The sender cancelled.
        """
        ...

    async def save_state(self) -> Mapping[str, Any]:
        """The state of the agent, as something that fits into JSON."""
        ...

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over a state that `save_state` returned."""
        ...

    async def close(self) -> None:
        """Called once when the runtime closes or puts the agent to sleep."""
        ...


T = TypeVar("T", bound=Agent)


@runtime_checkable
class AgentRuntime(Protocol):
    """A runtime carries messages between agents and creates the agents."""

    @overload
    async def send_message(
        self,
        message: Request[ResponseT],
        recipient: AgentId | str,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> ResponseT: ...

    @overload
    async def send_message(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any: ...

    async def send_message(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any:
        """Send a request to one agent and wait for its response.

        Args:
            message: An instance of any registered message class, or a plain value.
            recipient: The agent, an AgentId or its text, such as ``"clerk/ada"``; it is created when it does not
                exist yet.
            sender: The agent that sends; None when no agent of the runtime does.
            cancellation_token: Cancels the wait, and the work on the other side.
            message_id: An id of your own; a second message with the same id is dropped. None: a new one.
            **options: See RequestOptions.

        Returns:
            What the recipient's handler returned.

        Raises:
            CantHandleException: The recipient has no handler for it.
            UndeliverableException: There is no such agent type.
            MessageDroppedException: An intervention handler dropped the request or the response.
            asyncio.CancelledError: The token was cancelled.
            Exception: What the recipient's handler raised.
        """
        ...

    async def publish_message(
        self,
        message: Any,
        topic_id: TopicId | str,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[PublishOptions],
    ) -> None:
        """Publish a message to everybody who subscribes to a topic; there is no response.

        Args:
            message: An instance of any registered message class, or a plain value.
            topic_id: Where to: a TopicId; its text, such as ``"orders/ada"``; or a topic type alone, as in
                DefaultTopicId. An agent does not receive what it published itself.
            sender: The agent that publishes; None when no agent of the runtime does.
            cancellation_token: Cancels the call as long as the message has not left.
            message_id: An id of your own; a second message with the same id is dropped. None: a new one.
            **options: See PublishOptions.
        """
        ...

    async def tell(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        sender: AgentId | None = None,
        message_id: str | None = None,
        **options: Unpack[TellOptions],
    ) -> None:
        """Send a message to one agent, now or later, without waiting for a response; see `BaseAgent.tell`.

        Args:
            message: An instance of any registered message class, or a plain value.
            recipient: The agent, an AgentId or its text, such as ``"clerk/ada"``; it is created when it does not
                exist yet.
            sender: The agent that sends; None when no agent of the runtime does.
            message_id: An id of your own; a second message with the same id is dropped. None: a new one.
            **options: See TellOptions.

        Raises:
            LookupError: There is no such agent type.
        """
        ...

    async def remind(
        self,
        message: Any,
        agent: AgentId,
        *,
        message_id: str | None = None,
        **options: Unpack[ReminderOptions],
    ) -> None:
        """Send one agent a message from itself, now or later; see `BaseAgent.remind`.

        Args:
            message: An instance of any registered message class, or a plain value.
            agent: Who sends it and who gets it.
            message_id: An id of your own; a second message with the same id is dropped. None: a new one.
            **options: When; see ReminderOptions.
        """
        ...

    async def write_run(
        self,
        run_id: str,
        events: Sequence[Any],
        *,
        tag: str = "",
        settles: str = "",
        since: int = 0,
        now: bool = False,
    ) -> int:
        """Add events to the stream of a run, for everybody who reads along (`RedisAgentRuntime.read_run`).

        In a handler they are written with the handler's commit: with a failed attempt they are gone. Outside handlers,
        and with `now=True`, they are written at once; those of a handler whose worker lost its message never are.

        Args:
            run_id: Id of the run, up to 128 characters. The stream is made when it does not exist, and goes
                `run_retention` seconds after the last event.
            events: Instances of message classes, in their order, each up to `max_payload` bytes.
            tag: Marks drafts: what is shown while work is under way, such as the pieces of a text, and removed when it
                is settled. Up to 128 characters; "": these are no drafts.
            settles: Drafts of this run whose tags begin with this are removed; "": none. The newest 500 entries are
                looked at in the same step, the rest of the newest 2,000 with the next heartbeats of workers.
            since: Number of the first of these drafts, where it is known: nothing before it is looked at.
            now: At once, also in a handler. Another attempt of the handler writes again.

        Returns:
            The number of the first of these events; 0 when they are written with the commit, or there are none.

        Raises:
            SettingValueError: The id or a tag can't be one (a ValueError).
            EncodeError: An event can't be encoded.
            EventTooLargeError: An event is larger than `max_payload` (a ValueError).
            FencedError: Another worker has the message of the handler.
            CommandError: The key of the stream holds something else.
            ServerUnavailableError: No server answers.
        """
        ...

    async def register_factory(
        self,
        type: str | AgentType,
        agent_factory: Callable[[], T | Awaitable[T]],
        *,
        expected_class: type[T] | None = None,
    ) -> AgentType:
        """Say how agents of a type are made. `BaseAgent.register` does this and the subscriptions.

        Args:
            type: The agent type; not the name of a class.
            agent_factory: Makes one agent; it may be async. `AgentInstantiationContext` tells it which.
            expected_class: What it has to return an instance of; checked when the first agent is made.

        Raises:
            ValueError: The type is taken.
        """
        ...

    async def register_agent_instance(self, agent_instance: Agent, agent_id: AgentId) -> AgentId:
        """Add one agent that exists already. `BaseAgent.register_instance` does this and the subscriptions.

        Raises:
            ValueError: The id is taken, its type has a factory, or other instances of it have another class.
        """
        ...

    # mypy refuses every default for a parameter of type type[T], however right it is.
    async def try_get_underlying_agent_instance(
        self,
        id: AgentId,
        type: type[T] = Agent,  # type: ignore[assignment]
    ) -> T:
        """The agent object itself, made when needed. For tests and debugging.

        Raises:
            LookupError: There is no such agent type.
            NotAccessibleError: It lives in another process.
            TypeError: It is of another class.
        """
        ...

    @overload
    async def get(self, id: AgentId, /, *, lazy: bool = ...) -> AgentId: ...

    @overload
    async def get(self, type: AgentType | str, /, key: str = ..., *, lazy: bool = ...) -> AgentId: ...

    async def get(
        self, id_or_type: AgentId | AgentType | str, /, key: str = "default", *, lazy: bool = True
    ) -> AgentId:
        """The id of an agent; with `lazy=False` the agent is made as well."""
        ...

    async def save_state(self) -> Mapping[str, Any]:
        """The states of the agents, by ``"type/key"``, as something that fits into JSON."""
        ...

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        ...

    async def agent_metadata(self, agent: AgentId) -> AgentMetadata:
        """Who an agent is."""
        ...

    async def agent_save_state(self, agent: AgentId) -> Mapping[str, Any]:
        """The state of one agent."""
        ...

    async def agent_load_state(self, agent: AgentId, state: Mapping[str, Any]) -> None:
        """Take over the state of one agent."""
        ...

    async def add_subscription(self, subscription: Subscription) -> None:
        """Add a subscription; its agent type may be registered later.

        Raises:
            DuplicateSubscriptionError: An equal one exists (a ValueError).
        """
        ...

    async def remove_subscription(self, id: str) -> None:
        """Remove a subscription by its id.

        Raises:
            UnknownSubscriptionError: There is none with this id (a ValueError and a LookupError).
        """
        ...

    def add_message_types(self, message_types: Iterable[MessageType]) -> None:
        """Make message classes known, so that they can be encoded and decoded. Known ones are ignored."""
        ...
