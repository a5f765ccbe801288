"""The base of model contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, Field

from callboard.foundation.component import ComponentBase
from callboard.memory.errors import MemorySettingError
from callboard.memory.llm_messages import LLMMessage

from .conversation import Conversation


class ChatCompletionContextState(BaseModel):
    """The state of a context, as `save_state` returns it.

    Attributes:
        messages: the conversation, oldest first.
    """

    messages: list[LLMMessage] = Field(default_factory=list)


class Mark(NamedTuple):
    """A place in a conversation to which a context can go back.

    Attributes:
        length: how many messages there were.
        replaced: how often the whole conversation had been replaced.
    """

    length: int
    replaced: int


class ChatCompletionContext(ABC, ComponentBase[BaseModel]):
    """A conversation, and the part of it that a model gets to see.

    Args:
        initial_messages: the conversation so far; it is copied.
        messages: where the conversation is kept, in the place of a list of the context's own: a `Log` of an agent's
            `State` keeps it with every message that the agent handles.

    Raises:
        MemorySettingError: both are given; it is a ValueError.
    """

    component_type = "chat_completion_context"

    def __init__(
        self,
        initial_messages: Sequence[LLMMessage] | None = None,
        *,
        messages: Conversation | None = None,
    ) -> None:
        if initial_messages and messages is not None:
            raise MemorySettingError("initial_messages", "given", "left out where there are `messages`")
        self._initial_messages = list(initial_messages or ()) or None  # for dumps
        self._messages: Conversation = list(initial_messages or ()) if messages is None else messages
        self._replaced = 0  # how often something else was put in the place of the whole conversation

    async def add_message(self, message: LLMMessage) -> None:
        """Add the newest message."""
        self._messages.append(message)

    @abstractmethod
    async def get_messages(self) -> list[LLMMessage]:
        """The messages for the model, oldest first. A list of its own: changing it changes nothing here."""

    async def clear(self) -> None:
        """Forget everything, the initial messages included."""
        self._replace(())

    async def save_state(self) -> Mapping[str, Any]:
        """The whole conversation as plain data that fits into JSON."""
        return ChatCompletionContextState(messages=list(self._messages)).model_dump(mode="json")

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Replace the conversation by one that `save_state` returned.

        Raises:
            ValueError: it is not such a state.
        """
        self._replace(ChatCompletionContextState.model_validate(state).messages)

    # For agents: turns that fail, and conversations that are kept elsewhere

    def mark(self) -> Mark:
        """Where the conversation is now, for `go_back`."""
        return Mark(len(self._messages), self._replaced)

    def go_back(self, mark: Mark, *, added: int) -> bool:
        """Take back the messages that were added since a mark.

        Args:
            mark: from `mark`.
            added: how many they are.

        Returns:
            False, and nothing has changed, where there is something else than these in the place of what there was: a
            summary, for example.
        """
        if mark.replaced != self._replaced or len(self._messages) != mark.length + added:
            return False
        for _ in range(added):
            self._messages.pop()
        return True

    def keep_in(self, messages: Conversation) -> None:
        """Keep the conversation in another list from now on.

        Args:
            messages: an empty list gets the conversation so far; one that is not empty is the conversation.
        """
        if not len(messages):
            messages.extend(list(self._messages))
        self._messages = messages

    @property
    def is_only_messages(self) -> bool:
        """Whether its messages are all that it has to save: no subclass writes anything else into its state."""
        cls = type(self)
        return (
            cls.save_state is ChatCompletionContext.save_state
            and cls.load_state is ChatCompletionContext.load_state
        )

    def _replace(self, messages: Sequence[LLMMessage]) -> None:
        self._replaced += 1
        self._messages.clear()
        self._messages.extend(messages)


def at_least_one(setting: str, value: int) -> int:
    """The value of a setting that has to be a positive number.

    Raises:
        MemorySettingError: it is not.
    """
    if value < 1:
        raise MemorySettingError(setting, str(value), "at least 1")
    return value
