"""Contexts that show everything, or a part chosen by number or by tokens."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, Protocol, Self, runtime_checkable

from callboard.foundation.component import Component, ComponentLoader, dumped
from callboard.memory.errors import ContextTooSmallError
from callboard.memory.llm_messages import LLMMessage, SystemMessage, UserMessage

from .base import ChatCompletionContext, at_least_one
from .config import (
    BufferedChatCompletionContextConfig,
    HeadAndTailChatCompletionContextConfig,
    TokenLimitedChatCompletionContextConfig,
    UnboundedChatCompletionContextConfig,
)
from .conversation import Conversation
from .exchanges import ends, exchanges, joined, newest, oldest


@runtime_checkable
class TokenCounter(Protocol):
    """A counter of tokens; every model client is one."""

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Any] = ()) -> int:
        """Tokens of messages and tools."""
        ...

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Sequence[Any] = ()) -> int:
        """Tokens that the model's context has left beyond them; negative: they do not fit."""
        ...


class UnboundedChatCompletionContext(ChatCompletionContext, Component[UnboundedChatCompletionContextConfig]):
    """A context that shows everything."""

    component_config_schema = UnboundedChatCompletionContextConfig
    component_provider_override = "callboard.memory.contexts.UnboundedChatCompletionContext"

    async def get_messages(self) -> list[LLMMessage]:
        return list(self._messages)

    def _to_config(self) -> UnboundedChatCompletionContextConfig:
        return UnboundedChatCompletionContextConfig(initial_messages=self._initial_messages)

    @classmethod
    def _from_config(cls, config: UnboundedChatCompletionContextConfig) -> Self:
        return cls(config.initial_messages)


class BufferedChatCompletionContext(ChatCompletionContext, Component[BufferedChatCompletionContextConfig]):
    """A context that shows the newest messages.

    Args:
        buffer_size: how many at most; fewer when the oldest of them are results whose calls are cut off.
        initial_messages, messages: see ChatCompletionContext.

    Raises:
        MemorySettingError: `buffer_size` is less than 1; it is a ValueError.
    """

    component_config_schema = BufferedChatCompletionContextConfig
    component_provider_override = "callboard.memory.contexts.BufferedChatCompletionContext"

    def __init__(
        self,
        buffer_size: int,
        initial_messages: Sequence[LLMMessage] | None = None,
        *,
        messages: Conversation | None = None,
    ) -> None:
        super().__init__(initial_messages, messages=messages)
        self._buffer_size = at_least_one("buffer_size", buffer_size)

    async def get_messages(self) -> list[LLMMessage]:
        return newest(self._messages, self._buffer_size)

    def _to_config(self) -> BufferedChatCompletionContextConfig:
        return BufferedChatCompletionContextConfig(
            buffer_size=self._buffer_size, initial_messages=self._initial_messages
        )

    @classmethod
    def _from_config(cls, config: BufferedChatCompletionContextConfig) -> Self:
        return cls(config.buffer_size, config.initial_messages)


class HeadAndTailChatCompletionContext(
    ChatCompletionContext, Component[HeadAndTailChatCompletionContextConfig]
):
    """A context that shows the first and the newest messages, and says between them how many are left out.

    Args:
        head_size: how many of the first at most; one less when the last of them is a call whose result is cut off.
        tail_size: how many of the newest at most, as in BufferedChatCompletionContext.
        initial_messages, messages: see ChatCompletionContext.

    Raises:
        MemorySettingError: a size is less than 1; it is a ValueError.
    """

    component_config_schema = HeadAndTailChatCompletionContextConfig
    component_provider_override = "callboard.memory.contexts.HeadAndTailChatCompletionContext"

    def __init__(
        self,
        head_size: int,
        tail_size: int,
        initial_messages: Sequence[LLMMessage] | None = None,
        *,
        messages: Conversation | None = None,
    ) -> None:
        super().__init__(initial_messages, messages=messages)
        self._head_size = at_least_one("head_size", head_size)
        self._tail_size = at_least_one("tail_size", tail_size)

    async def get_messages(self) -> list[LLMMessage]:
        if len(self._messages) <= self._head_size + self._tail_size:
            return list(self._messages)
        head = oldest(self._messages, self._head_size)
        tail = newest(self._messages, self._tail_size)
        skipped = len(self._messages) - len(head) - len(tail)
        return [*head, UserMessage(content=f"Skipped {skipped} messages.", source="System"), *tail]

    def _to_config(self) -> HeadAndTailChatCompletionContextConfig:
        return HeadAndTailChatCompletionContextConfig(
            head_size=self._head_size, tail_size=self._tail_size, initial_messages=self._initial_messages
        )

    @classmethod
    def _from_config(cls, config: HeadAndTailChatCompletionContextConfig) -> Self:
        return cls(config.head_size, config.tail_size, config.initial_messages)


class TokenLimitedChatCompletionContext(
    ChatCompletionContext, Component[TokenLimitedChatCompletionContextConfig]
):
    """A context that shows as much as fits, leaving out the middle of the conversation, as AutoGen's does.

    Unlike AutoGen's, it leaves out a call and its results together, always shows the system messages that the
    conversation begins with and the newest exchange, and says so when these alone do not fit.

    Args:
        model_client: counts tokens.
        token_limit: most tokens; None: as many as the model's context has room for.
        tool_schema: tools that every request will carry; they count.
        initial_messages, messages: see ChatCompletionContext.

    Raises:
        MemorySettingError: `token_limit` is less than 1; it is a ValueError.
    """

    component_config_schema = TokenLimitedChatCompletionContextConfig
    component_provider_override = "callboard.memory.contexts.TokenLimitedChatCompletionContext"

    def __init__(
        self,
        model_client: TokenCounter,
        *,
        token_limit: int | None = None,
        tool_schema: Sequence[Any] | None = None,
        initial_messages: Sequence[LLMMessage] | None = None,
        messages: Conversation | None = None,
    ) -> None:
        super().__init__(initial_messages, messages=messages)
        self._model_client = model_client
        self._token_limit = None if token_limit is None else at_least_one("token_limit", token_limit)
        self._tools = tuple(tool_schema or ())

    async def get_messages(self) -> list[LLMMessage]:
        """The messages that fit.

        Raises:
            ContextTooSmallError: the newest exchange alone does not fit.
        """
        first = list(takewhile(lambda message: isinstance(message, SystemMessage), self._messages))
        groups = exchanges(self._messages[len(first) :])
        everything = [*first, *joined(groups)]
        if not groups or self._excess(everything) <= 0:
            return everything

        def excess(kept: int) -> int:
            return self._excess([*first, *ends(groups, kept)])

        # All that k groups show, k + 1 groups show as well, so the right number can be bisected.
        kept = bisect_right(range(1, len(groups)), 0, key=excess)
        if kept == 0:
            raise ContextTooSmallError(excess(1))
        return [*first, *ends(groups, kept)]

    def _excess(self, messages: Sequence[LLMMessage]) -> int:
        """Tokens too many; 0 or less: it fits."""
        if self._token_limit is None:
            return -self._model_client.remaining_tokens(messages, tools=self._tools)
        return self._model_client.count_tokens(messages, tools=self._tools) - self._token_limit

    def _to_config(self) -> TokenLimitedChatCompletionContextConfig:
        return TokenLimitedChatCompletionContextConfig(
            model_client=dumped(self._model_client, self),
            token_limit=self._token_limit,
            tool_schema=[dict(getattr(tool, "schema", tool)) for tool in self._tools] or None,
            initial_messages=self._initial_messages,
        )

    @classmethod
    def _from_config(cls, config: TokenLimitedChatCompletionContextConfig) -> Self:
        client = ComponentLoader.load_component(config.model_client, TokenCounter)  # type: ignore[type-abstract]
        return cls(
            client,
            token_limit=config.token_limit,
            tool_schema=config.tool_schema,
            initial_messages=config.initial_messages,
        )
