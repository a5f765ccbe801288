"""Transitions between the members of a group, policies of who may speak, and the texts for a model that chooses."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from callboard.agents.base import ChatAgent

from .errors import GroupChatDeclarationError, NoEligibleSpeakerError
from .messages import Agent, names_of

MESSAGE: Final = (
    "This is a role play game with the following roles:\n{roles}\n\n"
    "Read the conversation below, and select from {agentlist} the role that plays next. Return the name of the role, "
    "and nothing else."
)
PROMPT: Final = (
    "Read the conversation above, and select from {agentlist} the role that plays next. Return the name of the role, "
    "and nothing else."
)
_RULES: Final = """\
1. Where the text speaks of itself as a speaker, such as "As the...", it is that speaker.
2. Where it names the "next" speaker, it is that one.
3. Else it is the speaker who is named first."""
MULTIPLE: Final = f"""\
Your answer names more than one speaker, and one is needed. These rules say which, the first that fits:
{_RULES}
Upper and lower case matter, and names are not shortened or changed.
Answer with the name of the speaker, without a reason."""
NONE: Final = f"""\
Your answer names no speaker. These rules say which it is, the first that fits:
{_RULES}
Upper and lower case matter, and names are not shortened or changed. The names that count are {{agentlist}}.
Answer with the name of the speaker, without a reason."""
INTRODUCTION: Final = "Hello, everybody. These are the members of this group, and what each of them does:"

log = logging.getLogger(__name__)

Graph = dict[Agent, list[Agent]]


def full_graph(agents: Sequence[Agent], repeats: Sequence[Agent]) -> Graph:
    """Let every agent speak after every other one.

    Args:
        agents: The group.
        repeats: Who may speak twice in a row.
    """
    graph = {agent: [other for other in agents if other is not agent] for agent in agents}
    for agent in repeats:
        _check_key(agent, agents)
        graph[agent].append(agent)
    return graph


def without(disallowed: Mapping[Agent, Sequence[Agent]], agents: Sequence[Agent]) -> Graph:
    """Let every agent speak after every agent, but for what is disallowed.

    Raises:
        GroupChatDeclarationError: An agent that is not of the group is named (a ValueError and a KeyError).
    """
    check_graph(disallowed, agents)
    graph = full_graph(agents, agents)
    for agent, refused in disallowed.items():
        graph[agent] = [other for other in agents if other not in refused]
    return graph


def check_graph(graph: Mapping[Agent, Any], agents: Sequence[Agent]) -> None:
    """Refuse a graph that names others than the group. AG2 accepts them as values, and chooses them then.

    Raises:
        GroupChatDeclarationError: What is wrong (a ValueError and a KeyError).
    """
    if not isinstance(graph, Mapping):
        raise GroupChatDeclarationError(
            "Speaker transitions: a dictionary of agents and lists of agents is needed."
        )
    for agent, others in graph.items():
        _check_key(agent, agents)
        if not isinstance(others, list) or not all(isinstance(other, ChatAgent) for other in others):
            raise GroupChatDeclarationError(
                f"Speaker transitions: what follows {agent.name!r} must be a list of agents."
            )
        outside = [other.name for other in others if other not in agents]
        if outside:
            raise GroupChatDeclarationError(
                f"Speaker transitions: {outside} may not follow {agent.name!r}: not in the group."
            )


def _check_key(agent: Any, agents: Sequence[Agent]) -> None:
    if agent not in agents:
        raise GroupChatDeclarationError(
            f"Speaker transitions: {getattr(agent, 'name', agent)!r} is not in the group."
        )


def warn_of_oddities(graph: Graph, agents: Sequence[Agent]) -> None:
    """Log what is allowed and probably not meant: agents that are never reached, agents left out, names given twice."""
    if any(graph.values()):
        reached = {id(other) for others in graph.values() for other in others}
        isolated = [agent for agent in agents if not graph.get(agent) and id(agent) not in reached]
        if isolated:
            log.warning("isolated agents in the speaker transitions: %s", names_of(isolated))
    missing = [agent for agent in agents if agent not in graph]
    if missing:
        log.warning("agents without speaker transitions end the chat: %s", names_of(missing))
    for agent, others in graph.items():
        if len({id(other) for other in others}) < len(others):
            log.warning("the speaker transitions of %s name an agent twice", agent.name)


@dataclass(frozen=True)
class SelectionContext:
    """The state of a chat, for a policy.

    Attributes:
        round: How many messages there are so far; 1 when a chat begins.
        last_speaker: Who spoke last; None: no agent.
        participants: The names of the whole group.
    """

    round: int
    last_speaker: str | None
    participants: tuple[str, ...]


@runtime_checkable
class AgentEligibilityPolicy(Protocol):
    """A rule of whether an agent may speak next."""

    def is_eligible(self, agent: Agent, ctx: SelectionContext) -> bool:
        """Whether it may."""
        ...


def eligible(
    agents: Sequence[Agent], policies: Sequence[AgentEligibilityPolicy], context: SelectionContext
) -> list[Agent]:
    """The agents whom every policy lets speak.

    Raises:
        NoEligibleSpeakerError: There are none.
    """
    left = [agent for agent in agents if all(policy.is_eligible(agent, context) for policy in policies)]
    if not left:
        raise NoEligibleSpeakerError("The eligibility policies let no agent speak.")
    return left
