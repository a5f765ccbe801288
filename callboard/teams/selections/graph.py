"""Members follow each other as the edges of a graph say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel, Field

from callboard.messages.base import BaseChatMessage
from callboard.teams.graph.digraph import DiGraph
from callboard.teams.selection import Choice, Floor, SpeakerSelection

COMPLETE: Final = "Digraph execution is complete"


class GraphState(BaseModel):
    """How far the graph has come.

    Attributes:
        remaining: How many edges of each group of a node have to be taken before it speaks, for groups that need all.
        enqueued_any: Whether an edge of each group of a node has been taken, for groups that need any.
        triggered: The groups because of which a node is ready. AutoGen does not save them: a loop that is loaded there
            ends at its next turn.
        ready: Who speaks next.
        active: Who was asked to speak; who has not spoken when a run was interrupted is asked again.
    """

    remaining: dict[str, dict[str, int]] = Field(default_factory=dict)
    enqueued_any: dict[str, dict[str, bool]] = Field(default_factory=dict)
    triggered: dict[str, list[str]] = Field(default_factory=dict)
    ready: list[str] = Field(default_factory=list)
    active: list[str] = Field(default_factory=list)


class GraphSelection(SpeakerSelection):
    """All who are ready speak at once; AutoGen's GraphFlowManager.

    A node that two of its groups make ready in one round speaks once, where AutoGen asks it twice at the same time.

    Args:
        graph: The graph; it has been checked.
    """

    def __init__(self, graph: DiGraph) -> None:
        self._graph = graph
        self._activation = {
            (edge.target, edge.activation_group): graph.activation_of(edge)
            for node in graph.nodes.values()
            for edge in node.edges
        }
        self._needed = graph.get_remaining_map()
        self._state = self._fresh()

    def _fresh(self) -> GraphState:
        return GraphState(
            remaining={target: dict(groups) for target, groups in self._needed.items()},
            enqueued_any={target: dict.fromkeys(groups, False) for target, groups in self._needed.items()},
            ready=self._graph.start_nodes(),
        )

    async def after_round(self, floor: Floor) -> str | None:
        """Follow the edges; the run ends when nobody is ready, whatever the termination condition says."""
        self._follow(floor)
        return None if self._state.ready else self._complete()

    async def select(self, floor: Floor) -> Choice:
        """Who is ready."""
        self._follow(floor)
        if not self._state.ready:
            return Choice(stop=self._complete())
        speakers = list(dict.fromkeys(self._state.ready))
        self._state.ready.clear()
        for name in speakers:
            self._count_anew(name)
        self._state.active = speakers
        return Choice(speakers)

    def _complete(self) -> str:
        self._state = self._fresh()
        return COMPLETE

    def _follow(self, floor: Floor) -> None:
        active, self._state.active = self._state.active, []
        for name in active:
            if name in floor.answers:
                self._spoken(name, floor.answers[name])
            else:
                self._state.ready.append(name)

    def _spoken(self, name: str, message: BaseChatMessage) -> None:
        for edge in self._graph.nodes[name].edges:
            if edge.check_condition(message):
                self._taken(edge.target, edge.activation_group)

    def _taken(self, target: str, group: str) -> None:
        state = self._state
        if self._activation[target, group] == "any":
            is_ready = not state.enqueued_any[target][group]
            state.enqueued_any[target][group] = True
        else:
            state.remaining[target][group] -= 1
            is_ready = state.remaining[target][group] == 0
        if is_ready:
            state.ready.append(target)
            state.triggered.setdefault(target, []).append(group)

    def _count_anew(self, name: str) -> None:
        for group in self._state.triggered.pop(name, ()):
            self._state.enqueued_any[name][group] = False
            self._state.remaining[name][group] = self._needed[name][group]

    async def reset(self) -> None:
        """At the start nodes."""
        self._state = self._fresh()

    async def save_state(self) -> Mapping[str, Any]:
        """How far the graph has come."""
        return self._state.model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned, or AutoGen's, whose groups are found by their counters."""
        loaded = GraphState.model_validate(dict(state))
        if "triggered" not in state:
            loaded.triggered = {name: self._full_groups(loaded, name) for name in loaded.ready}
        self._state = loaded

    def _full_groups(self, state: GraphState, name: str) -> list[str]:
        taken = state.enqueued_any.get(name, {})
        return [
            group for group, count in state.remaining.get(name, {}).items() if count == 0 or taken.get(group)
        ]
