"""Clearing what a group remembers."""

from __future__ import annotations

from typing import Final

from .agent import Agent, Message
from .content import text_of
from .conversable import ConversableAgent
from .errors import ClearHistoryError
from .events import ClearAgentsHistoryEvent, HistoryNotClearedEvent
from .group_chat import GroupChat
from .history_commands import ClearHistory, read_clear_history
from .stream import IOStream

KEPT_WITH_RESPONSES: Final = 1  # the message with the calls, which has to stand before their results


def clear_by_words(reply: Message, chat: GroupChat) -> str:
    """Clear histories as a message says, and return its text without that; see `GroupChatManager.clear_agents_history`."""
    text = text_of(reply.get("content"))
    try:
        command = read_clear_history(text, chat.agent_names)
    except ClearHistoryError as error:
        IOStream.get_default().send(HistoryNotClearedEvent(str(error)))
        return text
    if command is None:
        return text
    keep = command.keep or (KEPT_WITH_RESPONSES if "tool_responses" in reply else 0)
    IOStream.get_default().send(ClearAgentsHistoryEvent(command.agent, keep or None))
    _clear(chat, command, keep)
    return command.text


def _clear(chat: GroupChat, command: ClearHistory, keep: int) -> None:
    if command.agent is None:
        del chat.messages[: max(0, len(chat.messages) - keep)]
    for agent in chat.agents:
        if command.agent in (None, agent.name):
            _forget(agent, keep)


def _forget(agent: Agent, keep: int) -> None:
    if isinstance(agent, ConversableAgent):
        agent.clear_history(nr_messages_to_preserve=keep)
