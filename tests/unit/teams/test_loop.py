"""The turn loop without anything that carries messages."""

from __future__ import annotations

from callboard.messages import MessageFactory, TextMessage
from callboard.teams.loop import ConversationState, Member, RoundRobinSelection, TeamPlan, TurnLoop

GO = TextMessage(content="go", source="user")


def a_loop(*names: str) -> TurnLoop:
    plan = TeamPlan("manager", [Member(name, "") for name in names], None, False, MessageFactory())
    return TurnLoop(plan, ConversationState(), RoundRobinSelection(), None)


def said(member: str, turn: int) -> tuple[str, int, list[TextMessage]]:
    return member, turn, [TextMessage(content=f"{member} in turn {turn}", source=member)]


async def test_a_turn_is_heard_once() -> None:
    loop = a_loop("a", "b")
    await loop.start([GO])
    following = await loop.hear(*said("a", 1))
    assert following is not None
    assert list(following.speakers) == ["b"]
    assert await loop.hear(*said("a", 1)) is None
    assert [entry.message.to_text() for entry in loop.state.thread] == ["go", "a in turn 1"]


async def test_an_answer_of_a_turn_that_is_over_is_not_heard() -> None:
    loop = a_loop("a")
    await loop.start([GO])
    await loop.start([GO])  # the first run was cancelled
    assert await loop.hear(*said("a", 1)) is None
    assert len(loop.state.thread) == 2
