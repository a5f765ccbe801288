"""Who may speak next, and by which method one of them is chosen."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from callboard.agents.chat_agent import ChatAgent

from .agent import Agent, functions_of
from .errors import NoEligibleSpeakerError, SpeakerSelectionError
from .group import Group
from .policies import SelectionContext, eligible
from .waiting import value_of

log = logging.getLogger(__name__)

METHODS: Final = ("auto", "manual", "random", "round_robin")


@dataclass(frozen=True)
class Candidates:
    """Who may speak next.

    Attributes:
        agents: One or more agents of the group.
        method: How one of them is chosen; "": there is just one.
    """

    agents: list[Agent]
    method: str = ""


async def candidates(chat: Group, last_speaker: Agent) -> Candidates:
    """Who may speak after somebody, by the function that the user wrote and the rules of the group chat.

    Raises:
        NoEligibleSpeakerError: Nobody may.
        SpeakerSelectionError: The group chat is set up in a way that can't work (a ValueError).
    """
    chosen = await _by_function(chat, last_speaker)
    if isinstance(chosen, ChatAgent):
        return Candidates([chosen])
    method = str(chosen).lower()
    if method not in METHODS:
        raise SpeakerSelectionError(
            f"speaker_selection_method is {chosen!r}; it can be one of {list(METHODS)}."
        )
    repeats = chat.allow_repeat_speaker
    may_repeat = repeats if repeats is None or isinstance(repeats, bool) else last_speaker in repeats
    _check_size(chat.agents, method, may_repeat)
    left = _able(chat) if chat.func_call_filter else list(chat.agents)
    if may_repeat is False:
        left = [agent for agent in left if agent is not last_speaker]
    left = _policed(chat, _following(chat, left, last_speaker), last_speaker)
    return Candidates(left) if len(left) == 1 else Candidates(left, method)


async def _by_function(chat: Group, last_speaker: Agent) -> Any:
    """The agent or method that a function chooses, else the method."""
    method = chat.speaker_selection_method
    if not callable(method):
        return method
    chosen = await value_of(method(last_speaker, chat))
    if chosen is None:
        raise NoEligibleSpeakerError("The speaker selection function chose nobody.")
    if isinstance(chosen, ChatAgent) and chosen not in chat.agents:
        raise SpeakerSelectionError(
            f"The speaker selection function chose {chosen.name!r}, who is not in the group chat."
        )
    if not isinstance(chosen, ChatAgent | str):
        raise SpeakerSelectionError(
            f"The speaker selection function returned a {type(chosen).__name__}; "
            "it can be an agent, the name of a method, or None."
        )
    return chosen


def _check_size(agents: Sequence[Agent], method: str, may_repeat: bool | None) -> None:
    if len(agents) < 2:
        raise SpeakerSelectionError(
            f"The group chat is underpopulated with {len(agents)} agents: it needs two. Let them talk directly instead."
        )
    if len(agents) == 2 and method != "round_robin" and may_repeat:
        log.warning(
            "a group chat of 2 agents is underpopulated: consider round_robin or allow_repeat_speaker=False, "
            "unless somebody is meant to speak twice in a row"
        )


def _able(chat: Group) -> list[Agent]:
    """Where the last message calls functions, those who can execute them, else those who can execute any."""
    last = chat.messages[-1] if chat.messages else {}
    if "function_call" not in last and "tool_calls" not in last:
        return list(chat.agents)
    names = _called(last)
    able = [agent for agent in chat.agents if set(names) <= set(functions_of(agent))]
    able = able or [agent for agent in chat.agents if functions_of(agent)]
    if not able:
        raise SpeakerSelectionError(
            f"No agent can execute {', '.join(names)}. Please check the function_map of the agents."
        )
    return able


def _called(message: dict[str, Any]) -> list[str]:
    """The names of the functions that a message calls."""
    call = message.get("function_call")
    names = [str(call["name"])] if call else []
    calls = message.get("tool_calls") or ()
    return [*names, *(str(call["function"]["name"]) for call in calls if call["type"] == "function")]


def _following(chat: Group, agents: list[Agent], last_speaker: Agent) -> list[Agent]:
    """Those of them who may speak after somebody. An empty list of transitions is the end, as a missing one is."""
    if last_speaker not in chat.agents:
        return agents
    follow = chat.allowed_speaker_transitions_dict.get(last_speaker, [])
    left = [agent for agent in agents if agent in follow]
    if not left:
        raise NoEligibleSpeakerError(f"Nobody may speak after {last_speaker.name!r}.")
    return left


def _policed(chat: Group, agents: list[Agent], last_speaker: Agent) -> list[Agent]:
    if not chat.eligibility_policies:
        return agents
    context = SelectionContext(len(chat.messages), last_speaker.name, tuple(chat.agent_names))
    return eligible(agents, chat.eligibility_policies, context)
