"""The team whose members follow each other as a graph says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

from callboard.conditions.base import TerminationCondition
from callboard.foundation.component import Component
from callboard.messages.base import BaseAgentEvent, BaseChatMessage

from .config import TeamConfig, common_config
from .errors import TeamDeclarationError
from .graph.digraph import DiGraph
from .group_chat import BaseGroupChat
from .local import Participant
from .selection import SpeakerSelection
from .selections.graph import GraphSelection


class GraphFlowConfig(TeamConfig):
    """A GraphFlow as plain data."""

    graph: DiGraph


class GraphFlow(BaseGroupChat, Component[GraphFlowConfig]):
    """A team whose members follow each other as the edges of a graph say: one after the other, several at once, in loops.

    A member speaks when the edges to it have been taken: all of a group, or any. All who are ready speak at the same time,
    and the next ones when all of these have spoken. The run ends when nobody follows.

    AutoGen's graph is checked when the first run begins; this one at once. How far it has come is part of the team's state,
    all of it, and a member may be a team.

    Args:
        participants: The members; each node is one of them.
        graph: Who follows whom, see DiGraphBuilder.
        name: Its name.
        description: What it can do, for a larger team.
        termination_condition: When a run ends before the graph does.
        max_turns: How many rounds a run has at most; all who speak at once are one round.
        custom_message_types: Types of messages of your own that members say.
        **options: See BaseGroupChat.

    Raises:
        TeamDeclarationError: The graph can't be carried out, or it has loops and nothing limits them (a ValueError).
    """

    component_config_schema = GraphFlowConfig
    component_provider_override = "callboard.teams.GraphFlow"

    def __init__(
        self,
        participants: Sequence[Participant],
        graph: DiGraph,
        *,
        name: str | None = None,
        description: str | None = None,
        termination_condition: TerminationCondition | None = None,
        max_turns: int | None = None,
        custom_message_types: Sequence[type[BaseAgentEvent | BaseChatMessage]] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            participants,
            name=name or "GraphFlow",
            description=description or "A team of agents",
            manager_name="GraphManager",
            termination_condition=termination_condition,
            max_turns=max_turns,
            custom_message_types=custom_message_types,
            **options,
        )
        graph.graph_validate()
        names = [participant.name for participant in participants]
        unknown = [node for node in graph.nodes if node not in names]
        if unknown:
            raise TeamDeclarationError(f"Node '{unknown[0]}' of the graph is not one of the participants.")
        if graph.get_has_cycles() and termination_condition is None and max_turns is None:
            raise TeamDeclarationError(
                "A termination condition is required for cyclic graphs without a maximum turn limit."
            )
        self._graph = graph

    def _to_config(self) -> GraphFlowConfig:
        for node in self._graph.nodes.values():
            for edge in node.edges:
                edge.check_is_plain()
        return GraphFlowConfig(**common_config(self), graph=self._graph)

    @classmethod
    def _from_config(cls, config: GraphFlowConfig) -> Self:
        return cls(**config.arguments(), graph=config.graph)

    def new_selection(self) -> SpeakerSelection:
        """Along the edges, beginning with the start nodes."""
        return GraphSelection(self._graph)
