"""Topics and recipients as programs write them."""

from __future__ import annotations

from typing import Any

import pytest

from callboard import AgentId, AgentType, DefaultTopicId, MessageHandlerContext, TopicId
from callboard.broker.errors import InvalidIdError
from callboard.runtime.sending import agent_of, topic_of


@pytest.mark.parametrize(
    "given", [TopicId("orders", "a"), "orders/a", DefaultTopicId("orders", "a")], ids=repr
)
def test_a_topic(given: object) -> None:
    assert topic_of(given) == TopicId("orders", "a")


def test_the_source_of_a_topic_type_is_the_key_of_the_running_agent() -> None:
    assert topic_of("orders") == TopicId("orders", "default")
    with MessageHandlerContext.populate_context(AgentId("clerk", "ada")):
        assert topic_of("orders") == TopicId("orders", "ada")


@pytest.mark.parametrize("given", [AgentId("clerk", "a/b"), "clerk/a/b"], ids=repr)
def test_an_agent(given: object) -> None:
    assert agent_of(given) == AgentId("clerk", "a/b")


@pytest.mark.parametrize("given", ["clerk", AgentType("clerk")], ids=repr)
def test_a_type_alone_is_refused_with_what_to_write(given: Any) -> None:
    with pytest.raises(InvalidIdError, match=r"AgentId\('clerk', 'default'\) or 'clerk/default'"):
        agent_of(given)


@pytest.mark.parametrize("given", ["", "two words"], ids=repr)
def test_what_is_advised_is_valid(given: str) -> None:
    with pytest.raises(InvalidIdError, match=r"AgentId\('counter', 'default'\) or 'counter/default'"):
        agent_of(given)


@pytest.mark.parametrize("given", [None, 5, TopicId("a", "b")], ids=repr)
def test_something_else_is_no_agent(given: Any) -> None:
    with pytest.raises(InvalidIdError, match="not a valid recipient"):
        agent_of(given)


@pytest.mark.parametrize("given", [None, 5, AgentId("a", "b"), "a b", ""], ids=repr)
def test_something_else_is_no_topic(given: Any) -> None:
    with pytest.raises(InvalidIdError, match="not a valid topic"):
        topic_of(given)
