"""The base of model contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, Field

from callboard.memory.errors import MemorySettingError
from callboard.memory.llm_messages import LLMMessage


class ChatCompletionContextState(BaseModel):
    """The state of a context, as `save_state` returns it.

    Attributes:
        messages: the conversation, oldest first.
    """

    messages: list[LLMMessage] = Field(default_factory=list)


class ChatCompletionContext(ABC):
    """A conversation, and the part of it that a model gets to see.

    Args:
        initial_messages: the conversation so far.
    """

    def __init__(self, initial_messages: Sequence[LLMMessage] | None = None) -> None:
        self._messages: list[LLMMessage] = list(initial_messages or ())

    async def add_message(self, message: LLMMessage) -> None:
        """Add the newest message."""
        self._messages.append(message)

    @abstractmethod
    async def get_messages(self) -> list[LLMMessage]:
        """The messages for the model, oldest first. A list of its own: changing it changes nothing here."""

    async def clear(self) -> None:
        """Forget everything, the initial messages included."""
        self._messages = []

    async def save_state(self) -> Mapping[str, Any]:
        """The whole conversation as plain data that fits into JSON."""
        return ChatCompletionContextState(messages=self._messages).model_dump(mode="json")

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Replace the conversation by one that `save_state` returned.

        Raises:
            ValueError: it is not such a state.
        """
        self._messages = ChatCompletionContextState.model_validate(state).messages


def at_least_one(setting: str, value: int) -> int:
    """The value of a setting that has to be a positive number.

    Raises:
        MemorySettingError: it is not.
    """
    if value < 1:
        raise MemorySettingError(setting, str(value), "at least 1")
    return value
