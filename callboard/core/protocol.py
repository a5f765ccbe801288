"""The two halves of the programming model as protocols, an agent and its runtime, and the options of sending.

The two protocols name each other, so they stand in one module; all that agents are written with depends on this one.

The public methods take the options of sending as keyword arguments (`**options: Unpack[PublishOptions]`, PEP 692), so
that a type checker knows every one of them, and none of the methods between an agent and the sender repeats them.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from types import GenericAlias
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    overload,
    runtime_checkable,
)

from callboard.broker.ids import AgentId, AgentType, TopicId, check_text
from callboard.broker.subscriptions import Subscription
from callboard.errors import did_you_mean

from .cancellation import CancellationToken
from .context import MessageContext

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
ResponseT_co = TypeVar("ResponseT_co", covariant=True)


if TYPE_CHECKING:

    class Request(Generic[ResponseT_co]):
        """A base for a request that names the class of its response, beside pydantic's or under `@dataclass`.

        ```python
        class HowMany(BaseModel, Request[Count]): ...
        ```

        `await self.send_message(HowMany(), ...)` is a `Count` for type checkers then, and a handler of `HowMany` that
        declares another response is refused. Any other message can be a request as well: its response is `Any`.
        """

else:
    # Not typing.Generic, which pydantic warns of when it comes before BaseModel.
    class Request:
        """A base for a request that names the class of its response, beside pydantic's or under `@dataclass`.

        `await self.send_message(HowMany(), ...)` is a `Count` for type checkers if `HowMany` derives from `Request[Count]`,
        and a handler of `HowMany` that declares another response is refused. Any other message can be a request as well.
        """

        __slots__ = ()

        def __class_getitem__(cls, response: object) -> GenericAlias:
            return GenericAlias(cls, response)


ResponseT = TypeVar("ResponseT")


class RequestOptions(TypedDict, total=False):
    """How a request is sent.

    Keys:
        timeout: Seconds to wait for the response; None: `request_timeout` of the settings.
        claim_check: Whether its bytes are kept beside the stream, see PublishOptions; then its response may be as
            large.
    """

    timeout: float | None
    claim_check: bool | None


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

    def write_run(
        self,
        run_id: str,
        events: Sequence[Any],
        *,
        tag: str = "",
        settles: str = "",
        since: int = 0,
        now: bool = False,
    ) -> Coroutine[Any, Any, int]:
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
            SubscriptionError: An equal one exists (a ValueError).
        """
        ...

    async def remove_subscription(self, id: str) -> None:
        """Remove a subscription by its id.

        Raises:
            SubscriptionError: There is none with this id (a ValueError and a LookupError).
        """
        ...

    def add_message_types(self, message_types: Iterable[MessageType]) -> None:
        """Make message classes known, so that they can be encoded and decoded. Known ones are ignored."""
        ...


class PublishOptions(TypedDict, total=False):
    """How a message is published.

    Keys:
        delay: Seconds to wait before it is delivered.
        at: When to deliver it, with a time zone. Not together with `delay`.
        expires_in: Seconds, from when it is due, within which a handler has to begin with it; later it is dropped.
            An agent that has begun in time may try it again later. None: no limit.
        now: Inside a handler, True sends at once instead of with the handler's commit.
        claim_check: True: keep its bytes beside the stream, whatever their number, until every agent type that
            subscribes has handled it. False: refuse it when it is larger than `max_payload`. None: as `claim_check`
            of the settings says.
        strict: What happens when no agent subscribes to the topic, or none of its subscribers handles the message. True:
            UnheardError is raised and nothing leaves; where no agent type of this process hears it, that costs a call
            to the server. False: nothing is said, as for a topic that is only followed. None: a warning, once.
    """

    delay: float | None
    at: datetime | None
    expires_in: float | None
    now: bool
    claim_check: bool | None
    strict: bool | None


class ReminderOptions(TypedDict, total=False):
    """When an agent's message to itself comes.

    Keys:
        after: Seconds from now; 0 or None: as soon as the commit has been made.
        at: The time, with a time zone. Not together with `after`.
        expires_in: As in PublishOptions.
        claim_check: As in PublishOptions.
    """

    after: float | None
    at: datetime | None
    expires_in: float | None
    claim_check: bool | None


class TellOptions(ReminderOptions, total=False):
    """How a message is sent to one agent without waiting for a response: the keys of ReminderOptions, and these.

    Keys:
        now: As in PublishOptions.
        if_buried: When the message becomes a dead letter, for whatever reason, the sender gets a `Buried` of
            `callboard.broker.retry`, which an `@event` of its handles. One that expires is a dead letter then as well.
        cancellable: `runtime.control.cancel(message_id)` may cancel it, before its handler begins or while it runs; it
            needs a `message_id`.
        unique: The sender gives this `message_id` to no other message, so nothing has to be remembered of it to drop a
            second one.
    """

    now: bool
    if_buried: bool
    cancellable: bool
    unique: bool


OF_EVENTS: Final = PublishOptions.__optional_keys__
OF_REMINDERS: Final = ReminderOptions.__optional_keys__
OF_TELLS: Final = TellOptions.__optional_keys__
OF_REQUESTS: Final = RequestOptions.__optional_keys__


class SendOptions(NamedTuple):
    """How one message is sent: the keys of the options above, and the id that its sender chose.

    Attributes:
        message_id: idempotency id; None: the runtime chooses the message's id.
        delay, at, expires_in, now, claim_check, timeout, strict, if_buried, cancellable, unique: see PublishOptions,
            TellOptions and RequestOptions; `delay` is also the `after` of ReminderOptions and TellOptions.
    """

    message_id: str | None = None
    delay: float | None = None
    at: datetime | None = None
    expires_in: float | None = None
    now: bool = False
    claim_check: bool | None = None
    timeout: float | None = None
    strict: bool | None = None
    if_buried: bool = False
    cancellable: bool = False
    unique: bool = False

    @classmethod
    def of_event(cls, message_id: str | None, given: PublishOptions) -> SendOptions:
        """The options of a publish.

        Raises:
            TypeError: an event has no such option.
            InvalidIdError: the id is no text, or has half of a surrogate pair.
        """
        if message_id is None and not given:
            return USUAL
        if not OF_EVENTS.issuperset(given):
            raise _unknown("publish_message", given, OF_EVENTS)
        return cls(_checked(message_id), **given)

    @classmethod
    def of_reminder(cls, message_id: str | None, given: ReminderOptions) -> SendOptions:
        """The options of a message to oneself.

        Raises:
            TypeError: it has no such option.
            InvalidIdError: as for an event.
        """
        if not OF_REMINDERS.issuperset(given):
            raise _unknown("remind", given, OF_REMINDERS)
        return cls.of_tell(message_id, cast("TellOptions", given))

    @classmethod
    def of_tell(cls, message_id: str | None, given: TellOptions) -> SendOptions:
        """The options of a message to one agent that is not answered.

        Raises:
            TypeError: it has no such option.
            InvalidIdError: as for an event.
        """
        if message_id is None and not given:
            return USUAL
        if not OF_TELLS.issuperset(given):
            raise _unknown("tell", given, OF_TELLS)
        return cls(
            _checked(message_id),
            delay=given.get("after"),
            at=given.get("at"),
            expires_in=given.get("expires_in"),
            now=given.get("now", False),
            claim_check=given.get("claim_check"),
            if_buried=given.get("if_buried", False),
            cancellable=given.get("cancellable", False),
            unique=given.get("unique", False),
        )

    @classmethod
    def of_request(cls, message_id: str | None, given: RequestOptions) -> SendOptions:
        """The options of a request.

        Raises:
            TypeError: a request has no such option.
            InvalidIdError: as for an event.
        """
        if message_id is None and not given:
            return USUAL
        if not OF_REQUESTS.issuperset(given):
            raise _unknown("send_message", given, OF_REQUESTS)
        return cls(_checked(message_id), **given)


USUAL: Final = SendOptions()
LATER: Final = (
    "A request is sent at once. For later there are `publish_message`, `tell` and an agent's own `remind`."
)


def _checked(message_id: str | None) -> str | None:
    return None if message_id is None else check_text("message id", message_id)


def _unknown(method: str, given: Mapping[str, object], known: frozenset[str]) -> TypeError:
    name = min(given.keys() - known)
    is_later = known is OF_REQUESTS and name in ("delay", "at", "after")
    advice = LATER if is_later else did_you_mean(name, known)
    return TypeError(f"{method}() has no option {name!r}. {advice}")


DeclaredT = TypeVar("DeclaredT")


def typed_as(declared: DeclaredT) -> Callable[[Any], DeclaredT]:
    """Decorator of a method that has the type of another, overloads included; the method itself stays as it is."""
    return lambda method: method


UNKNOWN: Final = object()
"""Stands for the response of a message that does not say it."""


def response_of(request: type[Any]) -> Any:
    """The response that a message class names: an annotation, or UNKNOWN.

    Raises:
        NameError: It names a class that is not there, or not yet.
    """
    for cls in request.__mro__:
        for base in vars(cls).get("__orig_bases__", ()):
            if get_origin(base) is Request:
                return _resolved(get_args(base)[0], cls)
    return UNKNOWN


def _resolved(annotation: Any, cls: type[Any]) -> Any:
    def holder() -> None: ...

    holder.__annotations__ = {"response": annotation}
    names = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    return get_type_hints(holder, globalns=dict(names))["response"]
