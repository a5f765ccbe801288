"""Who may speak after whom."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from callboard.agents.chat_agent import ChatAgent

from .agent import Agent, names_of
from .errors import TransitionError

log = logging.getLogger(__name__)

Graph = dict[Agent, list[Agent]]


def full_graph(agents: Sequence[Agent], repeats: Sequence[Agent]) -> Graph:
    """Everybody may speak after everybody else.

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
    """Everybody may speak after everybody, but for what is disallowed.

    Raises:
        TransitionError: An agent that is not of the group is named (a ValueError and a KeyError).
    """
    check_graph(disallowed, agents)
    graph = full_graph(agents, agents)
    for agent, refused in disallowed.items():
        graph[agent] = [other for other in agents if other not in refused]
    return graph


def check_graph(graph: Mapping[Agent, Any], agents: Sequence[Agent]) -> None:
    """Refuse a graph that names others than the group. AG2 accepts them as values, and chooses them then.

    Raises:
        TransitionError: What is wrong (a ValueError and a KeyError).
    """
    if not isinstance(graph, Mapping):
        raise TransitionError("a dictionary of agents and lists of agents is needed.")
    for agent, others in graph.items():
        _check_key(agent, agents)
        if not isinstance(others, list) or not all(isinstance(other, ChatAgent) for other in others):
            raise TransitionError(f"what follows {agent.name!r} must be a list of agents.")
        outside = [other.name for other in others if other not in agents]
        if outside:
            raise TransitionError(f"{outside} may not follow {agent.name!r}: not in the group.")


def _check_key(agent: Any, agents: Sequence[Agent]) -> None:
    if agent not in agents:
        raise TransitionError(f"{getattr(agent, 'name', agent)!r} is not in the group.")


def warn_of_oddities(graph: Graph, agents: Sequence[Agent]) -> None:
    """Log what is allowed and probably not meant: agents that nobody can reach, agents left out, names given twice."""
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
