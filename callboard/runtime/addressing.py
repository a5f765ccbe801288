"""Where a message goes, as a program may write it: an id, or its text."""

from __future__ import annotations

from callboard.broker import AgentId, AgentType, TopicId
from callboard.broker.errors import InvalidIdError
from callboard.broker.ids import AGENT_TYPE
from callboard.subscriptions import DefaultTopicId


def topic_of(given: object) -> TopicId:
    """The topic of a publish.

    Args:
        given: the topic; `type/source`; or a type alone, whose source is that of a DefaultTopicId.

    Raises:
        InvalidIdError: it is something else, or its type is not valid (a ValueError).
    """
    if isinstance(given, TopicId):
        return given
    if isinstance(given, str):
        return TopicId.from_str(given) if "/" in given else DefaultTopicId(given)
    raise InvalidIdError(
        "topic", given, "a type and a source, such as TopicId('orders', 'default'), or 'orders'"
    )


def agent_of(given: object) -> AgentId:
    """The agent that a message is for.

    Args:
        given: its id, or `type/key`. A type alone could mean any key, so it is refused.

    Raises:
        InvalidIdError: it is something else, or its type is not valid (a ValueError).
    """
    if isinstance(given, AgentId):
        return given
    if isinstance(given, str) and "/" in given:
        return AgentId.from_str(given)
    text = str(given) if isinstance(given, str | AgentType) else ""
    name = text if AGENT_TYPE.match(text) else "counter"
    rule = f"a type and a key, such as AgentId({name!r}, 'default') or '{name}/default'"
    raise InvalidIdError("recipient", given, rule)
