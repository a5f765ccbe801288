"""Exchanges: messages of a conversation that belong together, a model's calls and their results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from callboard.memory.llm_messages import AssistantMessage, FunctionExecutionResultMessage, LLMMessage

from .conversation import Conversation


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
