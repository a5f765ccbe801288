"""One small team of each kind, made anew each time, whose models answer by what they are asked, wherever they run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from callboard.agents.base import Team
from callboard.memory.contexts import BufferedChatCompletionContext
from callboard.memory.llm_messages import LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.teams import (
    BaseGroupChat,
    ConcurrentGroupChat,
    DiGraphBuilder,
    GraphFlow,
    MagenticOneGroupChat,
    RoundRobinGroupChat,
    SelectorGroupChat,
    Swarm,
)
from tests.helpers.ledgers import ledger
from tests.helpers.team_members import Parrot, Passer

BOSS: Final = "MagenticOneOrchestrator"
NAMES: Final = ("ann", "bob")


def _members(names: Sequence[str], inner: Team | None) -> list[Any]:
    """Two agents, and a team between them if one is given."""
    first, last = (Parrot(name) for name in names)
    return [first, last] if inner is None else [first, inner, last]


def round_robin(names: Sequence[str] = NAMES, inner: Team | None = None, **options: Any) -> BaseGroupChat:
    given = _members(names, inner)
    return RoundRobinGroupChat(given, **{"max_turns": 2 * len(given), **options})


def selector(names: Sequence[str] = NAMES, inner: Team | None = None, **options: Any) -> BaseGroupChat:
    given = _members(names, inner)
    order: list[str] = [member.name for member in given]

    def answer(messages: Sequence[LLMMessage]) -> str:
        """Who comes behind the last speaker; whoever is unknown is in the inner team."""
        speaker = str(messages[0].content).split(":")[0]
        if speaker not in order:
            speaker = order[-1] if speaker == "user" or inner is None else inner.name
        return order[(order.index(speaker) + 1) % len(order)]

    return SelectorGroupChat(
        given,
        ReplayChatCompletionClient([], default=answer),
        selector_prompt="{history}",
        model_context=BufferedChatCompletionContext(1),
        **{"max_turns": 2 * len(given), **options},
    )


def swarm(names: Sequence[str] = NAMES, **options: Any) -> BaseGroupChat:
    first, last = names
    given = [Passer(first, [last] * 9), Passer(last, [first] * 9)]
    return Swarm(given, **{"max_turns": 4, **options})


def graph(names: Sequence[str] = NAMES, inner: Team | None = None, **options: Any) -> BaseGroupChat:
    builder = DiGraphBuilder()
    for member in _members(names, inner):
        builder.add_node(member)
    for source, target in pairwise(builder.get_participants()):
        builder.add_edge(source, target)
    return GraphFlow(builder.get_participants(), builder.build(), **options)


def magentic(names: Sequence[str] = NAMES, inner: Team | None = None, **options: Any) -> BaseGroupChat:
    given = _members(names, inner)
    order = [member.name for member in given]
    instruction = f"Go, {order}."

    def answer(messages: Sequence[LLMMessage]) -> str:
        """A ledger in which each member speaks once; other questions get a text."""
        if "is_in_loop" not in str(messages[-1].content):
            return "A text."
        turn = sum(message.content == instruction for message in messages)
        done = turn == len(order)
        return ledger("" if done else order[turn], done=done, says=instruction)

    return MagenticOneGroupChat(given, ReplayChatCompletionClient([], default=answer), **options)


def concurrent(names: Sequence[str] = NAMES, inner: Team | None = None, **options: Any) -> BaseGroupChat:
    given = _members(names, inner)
    return ConcurrentGroupChat(given, aggregator=Parrot(f"{names[0]}_joins"), rounds=2, **options)


KINDS: Final[Mapping[str, Callable[..., BaseGroupChat]]] = {
    "round_robin": round_robin,
    "selector": selector,
    "swarm": swarm,
    "graph": graph,
    "magentic": magentic,
    "concurrent": concurrent,
}
"""The kinds of teams, by name. Each takes the names of two agents, for all but a swarm a team to put between them, and the
options of its class."""

SPEAKERS: Final[Mapping[str, str]] = {
    "round_robin": "ann INNER bob ann INNER bob",
    "selector": "ann INNER bob ann INNER bob",
    "graph": "ann INNER bob",
    "magentic": f"{BOSS} {BOSS} ann {BOSS} INNER {BOSS} bob {BOSS}",
    "concurrent": "ann bob INNER ann bob INNER ann_joins",
}
"""Who speaks in a team of each kind with a team between its agents; in a concurrent one, the slowest comes last."""
