"""What of a conversation a model gets to see, with the names of `autogen_core.model_context`.

Every context keeps the whole conversation and shows a part of it, but for the summarising one, which replaces what is
old. None shows a tool's result without the call that asked for it, nor cuts between the two: servers refuse both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from pydantic import BaseModel, Field

from .exchanges import exchanges, joined
from .llm_errors import ContextSettingError, ContextTooSmallError
from .llm_messages import LLMMessage, SystemMessage, UserMessage


class TokenCounter(Protocol):
    """What a context needs of a model client to know how long messages are."""

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Any] = ()) -> int:
        """Tokens of messages and tools."""
        ...

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Any] = ()) -> int:
        """Tokens that the model's context has left beyond them; negative: they do not fit."""
        ...


class ChatCompletionContextState(BaseModel):
    """What `save_state` keeps.

    Attributes:
        messages: the conversation, oldest first.
    """

    messages: list[LLMMessage] = Field(default_factory=list)


class ChatCompletionContext(ABC):
    """A conversation, and which part of it a model gets to see.

    Args:
        initial_messages: the conversation so far.
    """

    def __init__(self, initial_messages: Sequence[LLMMessage] | None = None) -> None:
        self._messages: list[LLMMessage] = list(initial_messages or ())

    async def add_message(self, message: LLMMessage) -> None:
        """Adds the newest message."""
        self._messages.append(message)

    @abstractmethod
    async def get_messages(self) -> list[LLMMessage]:
        """What the model gets to see, oldest first. A list of its own: changing it changes nothing here."""

    async def clear(self) -> None:
        """Forgets everything, the initial messages included."""
        self._messages = []

    async def save_state(self) -> Mapping[str, Any]:
        """The whole conversation as plain data that fits into JSON."""
        return ChatCompletionContextState(messages=self._messages).model_dump(mode="json")

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Replaces the conversation by one that `save_state` returned.

        Raises:
            ValueError: it is not such a state.
        """
        self._messages = ChatCompletionContextState.model_validate(state).messages


class UnboundedChatCompletionContext(ChatCompletionContext):
    """Shows everything."""

    async def get_messages(self) -> list[LLMMessage]:
        return list(self._messages)


class BufferedChatCompletionContext(ChatCompletionContext):
    """Shows the newest messages.

    Args:
        buffer_size: how many at most; fewer when the oldest of them are results whose calls are cut off.
        initial_messages: the conversation so far.

    Raises:
        ContextSettingError: `buffer_size` is less than 1; it is a ValueError.
    """

    def __init__(self, buffer_size: int, initial_messages: Sequence[LLMMessage] | None = None) -> None:
        super().__init__(initial_messages)
        self._buffer_size = at_least_one("buffer_size", buffer_size)

    async def get_messages(self) -> list[LLMMessage]:
        return _newest(self._messages, self._buffer_size)


class HeadAndTailChatCompletionContext(ChatCompletionContext):
    """Shows the first and the newest messages, and says between them how many are left out.

    Args:
        head_size: how many of the first at most; one less when the last of them is a call whose result is cut off.
        tail_size: how many of the newest at most, as in BufferedChatCompletionContext.
        initial_messages: the conversation so far.

    Raises:
        ContextSettingError: a size is less than 1; it is a ValueError.
    """

    def __init__(
        self, head_size: int, tail_size: int, initial_messages: Sequence[LLMMessage] | None = None
    ) -> None:
        super().__init__(initial_messages)
        self._head_size = at_least_one("head_size", head_size)
        self._tail_size = at_least_one("tail_size", tail_size)

    async def get_messages(self) -> list[LLMMessage]:
        if len(self._messages) <= self._head_size + self._tail_size:
            return list(self._messages)
        head = _oldest(self._messages, self._head_size)
        tail = _newest(self._messages, self._tail_size)
        skipped = len(self._messages) - len(head) - len(tail)
        return [*head, UserMessage(content=f"Skipped {skipped} messages.", source="System"), *tail]


class TokenLimitedChatCompletionContext(ChatCompletionContext):
    """Shows as much as fits, leaving out the middle of the conversation, as AutoGen's does.

    Unlike AutoGen's, it leaves out a call and its results together, always shows the system messages that the
    conversation begins with and the newest exchange, and says so when these alone do not fit.

    Args:
        model_client: counts tokens.
        token_limit: most tokens; None: what the model's context has room for.
        tool_schema: tools that every request will carry; they count.
        initial_messages: the conversation so far.

    Raises:
        ContextSettingError: `token_limit` is less than 1; it is a ValueError.
    """

    def __init__(
        self,
        model_client: TokenCounter,
        *,
        token_limit: int | None = None,
        tool_schema: Sequence[Any] | None = None,
        initial_messages: Sequence[LLMMessage] | None = None,
    ) -> None:
        super().__init__(initial_messages)
        self._model_client = model_client
        self._token_limit = None if token_limit is None else at_least_one("token_limit", token_limit)
        self._tools = tuple(tool_schema or ())

    async def get_messages(self) -> list[LLMMessage]:
        """As much as fits.

        Raises:
            ContextTooSmallError: the newest exchange alone does not fit.
        """
        first, rest = _leading_system_messages(self._messages)
        groups = exchanges(rest)
        everything = [*first, *joined(groups)]
        if not groups or self._excess(everything) <= 0:
            return everything

        def excess(kept: int) -> int:
            return self._excess([*first, *_ends(groups, kept)])

        # What is shown of k groups is a part of what is shown of k + 1, so the right number can be bisected.
        kept = bisect_right(range(1, len(groups)), 0, key=excess)
        if kept == 0:
            needed = self._excess([*first, *_ends(groups, 1)])
            raise ContextTooSmallError(needed)
        return [*first, *_ends(groups, kept)]

    def _excess(self, messages: Sequence[LLMMessage]) -> int:
        """Tokens too many; 0 or less: it fits."""
        if self._token_limit is None:
            return -self._model_client.remaining_tokens(messages, tools=self._tools)
        return self._model_client.count_tokens(messages, tools=self._tools) - self._token_limit


def at_least_one(setting: str, value: int) -> int:
    """The value of a setting that has to be a positive number.

    Raises:
        ContextSettingError: it is not.
    """
    if value < 1:
        raise ContextSettingError(setting, str(value), "at least 1")
    return value


def _newest(messages: Sequence[LLMMessage], number: int) -> list[LLMMessage]:
    """The last messages, without results at their beginning whose calls are not among them."""
    return joined(exchanges(messages[-number:]))


def _oldest(messages: Sequence[LLMMessage], number: int) -> list[LLMMessage]:
    """The first messages, without a call at their end whose result is not among them."""
    groups = exchanges(messages)
    kept: list[LLMMessage] = []
    for group in groups:
        if len(kept) + len(group) > number:
            break
        kept += group
    return kept


def _leading_system_messages(
    messages: Sequence[LLMMessage],
) -> tuple[Sequence[LLMMessage], Sequence[LLMMessage]]:
    """The system messages that a conversation begins with, and the others."""
    number = 0
    while number < len(messages) and isinstance(messages[number], SystemMessage):
        number += 1
    return messages[:number], messages[number:]


def _ends(groups: Sequence[Sequence[LLMMessage]], kept: int) -> list[LLMMessage]:
    """So many groups, half of them from the beginning; of an odd number one more from the end."""
    from_start = kept // 2
    return joined([*groups[:from_start], *groups[len(groups) - (kept - from_start) :]])
