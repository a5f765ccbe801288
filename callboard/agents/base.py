"""The base class of chat agents."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Self

from callboard.cancellation import CancellationToken
from callboard.memory.contexts.conversation import Conversation
from callboard.messages.base import BaseChatMessage
from callboard.messages.events import ModelClientStreamingChunkEvent
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import RecordedChatCompletionClient

from .chat_agent import ChatAgent, Response
from .copying import copy_of
from .errors import AgentNameError, NoResponseError
from .task import Said, Task, TaskResult, task_messages


class BaseChatAgent(ChatAgent, ABC):
    """A chat agent: write `on_messages`, `on_reset` and `produced_message_types`, and it takes part in conversations.

    An agent is given what is new since its last answer, and remembers the rest itself. One written for AutoGen works
    unchanged: alone, in a team of this process, or as a member whose process is somewhere else.

    In a team on the bus each conversation has an agent of its own, made by `for_conversation` from this one. What
    `save_state` returns is stored with each of its answers, and loaded where the conversation goes on; what an agent
    remembers beside it lasts as long as its process.

    Args:
        name: A Python identifier, which nobody else in its team has.
        description: What it can do, for those who choose who speaks.

    Raises:
        AgentNameError: The name is none (a ValueError).
    """

    def __init__(self, name: str, description: str) -> None:
        if not name.isidentifier():
            raise AgentNameError(name)
        self._name = name
        self._description = description

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def description(self) -> str:
        """What it can do."""
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
    ) -> TaskResult:
        """Carry out a task alone: no team, no server, no worker; see `TaskRunner.run`.

        Raises:
            TaskError: The task is none (a ValueError).
        """
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
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """The same; yields what is said as it is said, and at last the TaskResult.

        Raises:
            TaskError: The task is none (a ValueError).
            NoResponseError: `on_messages_stream` ended without a Response (a RuntimeError).
        """
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
        raise NoResponseError(self.name)

    @abstractmethod
    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Be as in the beginning."""
        ...

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
            ConversationError: Something in it can't be copied (a TypeError).
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
        """What `save_state` returns but for the messages that are kept in the list of `keep_context_in`.

        Returns:
            Plain data; None: nothing. Here: all that `save_state` returns.
        """
        return await self.save_state()

    async def load_beside_context(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_beside_context` returned. Here: `load_state`."""
        await self.load_state(state)
