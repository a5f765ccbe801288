"""The base class of chat agents, and what agents and teams have in common: tasks, results, copies for conversations."""

from __future__ import annotations

import copy
import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from types import MethodType
from typing import Any, Final, Never, Protocol, Self, TypeAlias, TypeVar, runtime_checkable

from pydantic import BaseModel, Field

from callboard.code import CodeExecutor
from callboard.core.cancellation import CancellationToken
from callboard.core.protocol import AgentRuntime
from callboard.errors import DeclarationError, MisuseError
from callboard.foundation.component import ComponentBase
from callboard.foundation.tasks import in_thread
from callboard.memory.base import Memory
from callboard.memory.cancelling import cancellable
from callboard.memory.contexts import ChatCompletionContext, Conversation
from callboard.messages.chat import BaseAgentEvent, BaseChatMessage, HandoffMessage, TextMessage
from callboard.messages.events import AnyMessage, ModelClientStreamingChunkEvent
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import RecordedChatCompletionClient
from callboard.tools.base import Tool
from callboard.tools.workbench import Workbench

from .errors import AgentSettingError, NoResponseError, no_response, no_task, not_copied, wrong_name

Task: TypeAlias = str | BaseChatMessage | Sequence[BaseChatMessage] | None
Said: TypeAlias = BaseAgentEvent | BaseChatMessage
OutputT = TypeVar("OutputT", bound=BaseModel)


class TaskResult(BaseModel):
    """Result of a task.

    Attributes:
        messages: Everything that was said, in its order, without the pieces of streamed texts.
        stop_reason: Why it ended; None: nothing says so, as where an agent ran alone.
        output: The last message as an object, of a team with an `output_content_type`. It is not part of the JSON, for it is
            in the message.
    """

    messages: Sequence[AnyMessage]
    stop_reason: str | None = None
    output: BaseModel | None = Field(default=None, exclude=True)

    def output_as(self, kind: type[OutputT]) -> OutputT:
        """The output as an object of this class, so that type checkers know it.

        Args:
            kind: The `output_content_type` of the team.

        Raises:
            DeclarationError: It is none of this class (a TypeError).
        """
        if not isinstance(self.output, kind):
            has = "no output" if self.output is None else f"an output of class {type(self.output).__name__}"
            raise DeclarationError(
                f"the result has {has}, not one of class {kind.__name__}: say "
                f"output_content_type={kind.__name__} where the team is made"
            )
        return self.output


class TaskRunner(Protocol):
    """Runner of tasks: an agent, or a team. It goes on where its last task ended."""

    async def run(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
    ) -> TaskResult:
        """Carry out a task.

        Args:
            task: What to do; None: go on with the last one.
            cancellation_token: Ends it at once.
            output_task_messages: Whether the task is in the result, too.
        """
        ...

    def run_stream(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """Carry out a task; yields what is said as it is said, and at last the TaskResult."""
        ...


def check_arguments(method: str, unknown: Mapping[str, object]) -> None:
    """Refuse arguments that `run` and `run_stream` do not have; those of AG2's `run` are told apart.

    Raises:
        AgentSettingError: There are some (a TypeError).
    """
    for name in unknown:
        advice = (
            f"write {method}(task=...)" if name == "message" else "it takes task, cancellation_token and more"
        )
        raise AgentSettingError(
            f"{method}() has no argument {name!r}: {advice}; AG2's `run(agent, message=...)` is callboard.runs.run"
        )


def task_messages(task: Task) -> list[BaseChatMessage]:
    """A task as messages; a text comes from "user".

    Raises:
        AgentSettingError: It is an empty list, or no task at all (a ValueError).
    """
    if task is None:
        return []
    if isinstance(task, str):
        return [TextMessage(content=task, source="user")]
    if isinstance(task, BaseChatMessage):
        return [task]
    given: object = task
    if not isinstance(given, list | tuple):
        raise no_task(f"A {type(given).__name__} is no task.")
    if not given:
        raise no_task("Task list cannot be empty.")
    for message in given:
        if not isinstance(message, BaseChatMessage):
            raise no_task(f"Invalid message type in sequence: {type(message).__name__}.")
    return list(task)


@dataclass(kw_only=True)
class Response:
    """The answer of an agent.

    Attributes:
        chat_message: What it says.
        inner_messages: What happened on the way.
    """

    chat_message: BaseChatMessage
    inner_messages: Sequence[Said] | None = None


class ChatAgent(ABC, TaskRunner, ComponentBase[BaseModel]):
    """An agent that takes part in a conversation. Derive from `BaseChatAgent`, which has most of this."""

    component_type = "agent"

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name, which no other in a team has."""
        ...

    @property
    @abstractmethod
    def description(self) -> str:
        """Its description, for those that choose who speaks."""
        ...

    @property
    @abstractmethod
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The types of what it says."""
        ...

    @abstractmethod
    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer to what was said since its last answer."""
        ...

    @abstractmethod
    def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """The same; yields what happens on the way, and at last the Response."""
        ...

    @abstractmethod
    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Be as in the beginning."""
        ...

    @abstractmethod
    async def on_pause(self, cancellation_token: CancellationToken) -> None:
        """Called when its team pauses."""
        ...

    @abstractmethod
    async def on_resume(self, cancellation_token: CancellationToken) -> None:
        """Called when its team goes on."""
        ...

    @abstractmethod
    async def save_state(self) -> Mapping[str, Any]:
        """All that it remembers, as plain data."""
        ...

    @abstractmethod
    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        ...

    @abstractmethod
    async def close(self) -> None:
        """Give back what it holds."""
        ...


async def response_of(items: AsyncGenerator[Said | Response, None], name: str) -> Response:
    """The Response at the end of what `on_messages_stream` yields; the rest is left out.

    Args:
        items: The stream; it is closed.
        name: Of the agent.

    Raises:
        NoResponseError: There is none (a RuntimeError).
    """
    async with aclosing(items) as stream:
        async for item in stream:
            if isinstance(item, Response):
                return item
    raise no_response(name)


async def result_of(items: AsyncGenerator[Said | TaskResult, None], name: str) -> TaskResult:
    """The TaskResult of what `run_stream` yields, which is read to its end; the rest is left out.

    Args:
        items: The stream; it is closed.
        name: Of the team.

    Raises:
        NoResultError: There is none (a RuntimeError).
    """
    result: TaskResult | None = None
    async with aclosing(items) as stream:
        async for item in stream:
            if isinstance(item, TaskResult):
                result = item
    if result is None:
        raise NoResponseError(
            f"The team {name!r} ended without a result: its run_stream has to end with a TaskResult."
        )
    return result


class Team(ABC, TaskRunner, ComponentBase[BaseModel]):
    """Several agents who carry out tasks together."""

    component_type = "team"

    @property
    @abstractmethod
    def name(self) -> str:
        """Its name, which no other in a larger team has."""
        ...

    @property
    @abstractmethod
    def description(self) -> str:
        """Its description, for those that choose who speaks."""
        ...

    @abstractmethod
    async def reset(self) -> None:
        """Be as in the beginning, with all members."""
        ...

    @abstractmethod
    async def pause(self) -> None:
        """Let no member begin to speak until `resume`."""
        ...

    @abstractmethod
    async def resume(self) -> None:
        """Go on after `pause`."""
        ...

    @abstractmethod
    async def save_state(self) -> Mapping[str, Any]:
        """All that team and members remember, as plain data."""
        ...

    @abstractmethod
    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned."""
        ...

    def for_conversation(self) -> Self:
        """A team like this one, for another conversation; its members are copied by their own `for_conversation`.

        Raises:
            AgentSettingError: Something in it can't be copied (a TypeError).
        """
        return copy_of(self)


class BaseChatAgent(ChatAgent, ABC):
    """A chat agent: write `on_messages`, `on_reset` and `produced_message_types`, and it takes part in conversations.

    An agent is given what is new since its last answer, and remembers the rest itself. One written for AutoGen works
    unchanged: alone, in a team of this process, or as a member whose process is somewhere else.

    In a team on the bus each conversation has an agent of its own, made by `for_conversation` from this one. What
    `save_state` returns is stored with each of its answers, and loaded where the conversation goes on; what an agent
    remembers beside it lasts as long as its process.

    Args:
        name: A Python identifier, which no other in its team has.
        description: Its description, for those that choose who speaks.

    Raises:
        AgentSettingError: The name is none (a ValueError).
    """

    def __init__(self, name: str, description: str) -> None:
        if not name.isidentifier():
            raise wrong_name(name)
        self._name = name
        self._description = description

    def __getattr__(self, name: str) -> Any:
        # Asked only for what is not there: most of all where a subclass has not called the __init__ of its base.
        if name.startswith("__") or "_name" in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise MisuseError(
            f"{type(self).__name__} has no {name!r} yet: its __init__ has to begin with super().__init__(name, ...)"
        )

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def description(self) -> str:
        """Its description."""
        return self._description

    @property
    @abstractmethod
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The types of what it says."""
        ...

    @abstractmethod
    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer to what was said since its last answer.

        Args:
            messages: What is new; nothing: go on.
            cancellation_token: Ends it; pass it on.
        """
        ...

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """The same; yields what happens on the way, and at last the Response. Here: what `on_messages` returns."""
        response = await self.on_messages(messages, cancellation_token)
        for message in response.inner_messages or ():
            yield message
        yield response

    async def run(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
        **unknown: Never,
    ) -> TaskResult:
        """Carry out a task alone: no team, no server, no worker; see `TaskRunner.run`.

        Raises:
            AgentSettingError: The task is none (a ValueError), or there is no such argument (a TypeError).
        """
        check_arguments("run", unknown)
        given = task_messages(task)
        response = await self.on_messages(given, cancellation_token or CancellationToken())
        said: list[Said] = [*(given if output_task_messages else ()), *(response.inner_messages or ())]
        return TaskResult(messages=[*said, response.chat_message])

    async def run_stream(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
        **unknown: Never,
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """The same; yields what is said as it is said, and at last the TaskResult.

        Raises:
            AgentSettingError: The task is none (a ValueError).
            NoResponseError: `on_messages_stream` ended without a Response (a RuntimeError).
        """
        check_arguments("run_stream", unknown)
        given = task_messages(task)
        said: list[Said] = []
        if output_task_messages:
            for message in given:
                said.append(message)
                yield message
        token = cancellation_token or CancellationToken()
        async with aclosing(self.on_messages_stream(given, token)) as items:
            async for item in items:
                if isinstance(item, Response):
                    yield item.chat_message
                    yield TaskResult(messages=[*said, item.chat_message])
                    return
                yield item
                if not isinstance(item, ModelClientStreamingChunkEvent):
                    said.append(item)
        raise no_response(self.name)

    @abstractmethod
    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Be as in the beginning."""
        ...

    @property
    def hands_over(self) -> bool:
        """Whether it may choose who goes on; one that says a HandoffMessage only where it was handed over to does not."""
        return HandoffMessage in self.produced_message_types

    def on_joined(self, members: Sequence[str]) -> None:
        """Called when a team has taken it in. Does nothing here.

        Args:
            members: The names of all members, its own among them.

        Raises:
            ValueError: It can't work with these.
        """

    async def on_pause(self, cancellation_token: CancellationToken) -> None:
        """Called when its team pauses. Does nothing here."""

    async def on_resume(self, cancellation_token: CancellationToken) -> None:
        """Called when its team goes on. Does nothing here."""

    async def save_state(self) -> Mapping[str, Any]:
        """All that it remembers, as plain data; here: nothing."""
        return {"type": "BaseState", "version": "1.0.0"}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned; here: nothing."""

    async def close(self) -> None:
        """Give back what it holds; here: nothing."""

    def unrecorded_clients(self) -> Sequence[ChatCompletionClient]:
        """Model clients that it asks without a RecordedChatCompletionClient around them.

        What it asks them is counted for no run. A run with a budget of tokens or money refuses such a member. Here: those
        among its attributes.
        """
        found = [value for value in vars(self).values() if isinstance(value, ChatCompletionClient)]
        return [client for client in found if not isinstance(client, RecordedChatCompletionClient)]

    # For teams on the bus, where one agent stands for many conversations

    def for_conversation(self) -> Self:
        """An agent like this one, for another conversation.

        Here: a deep copy, which shares model clients, tools, workbenches, memories and code executors with this one.

        Raises:
            AgentSettingError: Something in it can't be copied (a TypeError).
        """
        return copy_of(self)

    def keep_context_in(self, messages: Conversation) -> None:
        """Keep the messages of its model context in a list that is given; called once, before anything else.

        Where it is a log of the bus, a turn costs the same after 2,000 messages as after 20. An agent without a model
        context, as here, leaves the list alone. One that has a context moves what it begins with into an empty list,
        and takes over a list that is not empty.

        Args:
            messages: The list.
        """

    async def save_beside_context(self) -> Mapping[str, Any] | None:
        """Its state but for the messages that are kept in the list of `keep_context_in`.

        Returns:
            Plain data; None: nothing. Here: all that `save_state` returns.
        """
        return await self.save_state()

    async def load_beside_context(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_beside_context` returned. Here: `load_state`."""
        await self.load_state(state)


T = TypeVar("T")

SHARED: Final = (ChatCompletionClient, Tool, Workbench, Memory, CodeExecutor, AgentRuntime)
"""Classes of objects that conversations share: each belongs to the process, and holds nothing of one conversation."""

DEPTH: Final = 4  # how far down in lists and dictionaries these are looked for


@runtime_checkable
class Conversational(Protocol):
    """Agent or team that has its own way to be copied for another conversation."""

    def for_conversation(self) -> Self:
        """One like this, for another conversation."""
        ...


def twin_of(participant: T) -> T:
    """An agent or team like this one for another conversation: by its own `for_conversation`, else a copy.

    Raises:
        AgentSettingError: Something in it can't be copied (a TypeError).
    """
    return participant.for_conversation() if isinstance(participant, Conversational) else copy_of(participant)


def copy_of(agent: T) -> T:
    """A deep copy of an agent or a team that shares with it what conversations share.

    Agents and teams inside are copied by their own `for_conversation`. Methods of other objects, which it was given as
    functions, stay methods of these.

    Raises:
        AgentSettingError: Something in it can't be copied (a TypeError).
    """
    try:
        memo: dict[int, Any] = dict(_known(agent, vars(agent).values(), DEPTH))
        return copy.deepcopy(agent, memo)
    except AgentSettingError:
        raise
    except Exception as error:
        name = str(getattr(agent, "name", type(agent).__name__))
        raise not_copied(agent, name, f"{type(error).__name__}: {error}") from error


def _known(owner: object, values: Iterable[Any], depth: int) -> Iterator[tuple[int, Any]]:
    """The objects that take the place of others in a copy, by the ids of these."""
    for value in values:
        if isinstance(value, SHARED) or (isinstance(value, MethodType) and value.__self__ is not owner):
            yield id(value), value
        elif isinstance(value, Conversational):
            yield id(value), value.for_conversation()
        elif depth:
            yield from _known(owner, _inside(value), depth - 1)


def _inside(value: Any) -> Iterable[Any]:
    """Objects in a container, or in a model context."""
    if isinstance(value, ChatCompletionContext):
        return vars(value).values()
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple | set | frozenset) else ()


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await; also for partials and objects with ``__call__``."""
    while isinstance(function, functools.partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or (
        not inspect.isroutine(function) and inspect.iscoroutinefunction(type(function).__call__)
    )


async def call(
    function: Callable[..., T] | Callable[..., Awaitable[T]], *args: object, token: CancellationToken | None
) -> T:
    """The result of a function, be it async or not.

    An ordinary one runs in a thread, so that the event loop goes on while it blocks. It can't be stopped from outside: when
    the token is cancelled it is not waited for any more.

    Args:
        function: The function.
        *args: Its arguments.
        token: Ends the wait.

    Raises:
        asyncio.CancelledError: The token was cancelled.
        Exception: Any error of the function.
    """
    return await cancellable(_called(function, *args), token)


def takes_token(function: Callable[..., Any]) -> bool:
    """Whether a function that asks has a second parameter, after the prompt, for a cancellation token.

    That of an async one is for nothing else. That of an ordinary one may be for something else if it has a default.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:  # some builtins don't tell
        return is_async(function)
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return is_async(function)
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 2:
        return False
    second = positional[1]
    return is_async(function) or second.default is second.empty or second.name == "cancellation_token"


async def _called(function: Callable[..., Any], *args: object) -> Any:
    if is_async(function):
        return await function(*args)
    result = await in_thread("callboard-function-of-user", functools.partial(function, *args))
    return await result if inspect.isawaitable(result) else result
