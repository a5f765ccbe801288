"""The team whose members follow each other as a graph says: nodes, edges, their checks, a builder, and the strategy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from callboard.agents.base import ChatAgent, Team
from callboard.conditions.base import TerminationCondition
from callboard.foundation.component import Component
from callboard.messages.chat import BaseAgentEvent, BaseChatMessage

from .errors import TeamDeclarationError
from .group_chat import BaseGroupChat, TeamConfig, common_config
from .loop import Choice, Floor, Participant, SpeakerSelection

Condition: TypeAlias = Callable[[BaseChatMessage], bool]
Activation: TypeAlias = Literal["all", "any"]


class DiGraphEdge(BaseModel):
    """From a node to one that follows.

    Attributes:
        target: Name of the node that follows.
        condition: What has to be in the last message of the first node; a text, or None: anything. A function that is given
            here is in `condition_function`. AutoGen leaves a function out of a dump without a word, and the edge is taken
            always when that is loaded; here such an edge can't be dumped.
        condition_function: Says of the last message whether the edge is taken.
        activation_group: Edges to one node are counted by group; "": the target's name.
        activation_condition: Whether "all" edges of the group have to be taken before the target speaks, or "any".
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    target: str
    condition: str | Condition | None = None
    condition_function: Condition | None = Field(default=None, exclude=True)
    activation_group: str = ""
    activation_condition: Activation = "all"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if callable(self.condition):
            self.condition_function, self.condition = self.condition, None
        self.activation_group = self.activation_group or self.target
        return self

    @model_serializer(mode="wrap")
    def _dump(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        self.check_is_plain()
        data: dict[str, Any] = dump(self)
        return data

    @property
    def is_conditional(self) -> bool:
        """Whether it is not always taken."""
        return self.condition is not None or self.condition_function is not None

    def check_condition(self, message: BaseChatMessage) -> bool:
        """Whether it is taken after a message."""
        if self.condition_function is not None:
            return self.condition_function(message)
        return not isinstance(self.condition, str) or self.condition in message.to_model_text()

    def check_is_plain(self) -> None:
        """Refuse to be dumped with a function.

        Raises:
            TeamDeclarationError: There is one (a ValueError).
        """
        if self.condition_function is not None:
            raise TeamDeclarationError(
                f"The condition of an edge to {self.target!r} is a function, which can't be dumped. "
                f"Use a text as the condition, or make the graph in the program that loads the rest."
            )


class DiGraphNode(BaseModel):
    """A member in a graph.

    Attributes:
        name: The member's name.
        edges: To whom follows.
        activation: "any": each group of edges to this node counts as "any", which AutoGen documents and does not do.
    """

    name: str
    edges: list[DiGraphEdge] = Field(default_factory=list)
    activation: Activation = "all"


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
        """Nodes after which none follows."""
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
        """Whether a member can speak twice.

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


COMPLETE: Final = "Digraph execution is complete"
UNMATCHED: Final = ", and no edge from {names} fitted what was said; wanted were {conditions}"


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
        self._unmatched: list[str] = []

    def _fresh(self) -> GraphState:
        return GraphState(
            remaining={target: dict(groups) for target, groups in self._needed.items()},
            enqueued_any={target: dict.fromkeys(groups, False) for target, groups in self._needed.items()},
            ready=self._graph.start_nodes(),
        )

    async def after_round(self, floor: Floor) -> str | None:
        """Follow the edges; the run ends when none is ready, whatever the termination condition says."""
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
        """The reason of the end, which is another one where the last speaker has edges that were not taken."""
        self._state = self._fresh()
        if not self._unmatched:
            return COMPLETE
        conditions = [
            edge.condition if isinstance(edge.condition, str) else "what a function says"
            for name in self._unmatched
            for edge in self._graph.nodes[name].edges
        ]
        names, wanted = (
            " and ".join(map(repr, dict.fromkeys(many))) for many in (self._unmatched, conditions)
        )
        return COMPLETE + UNMATCHED.format(names=names, conditions=wanted)

    def _follow(self, floor: Floor) -> None:
        active, self._state.active = self._state.active, []
        if active:
            self._unmatched = []
        for name in active:
            if name in floor.answers:
                self._spoken(name, floor.answers[name])
            else:
                self._state.ready.append(name)

    def _spoken(self, name: str, message: BaseChatMessage) -> None:
        edges = self._graph.nodes[name].edges
        taken = [edge for edge in edges if edge.check_condition(message)]
        for edge in taken:
            self._taken(edge.target, edge.activation_group)
        if edges and not taken:
            self._unmatched.append(name)

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


class GraphFlowConfig(TeamConfig):
    """A GraphFlow as plain data."""

    graph: DiGraph


class GraphFlow(BaseGroupChat, Component[GraphFlowConfig]):
    """A team whose members follow each other as the edges of a graph say: one after the other, several at once, in loops.

    A member speaks when the edges to it have been taken: all of a group, or any. All who are ready speak at the same time,
    and the next ones when all of these have spoken. The run ends when none follows.

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
