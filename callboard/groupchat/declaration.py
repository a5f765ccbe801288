"""What a group chat may be declared as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from .agent import Agent, check_agents, names_of
from .errors import GroupChatDeclarationError
from .group import Group
from .policies import AgentEligibilityPolicy
from .transforms import TransformMessages
from .transitions import Graph, check_graph, full_graph, warn_of_oddities, without

ALLOWED: Final = "allowed"
DISALLOWED: Final = "disallowed"
NEEDED: Final = (
    "select_speaker_message_template",
    "role_for_select_speaker_messages",
    "select_speaker_auto_multiple_template",
    "select_speaker_auto_none_template",
)


def check(chat: Group) -> None:
    """Refuse a group chat that can't be.

    Raises:
        GroupChatDeclarationError: What is wrong (a ValueError).
    """
    check_agents(chat.agents)
    _check_names(chat.agents)
    _check_transition_arguments(chat)
    for field in NEEDED:
        if not getattr(chat, field):
            raise GroupChatDeclarationError(f"{field} cannot be empty or None.")
    _check_retries(chat.max_retries_for_selecting_speaker)
    _check_type(chat, "select_speaker_auto_verbose", bool)
    if chat.select_speaker_transform_messages is not None:
        _check_type(chat, "select_speaker_transform_messages", TransformMessages)
    for policy in chat.eligibility_policies:
        if not isinstance(policy, AgentEligibilityPolicy):
            raise GroupChatDeclarationError(
                f"{type(policy).__name__} in eligibility_policies has no is_eligible."
            )


def graph_of(chat: Group) -> Graph:
    """Who may speak after whom in a group chat that was checked.

    Raises:
        TransitionError: Somebody is named who is not in the group (a ValueError).
    """
    given, repeats = chat.allowed_or_disallowed_speaker_transitions, chat.allow_repeat_speaker
    if given is None:
        repeating = repeats if isinstance(repeats, list) else chat.agents if repeats else []
        graph = full_graph(chat.agents, repeating)
    elif chat.speaker_transitions_type == ALLOWED:
        check_graph(given, chat.agents)
        graph = {agent: list(others) for agent, others in given.items()}
    else:
        graph = without(given, chat.agents)
    warn_of_oddities(graph, chat.agents)
    return graph


def _check_names(agents: Sequence[Agent]) -> None:
    names = names_of(agents)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise GroupChatDeclarationError(f"Agents of a group chat need unique names; given twice: {twice}.")


def _check_transition_arguments(chat: Group) -> None:
    repeats, transitions = chat.allow_repeat_speaker, chat.allowed_or_disallowed_speaker_transitions
    if repeats is not None and not isinstance(repeats, bool | list):
        raise GroupChatDeclarationError("allow_repeat_speaker must be a bool, or a list of agents.")
    if chat.speaker_transitions_type not in (ALLOWED, DISALLOWED, None):
        raise GroupChatDeclarationError(
            f"speaker_transitions_type is {chat.speaker_transitions_type!r}; it can be 'allowed' or 'disallowed'."
        )
    if transitions is not None and repeats is not None:
        raise GroupChatDeclarationError(
            "allowed_or_disallowed_speaker_transitions and allow_repeat_speaker exclude each other."
        )
    if transitions is not None and chat.speaker_transitions_type is None:
        raise GroupChatDeclarationError(
            "speaker_transitions_type is needed with allowed_or_disallowed_speaker_transitions."
        )


def _check_retries(retries: Any) -> None:
    if not isinstance(retries, int) or isinstance(retries, bool):
        raise GroupChatDeclarationError("max_retries_for_selecting_speaker must be an integer.")
    if retries < 0:
        raise GroupChatDeclarationError("max_retries_for_selecting_speaker must not be negative.")


def _check_type(chat: Group, field: str, expected: type) -> None:
    if not isinstance(getattr(chat, field), expected):
        raise GroupChatDeclarationError(f"{field} must be a {expected.__name__}.")
