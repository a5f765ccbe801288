"""Going on with an earlier group chat as a team: its messages as the state of one, in whatever processes its members are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from callboard.teams.saving import VERSION, MemberState, Own

from .agent import Agent, Message
from .histories import kept_message
from .leader import Leader
from .membership import Membership
from .message import ConversationMessage


def message_of(message: Message) -> ConversationMessage:
    """A message of a group chat as a chat message."""
    return ConversationMessage(data=dict(message), source=message["name"])


def team_state(
    manager: Leader, messages: Sequence[Message], before: Mapping[str, Any], rounds: int
) -> dict[str, Any]:
    """The state of a team in which this was said, and everybody has heard it.

    Args:
        manager: Whose group it is.
        messages: What was said.
        before: What a manager's `save_state` returned, for context variables and cost; {}: nothing.
        rounds: How many rounds the run has had.
    """
    members = manager.groupchat.agents
    names = {agent.name for agent in members}
    own = Own(
        # Who is no ConversableAgent hears it all before its first turn.
        heard={agent.name: len(messages) for agent in members if isinstance(agent, Membership)},
        by=[message["name"] if message["name"] in names else "" for message in messages],
        is_said=[True] * len(messages),
        round_start=len(messages),
        termination={"terminated": False, "rounds": rounds},
    )
    states: dict[str, Any] = {
        agent.name: MemberState(agent_state=_agent_state(agent, messages, before)).model_dump()
        for agent in members
    }
    states[manager.name] = {
        "type": "ThreadManagerState",
        "version": VERSION,
        "message_thread": [message_of(message).dump() for message in messages],
        "current_turn": 0,
        # A pattern goes on by its rule, with the variables that its agents shared.
        **({"has_begun": True, "base_variables": _variables(manager.name, before)} if before else {}),
        "callboard": own.model_dump(mode="json"),
    }
    return {"type": "TeamState", "version": VERSION, "agent_states": states}


def _agent_state(agent: Agent, messages: Sequence[Message], before: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(agent, Membership):
        return {}
    heard = [
        kept_message(message, "assistant" if message["name"] == agent.name else "user", message["name"])
        for message in messages
    ]
    return {
        "type": "ConversableAgentState",
        "version": VERSION,
        "messages": [message for message in heard if message is not None],
        "context_variables": _variables(agent.name, before),
        "usage": deepcopy(before.get("usage", {}).get(agent.name, {})),
        "introduced": True,
    }


def _variables(name: str, before: Mapping[str, Any]) -> dict[str, Any]:
    variables: dict[str, Any] = deepcopy(before.get("context_variables", {}).get(name, {}))
    return variables
