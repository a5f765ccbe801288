"""A builder of graphs."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Self

from callboard.agents.chat_agent import ChatAgent
from callboard.agents.team import Team
from callboard.teams.errors import TeamDeclarationError

from .digraph import DiGraph
from .nodes import Activation, Condition, DiGraphEdge, DiGraphNode


class DiGraphBuilder:
    """Builds a `DiGraph` step by step; each step returns the builder.

    ```python
    builder = DiGraphBuilder()
    builder.add_node(writer).add_node(critic).add_edge(writer, critic)
    team = GraphFlow(builder.get_participants(), builder.build())
    ```

    Attributes:
        nodes: The nodes so far, by name.
        agents: The members so far, by name.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, DiGraphNode] = {}
        self.agents: dict[str, ChatAgent | Team] = {}
        self._default_start_node: str | None = None

    def add_node(self, agent: ChatAgent | Team, activation: Activation = "all") -> Self:
        """Add a member, once.

        Args:
            agent: The member; a team as well, unlike in AutoGen.
            activation: "any": it speaks as soon as one edge of a group has been taken, whatever the edges say.
        """
        if agent.name not in self.nodes:
            self.nodes[agent.name] = DiGraphNode(name=agent.name, activation=activation)
            self.agents[agent.name] = agent
        return self

    def add_edge(
        self,
        source: str | ChatAgent | Team,
        target: str | ChatAgent | Team,
        condition: str | Condition | None = None,
        activation_group: str | None = None,
        activation_condition: Activation | None = None,
    ) -> Self:
        """Let one member follow another.

        Args:
            source: Who speaks first.
            target: Who follows.
            condition: What has to be in the last message of `source`: a text, or a function of the message.
            activation_group: Edges to `target` are counted by group; None: they are one group.
            activation_condition: Whether "all" edges of the group are needed, which is the default, or "any".

        Raises:
            TeamDeclarationError: One of them was not added (a ValueError).
        """
        first, second = _name(source), _name(target)
        for what, name in (("Source", first), ("Target", second)):
            if name not in self.nodes:
                raise TeamDeclarationError(f"{what} node '{name}' must be added before adding an edge.")
        self.nodes[first].edges.append(
            DiGraphEdge(
                target=second,
                condition=condition,
                activation_group=activation_group or second,
                activation_condition=activation_condition or "all",
            )
        )
        return self

    def add_conditional_edges(
        self, source: str | ChatAgent | Team, condition_to_target: Mapping[str, str | ChatAgent | Team]
    ) -> Self:
        """Let one of several members follow, by a text in the last message of `source`. As in AutoGen: use `add_edge`."""
        warnings.warn(
            "add_conditional_edges takes texts only; add_edge takes functions as well.",
            DeprecationWarning,
            stacklevel=2,
        )
        for text, target in condition_to_target.items():
            self.add_edge(source, target, condition=text)
        return self

    def set_entry_point(self, name: str | ChatAgent | Team) -> Self:
        """Say who begins.

        Raises:
            TeamDeclarationError: It was not added (a ValueError).
        """
        start = _name(name)
        if start not in self.nodes:
            raise TeamDeclarationError(f"Start node '{start}' must be added before setting as entry point.")
        self._default_start_node = start
        return self

    def build(self) -> DiGraph:
        """The graph; later steps do not change it.

        Raises:
            TeamDeclarationError: It does not begin or end, or a cycle can't be left (a ValueError).
        """
        nodes = {
            name: node.model_copy(update={"edges": list(node.edges)}) for name, node in self.nodes.items()
        }
        graph = DiGraph(nodes=nodes, default_start_node=self._default_start_node)
        graph.graph_validate()
        return graph

    def get_participants(self) -> list[ChatAgent | Team]:
        """The members, in the order in which they were added."""
        return list(self.agents.values())


def _name(node: str | ChatAgent | Team) -> str:
    return node if isinstance(node, str) else node.name
