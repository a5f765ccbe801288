"""Single paths that the searches are full of, each by itself: so that a failure there has a short name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .bus import Bus
from .reference import EFFECTS, Ending, Item, Sent
from .world import World


@pytest.fixture
def world(server_url: str) -> Iterator[World]:
    bus = Bus(server_url)
    yield World(bus)
    bus.clear()
    bus.close()


def test_records_go_with_their_message(world: World) -> None:
    """What a handler recorded and sent at once is there for the next attempt, and gone with the commit."""
    first, second = world.join(), world.join()
    world.publish(Sent(Item("m1", "a", "topic:visits")))
    world.turn(first, count=1)
    world.record(first, "a", "pay")
    world.send_now(first, "a", "mail")
    world.check()
    world.crash(first, by=second)
    world.turn(second, count=1)
    world.send_now(second, "a", "mail")
    world.check()
    assert len(world.bus.photo().entries(EFFECTS)) == 1
    world.turn(second, {"a": [Ending("C")]})
    world.check()
    assert world.bus.photo().starting_with("once:") == {}


def test_a_request_that_is_asked_again_is_answered_to_all_who_ask(world: World) -> None:
    hand = world.join()
    ask = Item("call-1", "a", "inbox:counter", asked=True)
    world.publish(Sent(ask, once="call-1", waiting="p1"))
    world.turn(hand, count=1)
    world.publish(Sent(ask, once="call-1", waiting="p2"))
    world.turn(hand, {"a": [Ending("C", reply="p1")]})
    world.publish(Sent(ask, once="call-1", waiting="p3"))
    world.check()
    assert world.reference.replies == [("p1", "call-1"), ("p2", "call-1"), ("p3", "call-1")]


def test_nothing_of_a_cancelled_request_is_written(world: World) -> None:
    """Cancelled while it was handled: the commit ends it, and writes no state, no message and no reply."""
    hand = world.join()
    world.publish(Sent(Item("call-1", "a", "inbox:counter", asked=True), once="call-1", waiting="p1"))
    world.turn(hand, count=1)
    world.cancel("call-1")
    effect = Sent(Item("call-1.1", "a", EFFECTS))
    world.turn(hand, {"a": [Ending("C", b"state", (effect,), "p1")]})
    world.check()
    assert (world.reference.states, world.reference.effects, world.reference.replies) == ({}, [], [])
    world.drain()


def test_a_replayed_letter_finds_what_was_recorded(world: World) -> None:
    hand = world.join()
    world.publish(Sent(Item("m1", "a", "topic:visits")))
    world.turn(hand, count=1)
    world.record(hand, "a", "pay")
    world.turn(hand, {"a": [Ending("D")]})
    world.replay(world.reference.letters[0])
    world.turn(hand, count=1)
    assert set(world.bus.photo().starting_with("once:counter:")) == {"m1"}
    world.turn(hand, {"a": [Ending("C")]})
    world.replay_again()
    world.drain()


def test_a_letter_of_a_cancelled_request_is_still_cancelled_when_it_comes_again(world: World) -> None:
    hand = world.join()
    world.publish(Sent(Item("call-1", "a", "inbox:counter", asked=True), once="call-1", waiting="p1"))
    world.turn(hand, count=1)
    world.turn(hand, {"a": [Ending("D")]})
    world.cancel("call-1")
    world.replay(world.reference.letters[0])
    world.turn(hand, count=1)
    world.check()
    world.drain()


def test_new_entries_are_found_without_looking_everywhere(world: World) -> None:
    hand = world.join()
    world.turn(hand, count=5)
    world.publish(Sent(Item("m1", "a", "topic:visits")), Sent(Item("m2", "b", "inbox:counter")))
    world.turn(hand, count=5, scan=False)
    assert set(hand.held) == {"a", "b"}
