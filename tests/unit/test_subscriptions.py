from collections.abc import Sequence
from typing import Any

import pytest

from callboard import (
    AgentId,
    AgentType,
    BaseAgent,
    CantHandleException,
    DefaultSubscription,
    DefaultTopicId,
    MessageContext,
    MessageHandlerContext,
    Subscription,
    SubscriptionInstantiationContext,
    TopicId,
    TypeSubscription,
    default_subscription,
    type_subscription,
)
from callboard.core.subscriptions import bind_subscriptions, bind_subscriptions_now, subscription_factory
from callboard.errors import DeclarationError


class Agent(BaseAgent):
    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        return None


def test_a_default_topic_outside_of_handlers() -> None:
    assert DefaultTopicId() == TopicId("default", "default")
    assert DefaultTopicId("visits") == TopicId("visits", "default")


def test_a_default_topic_inside_a_handler_takes_the_key_of_its_agent() -> None:
    with MessageHandlerContext.populate_context(AgentId("counter", "main")):
        assert DefaultTopicId() == TopicId("default", "main")
        assert DefaultTopicId("visits", "other") == TopicId("visits", "other")
    assert isinstance(DefaultTopicId(), TopicId)


def test_a_default_topic_is_checked_like_any_topic() -> None:
    with pytest.raises(ValueError, match="not a valid topic type"):
        DefaultTopicId("no spaces")


def test_a_default_subscription_takes_the_type_that_is_being_registered() -> None:
    with SubscriptionInstantiationContext.populate_context(AgentType("counter")):
        assert DefaultSubscription() == TypeSubscription("default", "counter")
        assert DefaultSubscription("visits") == TypeSubscription("visits", "counter")
    assert DefaultSubscription("visits", "other") == TypeSubscription("visits", "other")
    assert DefaultSubscription(agent_type=AgentType("other")).map_to_agent(
        TopicId("default", "k")
    ) == AgentId("other", "k")


def test_a_default_subscription_outside_of_a_registration_is_refused() -> None:
    with pytest.raises(CantHandleException, match=r"DefaultSubscription\(\) takes its agent type from"):
        DefaultSubscription()


async def test_decorators_name_subscriptions_of_a_class() -> None:
    @default_subscription
    class Bare(Agent):
        pass

    @type_subscription("a")
    @default_subscription()
    @type_subscription(topic_type="b")
    class Several(Agent):
        pass

    async def bound(agent_class: type[BaseAgent]) -> list[Subscription]:
        return await bind_subscriptions(agent_class.class_subscriptions(), AgentType("x"))

    assert await bound(Bare) == [TypeSubscription("default", "x")]
    assert await bound(Several) == [TypeSubscription(topic, "x") for topic in ("b", "default", "a")]
    assert await bound(Agent) == []


async def test_subscriptions_may_be_made_asynchronously() -> None:
    async def make() -> Sequence[Subscription]:
        return [DefaultSubscription()]

    @subscription_factory(make)
    class Later(Agent):
        pass

    assert await bind_subscriptions(Later.class_subscriptions(), AgentType("x")) == [
        TypeSubscription("default", "x")
    ]
    with pytest.raises(DeclarationError, match="Agent type 'x' makes its class subscriptions asynchronously"):
        bind_subscriptions_now(Later.class_subscriptions(), AgentType("x"))


def test_subscriptions_can_be_bound_without_waiting() -> None:
    assert bind_subscriptions_now([lambda: [DefaultSubscription()]], AgentType("x")) == [
        TypeSubscription("default", "x")
    ]
