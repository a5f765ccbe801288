"""BaseAgent: what every agent has, does with messages, and is to others."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    Self,
    TypeAlias,
    TypeVar,
    Unpack,
    final,
    get_args,
    get_origin,
    overload,
)

from callboard.broker.errors import SubscriptionError
from callboard.broker.ids import TOPIC_TYPE, AgentId, AgentType, TopicId
from callboard.broker.subscriptions import TypePrefixSubscription, TypeSubscription
from callboard.errors import MisuseError, StateError

from .cancellation import CancellationToken
from .context import MessageContext
from .protocol import (
    Agent,
    AgentMetadata,
    AgentRuntime,
    MessageType,
    PublishOptions,
    ReminderOptions,
    Request,
    RequestOptions,
    ResponseT,
    TellOptions,
)
from .state import (
    find_state_model,
    get_state,
    set_state,
    state_from_mapping,
    state_model,
    state_to_mapping,
)
from .subscriptions import UnboundSubscription, agent_being_made, bind_subscriptions, direct_message_prefix

if TYPE_CHECKING:
    from pydantic import BaseModel


StateModel: TypeAlias = "type[BaseModel]"

AgentClassT = TypeVar("AgentClassT", bound="type[BaseAgent]")


class Messaging:
    """The part of an agent that sends; its runtime does it, in its name."""

    @property
    def id(self) -> AgentId:
        """The agent's address."""
        raise NotImplementedError

    @property
    def runtime(self) -> AgentRuntime:
        """The runtime that the agent lives in."""
        raise NotImplementedError

    @overload
    async def send_message(
        self,
        message: Request[ResponseT],
        recipient: AgentId | str,
        *,
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
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any: ...

    async def send_message(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any:
        """Send a request to another agent and wait for its response; see `AgentRuntime.send_message`.

        Args:
            message: The request.
            recipient: The agent to ask: an AgentId, or its text, such as ``"clerk/ada"``.
            cancellation_token: Pass `ctx.cancellation_token` on, so that cancelling reaches this request as
                well.
            message_id: An id of your own; None: one that is the same in every attempt.
            **options: See RequestOptions.

        Returns:
            The response.
        """
        return await self.runtime.send_message(
            message,
            recipient,
            sender=self.id,
            cancellation_token=cancellation_token,
            message_id=message_id,
            **options,
        )

    def publish_message(
        self,
        message: Any,
        topic_id: TopicId | str,
        *,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[PublishOptions],
    ) -> Coroutine[Any, Any, None]:
        """Publish a message to a topic; see `AgentRuntime.publish_message`.

        An agent does not hear what it publishes itself, as in AutoGen: `remind` is for that.

        Args:
            message: The message.
            topic_id: Where to: a TopicId; its text, such as ``"orders/ada"``; or a topic type alone, whose source is
                then the key of the agent that handles a message, as in DefaultTopicId.
            cancellation_token: Cancels the call as long as the message has not left.
            message_id: An id of your own; None: one that is the same in every attempt.
            **options: See PublishOptions.

        Returns:
            To be awaited. It is that of the runtime: one of its own would cost as much again.
        """
        return self.runtime.publish_message(
            message,
            topic_id,
            sender=self.id,
            cancellation_token=cancellation_token,
            message_id=message_id,
            **options,
        )

    def tell(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        message_id: str | None = None,
        **options: Unpack[TellOptions],
    ) -> Coroutine[Any, Any, None]:
        """Send a message to one agent, now or later, without waiting; an `@event` or `@message_handler` handles it.

        In a handler it leaves with the handler's commit: with a failed attempt it is gone, and another attempt sends
        the same one. To tell itself is allowed. The recipient gets it in the order in which everything for it was sent,
        topics included.

        Args:
            message: The message; its context has this agent as `sender` and no topic.
            recipient: The agent: an AgentId, or its text, such as ``"clerk/ada"``; it is created when it does not
                exist yet.
            message_id: An id of your own; a second message with the same id is dropped. None: one that is the
                same in every attempt.
            **options: See TellOptions.

        Returns:
            To be awaited, as that of `publish_message`.

        Raises:
            UndeliverableError: There is no such agent type (a LookupError).
            SettingValueError: The time can't be meant so (a ValueError).
        """
        return self.runtime.tell(message, recipient, sender=self.id, message_id=message_id, **options)

    async def remind(
        self, message: Any, *, message_id: str | None = None, **options: Unpack[ReminderOptions]
    ) -> None:
        """Send a message to this agent itself, now or later; an `@event` or `@message_handler` handles it.

        In a handler it leaves with the handler's commit: with a failed attempt it is gone, and another attempt sends
        the same one. It waits in Redis, whichever process runs the agent by then. Nothing takes it back: put into the
        state what you wait for, and let the handler pass over a reminder that is no longer needed.

        ```python
        await self.remind(CheckPayment(order=message.order), after=3600)
        ```

        Args:
            message: The message; its context has this agent as `sender` and no topic.
            message_id: An id of your own; a second message with the same id is dropped. None: one that is the
                same in every attempt.
            **options: When; see ReminderOptions. At once without.

        Raises:
            SettingValueError: The time can't be meant so (a ValueError).
        """
        await self.runtime.remind(message, self.id, message_id=message_id, **options)


if TYPE_CHECKING:
    from pydantic import BaseModel
    from typing_extensions import TypeVar as DefaultingTypeVar

    StateT = DefaultingTypeVar("StateT", bound=BaseModel, default=Any)
else:
    # Bound and default are for type checkers: neither pydantic nor typing_extensions is needed to declare an agent.
    StateT = TypeVar("StateT")


class BaseAgent(ABC, Messaging, Agent, Generic[StateT]):
    """An agent that is given its id and runtime, sends, publishes and registers itself.

    Derive from `RoutedAgent` for handlers by message type, or from this and write `on_message_impl`.

    A pydantic model as its argument makes the agent persistent: ``self.state`` is loaded when the agent wakes up,
    and stored together with everything else that handling a message did. A nested model called ``State`` does the same;
    with the annotation ``state: State`` beside it, type checkers know it too.

    ```python
    class Count(BaseModel):
        total: int = 0

    class Counter(RoutedAgent[Count]): ...

    class Counter(RoutedAgent):
        class State(BaseModel):
            total: int = 0

        state: State
    ```

    Attributes:
        state: The persistent state, made with its defaults at the first use. Assigning another instance replaces it.
            MisuseError (an AttributeError): the class has no state. StateError (a TypeError): a field of it has
            no default, or what was assigned is something else.
        reentrant: Set it to True in a class whose agents can be asked while they wait, see AgentSettings; it also
            counts where the class is registered without settings.

    Args:
        description: What the agent is for, in a sentence.

    Raises:
        ValueError: The description is not a string.
        StateError: Of a subclass, where it is defined: its argument is no pydantic model, or it has two (a TypeError).
    """

    reentrant: ClassVar[bool] = False
    internal_unbound_subscriptions_list: ClassVar[list[UnboundSubscription]] = []
    internal_extra_handles_types: ClassVar[list[MessageType]] = []
    _state_model: ClassVar[StateModel | None] = None

    _id: AgentId
    _runtime: AgentRuntime

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Lists of its own for every class: what a base class subscribes to is not inherited.
        cls.internal_unbound_subscriptions_list = []
        cls.internal_extra_handles_types = []
        nested, argument = find_state_model(cls), state_argument(cls)
        if nested is not None and argument is not None and nested is not argument:
            raise StateError(
                cls.__name__, "give it as the argument of the base class or as `class State`, not both."
            )
        model = nested or argument
        if model is not None:
            cls._state_model = model

    def __init__(self, description: str = "") -> None:
        made_for = agent_being_made.get(None)
        if made_for is not None:
            self._runtime, self._id = made_for
        # Programs without a type checker pass other things, and would hear of it much later.
        if not isinstance(description, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"Agent description must be a string, not {type(description).__name__}.")
        self._description = description

    @property
    def metadata(self) -> AgentMetadata:
        """Type, key and description."""
        return AgentMetadata(type=self.id.type, key=self.id.key, description=self._description)

    @property
    def id(self) -> AgentId:
        """The agent's address.

        Raises:
            MisuseError: No runtime has given it one (an AttributeError).
        """
        try:
            return self._id
        except AttributeError:
            raise self._unbound() from None

    @property
    def type(self) -> str:
        """The agent type, as in `id`."""
        return self.id.type

    @property
    def runtime(self) -> AgentRuntime:
        """The runtime that the agent lives in.

        Raises:
            MisuseError: It is in none yet (an AttributeError).
        """
        try:
            return self._runtime
        except AttributeError:
            raise self._unbound() from None

    if TYPE_CHECKING:
        # A property could not be annotated again with `state: State`.
        state: StateT
    else:

        @property
        def state(self) -> Any:
            """The persistent state, see the class."""
            return get_state(self)

        @state.setter
        def state(self, value: Any) -> None:
            set_state(self, value)

    async def bind_id_and_runtime(self, id: AgentId, runtime: AgentRuntime) -> None:
        """Give the agent its id and runtime; doing it again with the same ones changes nothing.

        Raises:
            MisuseError: It has others (a RuntimeError).
        """
        if getattr(self, "_id", id) != id:
            raise self._bound_elsewhere("ID")
        if getattr(self, "_runtime", runtime) is not runtime:
            raise self._bound_elsewhere("runtime")
        self._id = id
        self._runtime = runtime

    def _unbound(self) -> MisuseError:
        return MisuseError(
            f"This {self.__class__.__name__} belongs to no runtime yet: register it, or make it in a registered "
            "factory."
        )

    def _bound_elsewhere(self, what: str) -> MisuseError:
        return MisuseError(
            f"Agent is already bound to a different {what}: make another {self.__class__.__name__}, don't share one."
        )

    @final
    def on_message(self, message: Any, ctx: MessageContext) -> Coroutine[Any, Any, Any]:
        """Handle one message. Only runtimes call this. No coroutine of its own: each one more costs 0.1 microseconds."""
        return self.on_message_impl(message, ctx)

    @abstractmethod
    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        """Handle one message; to be written by subclasses."""
        ...

    async def save_state(self) -> Mapping[str, Any]:
        """The persistent state as plain data; with no `State`, a warning and ``{}``."""
        if state_model(self.__class__) is not None:
            return state_to_mapping(self)
        warnings.warn(f"save_state not implemented in {self.__class__.__name__}", stacklevel=2)
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned; with no `State`, only a warning."""
        if state_model(self.__class__) is not None:
            state_from_mapping(self, state)
            return
        warnings.warn(f"load_state not implemented in {self.__class__.__name__}", stacklevel=2)

    async def close(self) -> None:
        """Called once when the runtime closes or puts the agent to sleep. Does nothing here."""

    @classmethod
    def message_types(cls) -> tuple[MessageType, ...]:
        """The message classes that the agent takes or returns, for a runtime's registry."""
        return tuple(dict.fromkeys(cls._handles_types()))

    @classmethod
    def hears(cls, message_class: MessageType) -> bool | None:
        """Whether its agents handle published messages of a class; None, as here: that can't be known."""
        return None

    @classmethod
    def class_subscriptions(cls) -> tuple[UnboundSubscription, ...]:
        """The subscriptions that decorators declare on this class, without those of its base classes."""
        return tuple(cls._unbound_subscriptions())

    @classmethod
    def _handles_types(cls) -> list[MessageType]:
        return list(cls.internal_extra_handles_types)

    @classmethod
    def _unbound_subscriptions(cls) -> list[UnboundSubscription]:
        return cls.internal_unbound_subscriptions_list

    @classmethod
    async def register(
        cls,
        runtime: AgentRuntime,
        type: str,
        factory: Callable[[], Self | Awaitable[Self]],
        *,
        skip_class_subscriptions: bool = False,
        skip_direct_message_subscription: bool = False,
    ) -> AgentType:
        """Register this class under an agent type, with its message types and subscriptions.

        Args:
            runtime: Where to.
            type: The agent type.
            factory: Makes one agent; it may be async.
            skip_class_subscriptions: Leave out what `@type_subscription` and `@default_subscription` say.
            skip_direct_message_subscription: Leave out the subscription to topic types that start with
                ``"<type>:"``.

        Returns:
            The agent type.

        Raises:
            ValueError: The type is taken.
            DeclarationError: A handler is declared wrongly (an AssertionError).
        """
        message_types = cls.message_types()
        agent_type = await runtime.register_factory(AgentType(type), factory, expected_class=cls)
        runtime.add_message_types(message_types)
        if not skip_class_subscriptions:
            for subscription in await bind_subscriptions(cls.class_subscriptions(), agent_type):
                await runtime.add_subscription(subscription)
        if not skip_direct_message_subscription:
            prefix = direct_message_prefix(agent_type.type)
            await runtime.add_subscription(TypePrefixSubscription(prefix, agent_type.type))
        return agent_type

    async def register_instance(
        self,
        runtime: AgentRuntime,
        agent_id: AgentId,
        *,
        skip_class_subscriptions: bool = True,
        skip_direct_message_subscription: bool = False,
    ) -> AgentId:
        """Register this one object under an id; it also subscribes to the topic type that its key names.

        Args:
            runtime: Where to.
            agent_id: Its address.
            skip_class_subscriptions: Leave out the class's subscriptions, as is usual for an instance.
            skip_direct_message_subscription: Leave out the subscription to topic types that start with
                ``"<type>:"``.

        Returns:
            The id.

        Raises:
            ValueError: The id or its type is taken in a way that does not go together.
        """
        message_types = self.message_types()
        agent_id = await runtime.register_agent_instance(self, agent_id)
        runtime.add_message_types(message_types)
        # A key may hold any text; one that is no topic type can't be published to.
        if TOPIC_TYPE.match(agent_id.key):
            await runtime.add_subscription(TypeSubscription(agent_id.key, agent_id.type))
        if not skip_class_subscriptions:
            for subscription in await bind_subscriptions(
                self.class_subscriptions(), AgentType(agent_id.type)
            ):
                await runtime.add_subscription(subscription)
        if not skip_direct_message_subscription:
            await self._subscribe_to_direct_messages(runtime, agent_id)
        return agent_id

    @staticmethod
    async def _subscribe_to_direct_messages(runtime: AgentRuntime, agent_id: AgentId) -> None:
        prefix = direct_message_prefix(agent_id.type)
        try:
            await runtime.add_subscription(TypePrefixSubscription(prefix, agent_id.type))
        except SubscriptionError:
            # Another instance of the type brought it along.
            return


def is_bound(agent: Any, id: AgentId, runtime: AgentRuntime) -> bool:
    """Whether an agent took this id and runtime over when it was made, so that nothing is left to bind."""
    return getattr(agent, "_id", None) is id and getattr(agent, "_runtime", None) is runtime


def handles(*types: type[Any]) -> Callable[[AgentClassT], AgentClassT]:
    """Class decorator: make message classes known that no handler of the agent names.

    Args:
        *types: The classes.
    """

    def decorate(agent_class: AgentClassT) -> AgentClassT:
        agent_class.internal_extra_handles_types.extend(types)
        return agent_class

    return decorate


class AgentProxy:
    """Stands for an agent, wherever it lives.

    Args:
        agent: Its id.
        runtime: The runtime to reach it through.
    """

    def __init__(self, agent: AgentId, runtime: AgentRuntime) -> None:
        self._agent = agent
        self._runtime = runtime

    @property
    def id(self) -> AgentId:
        """The agent this stands for."""
        return self._agent

    @property
    def metadata(self) -> Awaitable[AgentMetadata]:
        """Who the agent is; to be awaited."""
        return self._runtime.agent_metadata(self._agent)

    @overload
    async def send_message(
        self,
        message: Request[ResponseT],
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
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any: ...

    async def send_message(
        self,
        message: Any,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any:
        """Send the agent a request and wait for its response; see `AgentRuntime.send_message`."""
        return await self._runtime.send_message(
            message,
            self._agent,
            sender=sender,
            cancellation_token=cancellation_token,
            message_id=message_id,
            **options,
        )

    async def save_state(self) -> Mapping[str, Any]:
        """The agent's state, as something that fits into JSON."""
        return await self._runtime.agent_save_state(self._agent)

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Give the agent a state that `save_state` returned."""
        await self._runtime.agent_load_state(self._agent, state)

    def __repr__(self) -> str:
        return f"AgentProxy({self._agent!r})"


PARAMETER = "_state_parameter"


def state_argument(agent_class: type[Any]) -> type[BaseModel] | None:
    """The model that a class names as the argument of its base class; None: it names none.

    Where the argument is a type variable, the class is generic in its state itself: it is remembered for its
    subclasses.

    Raises:
        StateError: The argument is no pydantic model.
    """
    for base in vars(agent_class).get("__orig_bases__", ()):
        argument = _argument(get_origin(base), get_args(base))
        if isinstance(argument, TypeVar):
            setattr(agent_class, PARAMETER, argument)
        elif isinstance(argument, type) and hasattr(argument, "model_validate_json"):
            return argument
        elif argument is not None and argument is not Any:
            reason = f"the argument of its base class has to be a pydantic model, not {argument!r}."
            raise StateError(agent_class.__name__, reason)
    return None


def _argument(base: Any, arguments: tuple[Any, ...]) -> Any:
    """The argument of a base class that stands for the state; None: none does."""
    parameters = getattr(base, "__parameters__", ())
    parameter = getattr(base, PARAMETER, StateT)
    if not hasattr(base, "on_message") or parameter not in parameters:
        return None
    return arguments[parameters.index(parameter)]
