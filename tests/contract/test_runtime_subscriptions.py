"""Subscriptions come and go while the runtime works."""

from __future__ import annotations

import pytest

from callboard import TopicId, TypePrefixSubscription, TypeSubscription
from callboard.broker.errors import SubscriptionError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import (
    Note,
    Runtimes,
    listener,
)


async def test_a_prefix_and_overlapping_subscriptions_deliver_once(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "listener", "order.eu", "order.us")
    await runtime.add_subscription(TypePrefixSubscription("order.", "listener"))
    await runtime.add_subscription(TypePrefixSubscription("order.e", "listener"))
    for topic in ("order.eu", "order.us", "order.cn", "other"):
        await runtime.publish_message(Note(text=topic), TopicId(topic, "a"))
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["order.eu", "order.us", "order.cn"]


async def test_the_same_subscription_twice_and_one_that_is_not_there(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    await runtime.add_subscription(TypeSubscription("news", "listener"))
    with pytest.raises(SubscriptionError, match="already exists"):
        await runtime.add_subscription(TypeSubscription("news", "listener"))
    with pytest.raises(SubscriptionError, match="does not exist") as caught:
        await runtime.remove_subscription("no such id")
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, LookupError)


@pytest.mark.parametrize("keeper", ["news", "other"], ids=["beside another", "alone"])
async def test_after_its_removal_a_subscription_brings_nothing_until_it_is_made_again(
    runtimes: Runtimes, keeper: str
) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "listener")
    kept = await listener(runtime, "keeper", "fence", keeper)
    subscription = TypeSubscription("news", "listener")
    expected: list[str] = []
    for number in range(3):
        await runtime.add_subscription(subscription)
        await runtime.publish_message(Note(text=f"{number} on"), TopicId("news", "a"))
        expected += [f"{number} on"]
        await eventually(lambda: len(heard) == len(expected))  # noqa: B023
        await runtime.remove_subscription(subscription.id)
        await runtime.publish_message(Note(text=f"{number} off"), TopicId("news", "a"))
        await runtime.publish_message(Note(text=f"{number} fence"), TopicId("fence", "a"))
        await eventually(lambda: any(one.text == f"{number} fence" for one in kept))  # noqa: B023
        assert [one.text for one in heard] == expected
        expected += [f"{number} off"]
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == expected[:-1]


async def test_a_removed_prefix_brings_nothing_either(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "listener")
    subscription = TypePrefixSubscription("order.", "listener")
    await runtime.add_subscription(subscription)
    await runtime.publish_message(Note(text="yes"), TopicId("order.eu", "a"))
    await eventually(lambda: heard)
    await runtime.remove_subscription(subscription.id)
    for topic in ("order.eu", "order.us"):
        await runtime.publish_message(Note(text="no"), TopicId(topic, "a"))
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["yes"]


async def test_of_two_overlapping_subscriptions_one_may_go(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "listener")
    exact, prefix = TypeSubscription("order.eu", "listener"), TypePrefixSubscription("order.", "listener")
    for one in (exact, prefix):
        await runtime.add_subscription(one)
    await runtime.remove_subscription(exact.id)
    await runtime.publish_message(Note(text="1"), TopicId("order.eu", "a"))
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["1"]
    await runtime.add_subscription(exact)
    await runtime.remove_subscription(prefix.id)
    runtime.start()
    await runtime.publish_message(Note(text="2"), TopicId("order.eu", "a"))
    await runtime.publish_message(Note(text="not"), TopicId("order.us", "a"))
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["1", "2"]


async def test_who_subscribes_again_does_not_handle_again_what_was_handled(runtimes: Runtimes) -> None:
    runtime = await runtimes.started()
    heard = await listener(runtime, "listener")
    subscription = TypeSubscription("order.eu", "listener")
    await runtime.add_subscription(subscription)
    await runtime.publish_message(Note(text="before"), TopicId("order.eu", "a"))
    await eventually(lambda: heard)
    await runtime.remove_subscription(subscription.id)
    await runtime.publish_message(Note(text="between"), TopicId("order.eu", "a"))
    await runtime.add_subscription(TypeSubscription("order.eu", "listener"))
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["before", "between"]
