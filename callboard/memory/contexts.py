"""Model contexts: a conversation, and the part of it that a model gets to see."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any, Final, NamedTuple, Protocol, Self, overload, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from callboard.foundation.component import Component, ComponentBase, ComponentLoader, ComponentModel, dumped

from .errors import ContextTooSmallError, SummaryError, setting_error
from .llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

__all__ = [
    "BufferedChatCompletionContext",
    "ChatCompletionContext",
    "ChatCompletionContextState",
    "Conversation",
    "HeadAndTailChatCompletionContext",
    "SummarisingChatCompletionContext",
    "TokenLimitedChatCompletionContext",
    "UnboundedChatCompletionContext",
]


class Conversation(Protocol):
    """A list of messages, or a `callboard.Log` of them in an agent's state."""

    def append(self, message: LLMMessage, /) -> None: ...

    def extend(self, messages: Iterable[LLMMessage], /) -> None: ...

    def clear(self) -> None: ...

    def pop(self) -> LLMMessage: ...

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[LLMMessage]: ...

    @overload
    def __getitem__(self, index: int, /) -> LLMMessage: ...

    @overload
    def __getitem__(self, index: slice, /) -> list[LLMMessage]: ...


def exchanges(messages: Iterable[LLMMessage]) -> list[list[LLMMessage]]:
    """Messages in groups: calls with their results, and every other message by itself.

    Results of which the call is missing are left out: no server accepts them. A call without a result stays, for the
    result may not be there yet.
    """
    groups: list[list[LLMMessage]] = []
    for message in messages:
        if not isinstance(message, FunctionExecutionResultMessage):
            groups.append([message])
        elif groups and _asks(groups[-1][0]):
            groups[-1].append(message)
    return groups


def joined(groups: Iterable[Sequence[LLMMessage]]) -> list[LLMMessage]:
    """The messages of groups, in their order."""
    return [message for group in groups for message in group]


def newest(messages: Conversation, number: int) -> list[LLMMessage]:
    """The last messages, without results at their beginning whose calls are not among them."""
    return joined(exchanges(messages[-number:]))


def oldest(messages: Conversation, number: int) -> list[LLMMessage]:
    """The first messages, without a call at their end whose result is not among them."""
    kept: list[LLMMessage] = []
    # One more than are kept: it may be the result of the last of them. The rest is not looked at, however long it is.
    for group in exchanges(islice(messages, number + 1)):
        if len(kept) + len(group) > number:
            break
        kept += group
    return kept


def ends(groups: Sequence[Sequence[LLMMessage]], kept: int) -> list[LLMMessage]:
    """The messages of `kept` groups, half of them from the beginning; of an odd number one more from the end."""
    from_start = kept // 2
    return joined([*groups[:from_start], *groups[len(groups) - (kept - from_start) :]])


def _asks(message: LLMMessage) -> bool:
    """Whether a message asks for calls."""
    return isinstance(message, AssistantMessage) and not isinstance(message.content, str)


class ChatCompletionContextState(BaseModel):
    """The state of a context, as `save_state` returns it.

    Attributes:
        messages: the conversation, oldest first.
    """

    messages: list[LLMMessage] = Field(default_factory=list)


class ContextMark(NamedTuple):
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
        MemoryValueError: both are given; it is a ValueError.
    """

    component_type = "chat_completion_context"

    def __init__(
        self,
        initial_messages: Sequence[LLMMessage] | None = None,
        *,
        messages: Conversation | None = None,
    ) -> None:
        if initial_messages and messages is not None:
            raise setting_error("initial_messages", "given", "left out where there are `messages`")
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

    def mark(self) -> ContextMark:
        """Where the conversation is now, for `go_back`."""
        return ContextMark(len(self._messages), self._replaced)

    def go_back(self, mark: ContextMark, *, added: int) -> bool:
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
        MemoryValueError: it is not.
    """
    if value < 1:
        raise setting_error(setting, str(value), "at least 1")
    return value


class ChatCompletionContextConfig(BaseModel):
    """A context as plain data.

    What was said since is its state, see `save_state`, and where it is kept is a matter of the program: neither is here.

    Attributes:
        initial_messages: the conversation that it begins with.
    """

    model_config = ConfigDict(protected_namespaces=())

    initial_messages: list[LLMMessage] | None = None


class UnboundedChatCompletionContextConfig(ChatCompletionContextConfig):
    """An UnboundedChatCompletionContext as plain data."""


class BufferedChatCompletionContextConfig(ChatCompletionContextConfig):
    """A BufferedChatCompletionContext as plain data; the field is its argument."""

    buffer_size: int


class HeadAndTailChatCompletionContextConfig(ChatCompletionContextConfig):
    """A HeadAndTailChatCompletionContext as plain data; the fields are its arguments."""

    head_size: int
    tail_size: int


class TokenLimitedChatCompletionContextConfig(ChatCompletionContextConfig):
    """A TokenLimitedChatCompletionContext as plain data; the fields are its arguments."""

    model_client: ComponentModel
    token_limit: int | None = None
    tool_schema: list[dict[str, Any]] | None = None


class SummarisingChatCompletionContextConfig(ChatCompletionContextConfig):
    """A SummarisingChatCompletionContext as plain data; the fields are its arguments."""

    model_client: ComponentModel
    max_messages: int = 40
    keep: int = 10
    prompt: str | None = None


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
        MemoryValueError: `buffer_size` is less than 1; it is a ValueError.
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
        MemoryValueError: a size is less than 1; it is a ValueError.
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
        MemoryValueError: `token_limit` is less than 1; it is a ValueError.
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


PROMPT: Final = (
    "Summarise the conversation below for somebody who has to go on with it. Keep facts, names, numbers, decisions, "
    "open questions and what everybody still has to do. Leave out pleasantries. Answer with the summary only."
)
SOURCE: Final = "summary"
HEADING: Final = "Summary of the conversation so far:\n"


class SummaryAnswer(Protocol):
    """The answer of a model, as far as a summary needs it."""

    @property
    def content(self) -> str | list[FunctionCall]: ...


@runtime_checkable
class Summariser(Protocol):
    """A model client, as far as a summary needs it."""

    async def create(self, messages: Sequence[LLMMessage]) -> SummaryAnswer: ...


class SummarisingChatCompletionContext(
    ChatCompletionContext, Component[SummarisingChatCompletionContextConfig]
):
    """A context that shows a summary of the old messages, made by a model, and the new ones.

    When the conversation has more than `max_messages`, all but about the newest `keep` become one message, which later
    summaries take up again. So the conversation stays bounded. A call and its
    results stay together.

    Attributes:
        model_client: makes the summaries. An assistant has it record its answers.

    Args:
        model_client: makes the summaries.
        max_messages: how many messages there may be before the old ones are summarised.
        keep: how many of the newest stay as they are.
        prompt: the instruction for the model.
        initial_messages, messages: see ChatCompletionContext.

    Raises:
        MemoryValueError: `keep` is less than 1 or not less than `max_messages`; it is a ValueError.
    """

    component_config_schema = SummarisingChatCompletionContextConfig
    component_provider_override = "callboard.memory.contexts.SummarisingChatCompletionContext"

    def __init__(
        self,
        model_client: Summariser,
        *,
        max_messages: int = 40,
        keep: int = 10,
        prompt: str = PROMPT,
        initial_messages: Sequence[LLMMessage] | None = None,
        messages: Conversation | None = None,
    ) -> None:
        super().__init__(initial_messages, messages=messages)
        self.model_client = model_client
        self._keep = at_least_one("keep", keep)
        if max_messages <= keep:
            raise setting_error("max_messages", str(max_messages), f"more than keep={keep}")
        self._max_messages = max_messages
        self._prompt = prompt
        self._summarising = asyncio.Lock()

    async def get_messages(self) -> list[LLMMessage]:
        """The summary, if there is one, and the messages after it.

        Raises:
            SummaryError: the model answered with calls or with nothing; the conversation is as it was.
        """
        # Two callers at once: without the lock both would ask the model, and the second summary would be one of messages
        # that the first one has replaced already.
        async with self._summarising:
            if len(self._messages) > self._max_messages:
                await self._summarise()
        return list(self._messages)

    async def _summarise(self) -> None:
        seen, replaced = self._messages[:], self._replaced
        new: list[LLMMessage] = []
        groups = exchanges(seen)
        while groups and (not new or len(new) + len(groups[-1]) <= self._keep):
            new = [*groups.pop(), *new]
        old = joined(groups)
        if all(_is_summary(message) for message in old):
            return  # the newest exchange is longer than the limit by itself
        text = "\n\n".join(map(_line, old))
        answer = await self.model_client.create(
            [SystemMessage(content=self._prompt), UserMessage(content=text, source=SOURCE)]
        )
        if not isinstance(answer.content, str) or not answer.content.strip():
            raise SummaryError(len(old))
        # While the model answered, `clear` or `load_state` may have put another conversation in place: then the summary is
        # of one that is gone. What `add_message` added meanwhile stays, behind the summary.
        if self._replaced == replaced:
            summary = UserMessage(content=HEADING + answer.content.strip(), source=SOURCE)
            self._replace([summary, *new, *self._messages[len(seen) :]])

    def _to_config(self) -> SummarisingChatCompletionContextConfig:
        return SummarisingChatCompletionContextConfig(
            model_client=dumped(self.model_client, self),
            max_messages=self._max_messages,
            keep=self._keep,
            prompt=self._prompt,
            initial_messages=self._initial_messages,
        )

    @classmethod
    def _from_config(cls, config: SummarisingChatCompletionContextConfig) -> Self:
        client = ComponentLoader.load_component(config.model_client, Summariser)  # type: ignore[type-abstract]
        return cls(
            client,
            max_messages=config.max_messages,
            keep=config.keep,
            prompt=config.prompt or PROMPT,
            initial_messages=config.initial_messages,
        )


def _is_summary(message: LLMMessage) -> bool:
    return (
        isinstance(message, UserMessage)
        and message.source == SOURCE
        and isinstance(message.content, str)
        and message.content.startswith(HEADING)
    )


def _line(message: LLMMessage) -> str:
    """One message as a line of a transcript."""
    if isinstance(message, SystemMessage):
        return f"System: {message.content}"
    if isinstance(message, FunctionExecutionResultMessage):
        return "\n".join(f"Result of {result.name}: {result.content}" for result in message.content)
    if isinstance(message, AssistantMessage) and not isinstance(message.content, str):
        calls = ", ".join(f"{call.name}({call.arguments})" for call in message.content)
        return f"{message.source} calls {calls}"
    parts = [message.content] if isinstance(message.content, str) else message.content
    return f"{message.source}: {' '.join(part if isinstance(part, str) else '[image]' for part in parts)}"
