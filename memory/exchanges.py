"""Which messages of a conversation belong together: a model's calls and what came of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .llm_messages import AssistantMessage, FunctionExecutionResultMessage, LLMMessage


def exchanges(messages: Sequence[LLMMessage]) -> list[list[LLMMessage]]:
    """Groups messages: calls with their results, and every other message by itself.

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


def _asks(message: LLMMessage) -> bool:
    """Whether a message asks for calls."""
    return isinstance(message, AssistantMessage) and not isinstance(message.content, str)
