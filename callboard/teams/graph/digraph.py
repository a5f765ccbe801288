"""Who follows whom: a directed graph of members."""

from __future__ import annotations

from pydantic import BaseModel

from .checks import check_graph, has_cycles
from .nodes import Activation, DiGraphEdge, DiGraphNode


class DiGraph(BaseModel):
    """A directed graph of members; see `DiGraphBuilder`.

    Attributes:
        nodes: The nodes, by name.
        default_start_node: Where it begins; None: at all nodes to which no edge leads.
    """

    nodes: dict[str, DiGraphNode]
    default_start_node: str | None = None

    def get_parents(self) -> dict[str, list[str]]:
        """From where edges lead to each node."""
        parents: dict[str, list[str]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for edge in node.edges:
                parents[edge.target].append(node.name)
        return parents

    def get_start_nodes(self) -> set[str]:
        """Where it begins."""
        return set(self.start_nodes())

    def start_nodes(self) -> list[str]:
        """Where it begins, in the order of the nodes."""
        if self.default_start_node is not None:
            return [self.default_start_node]
        return [name for name, parents in self.get_parents().items() if not parents]

    def get_leaf_nodes(self) -> set[str]:
        """After whom nobody follows."""
        return {name for name, node in self.nodes.items() if not node.edges}

    def get_remaining_map(self) -> dict[str, dict[str, int]]:
        """How many edges of each group lead to each node."""
        counts: dict[str, dict[str, int]] = {}
        for node in self.nodes.values():
            for edge in node.edges:
                groups = counts.setdefault(edge.target, {})
                groups[edge.activation_group] = groups.get(edge.activation_group, 0) + 1
        return counts

    def activation_of(self, edge: DiGraphEdge) -> Activation:
        """Whether all edges of an edge's group are needed, or any."""
        is_any = "any" in (edge.activation_condition, self.nodes[edge.target].activation)
        return "any" if is_any else "all"

    def get_has_cycles(self) -> bool:
        """Whether somebody can speak twice.

        Raises:
            TeamDeclarationError: There is a cycle without a condition (a ValueError).
        """
        return has_cycles(self.nodes)

    def has_cycles_with_exit(self) -> bool:
        """The same as `get_has_cycles`, under its other name in AutoGen."""
        return self.get_has_cycles()

    def graph_validate(self) -> None:
        """Check that it begins and ends somewhere, and that each cycle can be left.

        Raises:
            TeamDeclarationError: It does not (a ValueError).
        """
        check_graph(self.nodes, self.default_start_node)
