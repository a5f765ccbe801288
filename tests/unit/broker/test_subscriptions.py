import subprocess
import sys

import pytest
from hypothesis import given, strategies as st

from callboard import CantHandleException
from callboard.broker import (
    AgentId,
    AgentType,
    Subscription,
    TopicId,
    TypePrefixSubscription as Prefix,
    TypeSubscription as Exact,
)
from callboard.broker.errors import EncodeError, InvalidIdError, SubscriptionError
from callboard.broker.subscriptions import SubscriptionTable


def test_a_type_subscription_maps_the_source_to_the_key() -> None:
    subscription = Exact("visits", "counter")
    assert subscription.is_match(TopicId("visits", "s"))
    assert not subscription.is_match(TopicId("visits.more", "s"))
    assert subscription.map_to_agent(TopicId("visits", "a/b")) == AgentId("counter", "a/b")
    assert (subscription.topic_type, subscription.agent_type) == ("visits", "counter")


def test_a_prefix_subscription_takes_what_begins_with_it() -> None:
    subscription = Prefix("writer:", AgentType("writer"))
    assert subscription.is_match(TopicId("writer:", "s"))
    assert subscription.is_match(TopicId("writer:direct", "s"))
    assert not subscription.is_match(TopicId("writer", "s"))
    assert subscription.map_to_agent(TopicId("writer:x", "s")) == AgentId("writer", "s")
    assert Prefix("", "all").is_match(TopicId("anything", "s"))


@pytest.mark.parametrize("subscription", [Exact("a", "b"), Prefix("a:", "b")])
def test_another_topic_has_no_agent(subscription: Subscription) -> None:
    with pytest.raises(CantHandleException, match="the topic other/s does not match"):
        subscription.map_to_agent(TopicId("other", "s"))


def test_wrong_names_are_refused() -> None:
    for make in (lambda: Exact("a b", "x"), lambda: Exact("a", "x/y"), lambda: Prefix("a b", "x")):
        with pytest.raises(InvalidIdError):
            make()


def test_subscriptions_are_equal_hashable_and_have_the_same_id_in_every_process() -> None:
    assert Exact("a", "b") == Exact("a", "b", id="mine")
    assert Exact("a", "b") != Exact("a", "c")
    assert Exact("a", "b") != Prefix("a", "b")
    assert len({Exact("a", "b"), Exact("a", "b"), Prefix("a", "b")}) == 2
    code = "from callboard.broker import *; print(TypeSubscription('a', 'b').id, TypePrefixSubscription('a', 'b').id)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [Exact("a", "b").id, Prefix("a", "b").id]


def test_the_same_subscription_is_refused_by_id_and_by_names() -> None:
    table = SubscriptionTable()
    table.add(Exact("a", "b", id="1"))
    for again in (Exact("x", "y", id="1"), Exact("a", "b", id="2")):
        assert again in table
        with pytest.raises(SubscriptionError, match="Subscription already exists"):
            table.add(again)
    table.add(Prefix("a", "b", id="3"))
    assert len(table) == 2


def test_removing() -> None:
    table = SubscriptionTable()
    table.add(Exact("a", "b"))
    table.add(Prefix("a", "c"))
    table.add(Prefix("a", "d"))
    assert table.remove(Exact("a", "b").id) == Exact("a", "b")
    table.remove(Prefix("a", "c").id)
    assert list(table) == [Prefix("a", "d")]
    table.remove(Prefix("a", "d").id)
    assert list(table) == []
    with pytest.raises(SubscriptionError, match="Subscription does not exist"):
        table.remove(Exact("a", "b").id)
    table.add(Exact("a", "b"))


def test_a_subscription_of_another_class_is_refused() -> None:
    class Mine:
        id = "mine"
        agent_type = "a"

        def is_match(self, topic_id: TopicId) -> bool:
            return True

        def map_to_agent(self, topic_id: TopicId) -> AgentId:
            return AgentId("a", "b")

    with pytest.raises(EncodeError, match="Mine can't be sent: use TypeSubscription"):
        SubscriptionTable().add(Mine())


NAMES = st.text("ab.", min_size=1, max_size=4)


@given(
    st.lists(st.tuples(st.booleans(), NAMES, st.sampled_from(["x", "y", "z"])), max_size=20, unique=True),
    st.sets(st.integers(0, 19)),
)
def test_the_table_keeps_what_was_not_removed_in_the_order_of_adding(
    specs: list[tuple[bool, str, str]], removed: set[int]
) -> None:
    made = [(Prefix if prefix else Exact)(topic, agent) for prefix, topic, agent in specs]
    table = SubscriptionTable()
    for subscription in made:
        table.add(subscription)
    for place in removed:
        if place < len(made):
            table.remove(made[place].id)
    kept = [one for place, one in enumerate(made) if place not in removed]
    assert list(table) == kept
    assert [one in table for one in made] == [one in kept for one in made]
