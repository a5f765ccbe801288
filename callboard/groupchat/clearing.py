"""Clearing what a group remembers in this process."""

from __future__ import annotations

from .agent import Agent, Message
from .cleared import forget, read_order
from .content import text_of
from .conversable import ConversableAgent
from .group_chat import GroupChat


def clear_by_words(reply: Message, chat: GroupChat) -> str:
    """Clear histories as a message says, and return its text without that; see `GroupChatManager.clear_agents_history`."""
    order = read_order(reply, chat.agent_names)
    if order is None:
        return text_of(reply.get("content"))
    if order.agent is None:
        forget(chat.messages, order.keep)
    for agent in chat.agents:
        if order.agent in (None, agent.name):
            _forget(agent, order.keep)
    return order.text


def _forget(agent: Agent, keep: int) -> None:
    if isinstance(agent, ConversableAgent):
        agent.clear_history(nr_messages_to_preserve=keep)
