"""Graphs: the builder, AutoGen's checks with their texts, dumps."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import pytest

from callboard.messages import BaseChatMessage, TextMessage
from callboard.teams import (
    DiGraph,
    DiGraphBuilder,
    DiGraphEdge,
    DiGraphNode,
    GraphFlow,
    TeamDeclarationError,
)
from tests.helpers.team_members import Parrot


def edge(target: str, condition: str | None = None, group: str = "", needs: str = "all") -> DiGraphEdge:
    return DiGraphEdge.model_validate(
        {"target": target, "condition": condition, "activation_group": group, "activation_condition": needs}
    )


def graph(start: str | None = None, **edges: list[DiGraphEdge]) -> DiGraph:
    nodes = {name: DiGraphNode(name=name, edges=follow) for name, follow in edges.items()}
    return DiGraph(nodes=nodes, default_start_node=start)


def said(text: str) -> TextMessage:
    return TextMessage(content=text, source="a")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (graph, "Graph has no nodes."),
        (
            lambda: graph(a=[edge("b", "x")], b=[edge("a")]),
            "Graph must have at least one start node",
        ),
        (
            lambda: graph("a", a=[edge("b", "x")], b=[edge("a")]),
            "Graph must have at least one leaf node",
        ),
        (
            lambda: graph(a=[edge("b", "x"), edge("c")], b=[], c=[]),
            "Node 'a' has a mix of conditional and unconditional edges.",
        ),
        (
            lambda: graph("a", a=[edge("b")], b=[edge("a"), edge("c")], c=[]),
            "Cycle detected without exit condition: a -> b -> a",
        ),
        (
            lambda: graph(a=[edge("c", needs="any")], b=[edge("c")], c=[]),
            "Conflicting activation conditions for target 'c' group 'c': 'any' (from node 'a') and 'all' (from node 'b')",
        ),
        (
            lambda: graph(a=[edge("z")]),
            "An edge of node 'a' leads to 'z', which is not in the graph.",
        ),
        (lambda: graph("z", a=[]), "Start node 'z' is not in the graph."),
    ],
)
def test_a_graph_that_cannot_be_carried_out_is_refused(made: Callable[[], DiGraph], text: str) -> None:
    with pytest.raises(TeamDeclarationError) as raised:
        made().graph_validate()
    assert str(raised.value) == text
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize(
    ("made", "has_cycles"),
    [
        (lambda: graph(a=[edge("b")], b=[edge("c")], c=[]), False),
        (lambda: graph(a=[edge("b"), edge("c")], b=[edge("d")], c=[edge("d")], d=[]), False),
        (lambda: graph("a", a=[edge("b")], b=[edge("a", "no"), edge("c", "yes")], c=[]), True),
        (lambda: graph("a", a=[edge("a", "no"), edge("b", "yes")], b=[]), True),
    ],
)
def test_cycles_are_found(made: Callable[[], DiGraph], has_cycles: bool) -> None:
    made().graph_validate()
    assert made().get_has_cycles() is has_cycles
    assert made().has_cycles_with_exit() is has_cycles


def test_a_long_graph_is_checked() -> None:
    names = [f"n{number}" for number in range(3000)]
    nodes = {name: [edge(after)] for name, after in pairwise(names)}
    long = graph(None, **nodes, **{names[-1]: []})
    long.graph_validate()
    assert not long.get_has_cycles()


def test_what_a_graph_tells() -> None:
    made = graph(a=[edge("c"), edge("c", group="again")], b=[edge("c")], c=[])
    assert made.get_parents() == {"a": [], "b": [], "c": ["a", "a", "b"]}
    assert made.get_start_nodes() == {"a", "b"}
    assert made.get_leaf_nodes() == {"c"}
    assert made.get_remaining_map() == {"c": {"c": 2, "again": 1}}


@pytest.mark.parametrize(
    ("condition", "text", "is_taken"),
    [
        (None, "anything", True),
        ("yes", "oh yes!", True),
        ("yes", "Yes", False),
        (lambda message: message.source == "a", "x", True),
        (lambda message: message.source == "b", "x", False),
    ],
)
def test_an_edge_is_taken_by_its_condition(
    condition: str | Callable[[BaseChatMessage], bool] | None, text: str, is_taken: bool
) -> None:
    assert DiGraphEdge(target="b", condition=condition).check_condition(said(text)) is is_taken


def test_a_graph_survives_json() -> None:
    made = graph("a", a=[edge("b")], b=[edge("a", "no"), edge("c", "yes", "g", "any")], c=[])
    data = json.loads(made.model_dump_json())
    assert DiGraph.model_validate(data) == made
    # A dump of AutoGen's has the same fields.
    assert data["nodes"]["b"]["edges"][1] == {
        "target": "c",
        "condition": "yes",
        "activation_group": "g",
        "activation_condition": "any",
    }


def test_a_function_cannot_be_dumped() -> None:
    made = DiGraphEdge(target="b", condition=lambda _: True)
    with pytest.raises(TeamDeclarationError, match="The condition of an edge to 'b' is a function"):
        made.check_is_plain()
    with pytest.raises(ValueError, match="The condition of an edge to 'b' is a function"):
        graph(a=[made], b=[]).model_dump()


# Builder


def test_the_builder_builds_what_it_was_told() -> None:
    a, b, c = Parrot("a"), Parrot("b"), Parrot("c")
    builder = DiGraphBuilder()
    builder.add_node(a).add_node(b).add_node(c, activation="any").add_node(a)
    builder.add_edge(a, b).add_edge("b", "a", "no", activation_group="loop").add_edge(b, c, condition="yes")
    made = builder.set_entry_point(a).build()
    assert made == DiGraph(
        nodes={
            "a": DiGraphNode(name="a", edges=[edge("b")]),
            "b": DiGraphNode(name="b", edges=[edge("a", "no", "loop"), edge("c", "yes")]),
            "c": DiGraphNode(name="c", activation="any"),
        },
        default_start_node="a",
    )
    assert builder.get_participants() == [a, b, c]


def test_what_is_built_does_not_change() -> None:
    builder = DiGraphBuilder().add_node(Parrot("a")).add_node(Parrot("b"))
    made = builder.build()
    builder.add_edge("a", "b")
    assert made.nodes["a"].edges == []


def test_conditional_edges() -> None:
    builder = DiGraphBuilder().add_node(Parrot("a")).add_node(Parrot("b")).add_node(Parrot("c"))
    with pytest.warns(DeprecationWarning, match="add_edge takes functions as well"):
        builder.add_conditional_edges("a", {"left": "b", "right": "c"})
    assert [(each.target, each.condition) for each in builder.build().nodes["a"].edges] == [
        ("b", "left"),
        ("c", "right"),
    ]


@pytest.mark.parametrize(
    ("step", "text"),
    [
        (lambda b: b.add_edge("z", "a"), "Source node 'z' must be added before adding an edge."),
        (lambda b: b.add_edge("a", "z"), "Target node 'z' must be added before adding an edge."),
        (
            lambda b: b.set_entry_point("z"),
            "Start node 'z' must be added before setting as entry point.",
        ),
    ],
)
def test_nodes_have_to_be_added_first(step: Callable[[DiGraphBuilder], object], text: str) -> None:
    with pytest.raises(TeamDeclarationError) as raised:
        step(DiGraphBuilder().add_node(Parrot("a")))
    assert str(raised.value) == text


# The team


def test_each_node_is_a_member() -> None:
    with pytest.raises(TeamDeclarationError, match="Node 'b' of the graph is not one of the participants"):
        GraphFlow([Parrot("a")], graph(a=[edge("b")], b=[]))


def test_a_loop_needs_a_limit() -> None:
    loop = graph("a", a=[edge("b")], b=[edge("a", "no"), edge("c", "yes")], c=[])
    members = [Parrot(name) for name in "abc"]
    with pytest.raises(ValueError, match="A termination condition is required for cyclic graphs"):
        GraphFlow(members, loop)
    GraphFlow(members, loop, max_turns=3)
