"""GraphFlow: who speaks when, beside AutoGen's own order; interrupted rounds; its state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from callboard.conditions import MaxMessageTermination
from callboard.messages import BaseChatMessage
from callboard.teams import DiGraphBuilder, GraphFlow, TeamRunError
from tests.helpers.team_members import Broken, Parrot, speakers_of, texts_of

Edge = tuple[str, str, dict[str, Any]]


def edges(text: str, **options: Any) -> list[Edge]:
    """ "a>b b>c" as edges that all have the same options."""
    return [(step[0], step[2], options) for step in text.split()]


def flow(
    given: Sequence[Edge], members: Sequence[Parrot], start: str | None = None, **options: Any
) -> GraphFlow:
    builder = DiGraphBuilder()
    for member in members:
        builder.add_node(member)
    for source, target, how in given:
        builder.add_edge(source, target, **how)
    if start is not None:
        builder.set_entry_point(start)
    return GraphFlow(builder.get_participants(), builder.build(), **options)


def says(text: str) -> Any:
    def condition(message: BaseChatMessage) -> bool:
        return text in message.to_model_text()

    return condition


LOOP = [
    *edges("a>b"),
    ("b", "a", {"condition": "again"}),
    ("b", "c", {"condition": "enough"}),
]


@pytest.mark.parametrize(
    ("given", "start", "lines", "speakers"),
    [
        (edges("a>b b>c"), None, {}, "a b c"),
        (edges("a>b a>c"), None, {}, "a b c"),
        # A join waits for all, or for the first of a round.
        (edges("a>c b>c"), None, {}, "a b c"),
        (edges("a>b a>c b>d c>d"), None, {}, "a b c d"),
        (edges("a>b b>c") + edges("c>d a>d", activation_condition="any"), None, {}, "a b d c d"),
        # Conditions: a text, or a function.
        (
            [("a", "b", {"condition": "left"}), ("a", "c", {"condition": "right"})],
            None,
            {"a": ["right"]},
            "a c",
        ),
        (
            [("a", "b", {"condition": says("left")}), ("a", "c", {"condition": says("right")})],
            None,
            {"a": ["left and right"]},
            "a b c",
        ),
        ([("a", "b", {"condition": "left"})], None, {"a": ["neither"]}, "a"),
        # A loop until a condition holds.
        (LOOP, "a", {"b": ["again", "again", "enough"]}, "a b a b a b c"),
        # A member that follows itself.
        (
            [("a", "a", {"condition": "again"}), ("a", "b", {"condition": "enough"})],
            "a",
            {"a": ["again", "enough"]},
            "a a b",
        ),
        # Two ways into a node, told apart by groups.
        (
            [
                ("a", "b", {"activation_group": "first"}),
                ("b", "c", {"condition": "again"}),
                ("b", "d", {"condition": "enough"}),
                ("c", "b", {"activation_group": "loop"}),
            ],
            None,
            {"b": ["again", "enough"]},
            "a b c b d",
        ),
        # A loop over two branches, of which the first is enough.
        (
            [
                ("a", "b", {"activation_group": "first"}),
                ("b", "c", {"condition": "again"}),
                ("b", "d", {"condition": "again"}),
                ("b", "e", {"condition": "enough"}),
                ("c", "b", {"activation_group": "loop", "activation_condition": "any"}),
                ("d", "b", {"activation_group": "loop", "activation_condition": "any"}),
            ],
            None,
            {"b": ["again", "enough"]},
            "a b c d b e",
        ),
    ],
)
async def test_who_follows_whom(
    given: list[Edge], start: str | None, lines: dict[str, list[str]], speakers: str
) -> None:
    members = [Parrot(name, lines.get(name, ())) for name in "abcde"]
    used = {name for source, target, _ in given for name in (source, target)}
    team = flow(given, [member for member in members if member.name in used], start, max_turns=20)
    result = await team.run(task="Begin.")
    assert speakers_of(result) == f"user {speakers}"
    assert str(result.stop_reason).startswith("Digraph execution is complete")


async def test_a_member_hears_what_was_said_by_all_before() -> None:
    members = [Parrot(name) for name in "abcd"]
    await flow(edges("a>b a>c b>d c>d"), members).run(task="Begin.")
    assert [len(member.heard[0]) for member in members] == [1, 2, 2, 4]


async def test_two_groups_that_are_ready_in_one_round_are_one_turn() -> None:
    given = [("a", "c", {"activation_group": "one"}), ("b", "c", {"activation_group": "two"})]
    result = await flow(given, [Parrot(name) for name in "abc"]).run(task="Begin.")
    assert speakers_of(result) == "user a b c"


async def test_activation_any_of_a_node_counts_for_all_its_edges() -> None:
    builder = DiGraphBuilder()
    for name in "abc":
        builder.add_node(Parrot(name), activation="any" if name == "c" else "all")
    builder.add_edge("a", "b").add_edge("a", "c").add_edge("b", "c")
    result = await GraphFlow(builder.get_participants(), builder.build()).run(task="Begin.")
    assert speakers_of(result) == "user a b c c"


# How a run ends


async def test_the_end_of_the_graph_counts_before_the_conditions() -> None:
    members = [Parrot("a"), Parrot("b")]
    ends = MaxMessageTermination(3)
    team = flow(edges("a>b"), members, termination_condition=ends, max_turns=2)
    assert (await team.run(task="Begin.")).stop_reason == "Digraph execution is complete"
    assert not ends.terminated


async def test_the_next_run_begins_anew_after_the_end() -> None:
    team = flow(edges("a>b"), [Parrot("a"), Parrot("b")])
    await team.run(task="Begin.")
    assert speakers_of(await team.run(task="Again.")) == "user a b"


async def test_the_next_run_goes_on_where_a_condition_ended_it() -> None:
    team = flow(edges("a>b a>c b>d c>d"), [Parrot(name) for name in "abcd"], max_turns=1)
    assert speakers_of(await team.run(task="Begin.")) == "user a"
    assert speakers_of(await team.run(task="Go on.")) == "user b c"
    assert speakers_of(await team.run()) == "d"


async def test_after_a_failure_those_go_on_who_have_not_spoken() -> None:
    members = [Parrot("a"), Parrot("b"), Broken("c"), Parrot("d")]
    team = flow(edges("a>b a>c b>d c>d"), members)
    with pytest.raises(TeamRunError, match=r"LookupError: c has lost its notes \(in c\)"):
        await team.run(task="Begin.")
    assert speakers_of(await team.run()) == "c d"


async def test_a_condition_that_fails_ends_the_run() -> None:
    def condition(message: BaseChatMessage) -> bool:
        raise KeyError("unknown")

    team = flow([("a", "b", {"condition": condition})], [Parrot("a"), Parrot("b")])
    with pytest.raises(TeamRunError, match="KeyError"):
        await team.run(task="Begin.")


async def test_reset_begins_at_the_start() -> None:
    team = flow(edges("a>b"), [Parrot("a"), Parrot("b")], max_turns=1)
    await team.run(task="Begin.")
    await team.reset()
    assert speakers_of(await team.run(task="Begin.")) == "user a"


# State


def looping(**options: Any) -> GraphFlow:
    lines = {"b": ["again", "again", "enough"]}
    return flow(LOOP, [Parrot(name, lines.get(name, ())) for name in "abc"], "a", **options)


@pytest.mark.parametrize("turns", [1, 2, 3, 4, 5, 6])
async def test_a_loop_goes_on_after_it_was_saved_anywhere(turns: int) -> None:
    whole = await looping(max_turns=20).run(task="Begin.")
    team = looping(max_turns=turns)
    first = await team.run(task="Begin.")
    other = looping(max_turns=20)
    await other.load_state(await team.save_state())
    assert texts_of(first) + texts_of(await other.run()) == texts_of(whole)


async def test_a_state_of_autogen_goes_on() -> None:
    # As AutoGen saves it after b has said "again": a is ready, and which groups made it so is not there.
    team = looping(max_turns=20)
    state = dict(await team.save_state())
    manager = {
        "message_thread": [],
        "current_turn": 2,
        "remaining": {"b": {"b": 1}, "a": {"a": 0}, "c": {"c": 1}},
        "enqueued_any": {"b": {"b": False}, "a": {"a": False}, "c": {"c": False}},
        "ready": ["a"],
    }
    state["agent_states"] = {**state["agent_states"], "GraphManager": manager}
    await team.load_state(state)
    assert speakers_of(await team.run(task="Go on.")) == "user a b a b a b c"


@pytest.mark.parametrize(
    ("given", "said", "reason"),
    [
        (
            [("a", "b", {"condition": "REVISE"}), ("a", "c", {"condition": "APPROVE"})],
            "REVISION",
            "Digraph execution is complete, and no edge from 'a' fitted what was said; wanted were 'REVISE' and 'APPROVE'",
        ),
        (
            [("a", "b", {"condition": says("left")})],
            "right",
            "Digraph execution is complete, and no edge from 'a' fitted what was said; wanted were 'what a function says'",
        ),
        ([("a", "b", {"condition": "left"})], "left", "Digraph execution is complete"),
    ],
)
async def test_an_end_because_no_edge_was_taken_says_so(given: list[Edge], said: str, reason: str) -> None:
    names = sorted({name for source, target, _ in given for name in (source, target)})
    team = flow(given, [Parrot(name, [said]) for name in names])
    assert (await team.run(task="Begin.")).stop_reason == reason
    assert (await team.run(task="Again.")).stop_reason is not None
