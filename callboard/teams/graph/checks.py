"""What a graph must be like; the rules and texts are AutoGen's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from callboard.teams.errors import TeamDeclarationError

from .nodes import DiGraphNode

Nodes: TypeAlias = Mapping[str, DiGraphNode]


def check_graph(nodes: Nodes, start: str | None) -> None:
    """Check that a graph begins and ends somewhere, and that each cycle can be left.

    Args:
        nodes: Its nodes, by name.
        start: Where it begins; None: at all nodes to which no edge leads.

    Raises:
        TeamDeclarationError: It does not (a ValueError).
    """
    if not nodes:
        raise TeamDeclarationError("Graph has no nodes.")
    _check_targets(nodes)
    _check_ends(nodes, start)
    for node in nodes.values():
        if len({edge.is_conditional for edge in node.edges}) > 1:
            raise TeamDeclarationError(
                f"Node '{node.name}' has a mix of conditional and unconditional edges."
            )
    _check_activations(nodes)
    has_cycles(nodes)


def _check_targets(nodes: Nodes) -> None:
    for node in nodes.values():
        for edge in node.edges:
            if edge.target not in nodes:
                raise TeamDeclarationError(
                    f"An edge of node '{node.name}' leads to '{edge.target}', which is not in the graph."
                )


def _check_ends(nodes: Nodes, start: str | None) -> None:
    if start is not None and start not in nodes:
        raise TeamDeclarationError(f"Start node '{start}' is not in the graph.")
    if start is None and nodes.keys() <= {edge.target for node in nodes.values() for edge in node.edges}:
        raise TeamDeclarationError("Graph must have at least one start node")
    if all(node.edges for node in nodes.values()):
        raise TeamDeclarationError("Graph must have at least one leaf node")


def _check_activations(nodes: Nodes) -> None:
    first: dict[tuple[str, str], tuple[str, str]] = {}
    for node in nodes.values():
        for edge in node.edges:
            group = (edge.target, edge.activation_group)
            condition, source = first.setdefault(group, (edge.activation_condition, node.name))
            if condition != edge.activation_condition:
                raise TeamDeclarationError(
                    f"Conflicting activation conditions for target '{edge.target}' group "
                    f"'{edge.activation_group}': '{condition}' (from node '{source}') and "
                    f"'{edge.activation_condition}' (from node '{node.name}')"
                )


def has_cycles(nodes: Nodes) -> bool:
    """Whether a graph has cycles. As in AutoGen, one that some node of it leaves by a condition is a loop that ends.

    Raises:
        TeamDeclarationError: There is a cycle without a condition (a ValueError).
    """
    found = False
    visited: set[str] = set()
    for name in nodes:
        if name not in visited:
            for cycle in _cycles_from(nodes, name, visited):
                found = True
                if not any(edge.is_conditional for node in cycle for edge in nodes[node].edges):
                    shown = " -> ".join([*cycle, cycle[0]])
                    raise TeamDeclarationError(f"Cycle detected without exit condition: {shown}")
    return found


def _cycles_from(nodes: Nodes, start: str, visited: set[str]) -> Iterator[list[str]]:
    """The cycles that a walk in depth closes; the path is a list, so that a long graph is no deep recursion."""
    path, waiting = [start], [_targets(nodes, start)]
    visited.add(start)
    while path:
        target = next(waiting[-1], None)
        if target is None:
            path.pop()
            waiting.pop()
        elif target in path:
            yield path[path.index(target) :]
        elif target not in visited:
            visited.add(target)
            path.append(target)
            waiting.append(_targets(nodes, target))


def _targets(nodes: Nodes, name: str) -> Iterator[str]:
    return iter([edge.target for edge in nodes[name].edges])
