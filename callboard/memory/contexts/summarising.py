"""The context that replaces old messages by a summary."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, Protocol, Self, runtime_checkable

from callboard.foundation.component import Component, ComponentLoader, dumped
from callboard.memory.errors import MemorySettingError, SummaryError
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResultMessage,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from .base import ChatCompletionContext, at_least_one
from .config import SummarisingChatCompletionContextConfig
from .conversation import Conversation
from .exchanges import exchanges, joined

PROMPT: Final = (
    "Summarise the conversation below for somebody who has to go on with it. Keep facts, names, numbers, decisions, "
    "open questions and what everybody still has to do. Leave out pleasantries. Answer with the summary only."
)
SOURCE: Final = "summary"
HEADING: Final = "Summary of the conversation so far:\n"


class Answer(Protocol):
    """The answer of a model, as far as a summary needs it."""

    @property
    def content(self) -> str | list[FunctionCall]: ...


@runtime_checkable
class Summariser(Protocol):
    """A model client, as far as a summary needs it."""

    async def create(self, messages: Sequence[LLMMessage]) -> Answer: ...


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
        MemorySettingError: `keep` is less than 1 or not less than `max_messages`; it is a ValueError.
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
            raise MemorySettingError("max_messages", str(max_messages), f"more than keep={keep}")
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
