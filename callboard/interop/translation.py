"""The real `autogen_core`, and its ids, subscriptions and errors as ours, and back.

AutoGen's classes are typed as Any: type checkers then say the same of this code whether the package is installed or not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from callboard.broker import AgentId, TopicId, TypePrefixSubscription, TypeSubscription
from callboard.broker.remote_errors import register_error
from callboard.errors import DeclarationError, NotAccessibleError, UndeliverableException
from callboard.foundation import CantHandleException, MissingPackageError

try:
    core: Final[Any] = import_module("autogen_core")
    errors: Final[Any] = import_module("autogen_core.exceptions")
except ModuleNotFoundError:
    raise MissingPackageError("autogen_core", "autogen") from None


def our_agent(agent_id: Any) -> AgentId:
    """An AgentId of AutoGen as ours."""
    return AgentId(agent_id.type, agent_id.key)


def our_sender(agent_id: Any | None) -> AgentId | None:
    """The sender of a message as ours; None when no agent sends it."""
    return None if agent_id is None else our_agent(agent_id)


def our_topic(topic_id: Any) -> TopicId:
    """A TopicId of AutoGen as ours."""
    return TopicId(topic_id.type, topic_id.source)


def their_agent(agent_id: AgentId | None) -> Any:
    """An AgentId of ours as AutoGen's; None stays None."""
    return None if agent_id is None else core.AgentId(agent_id.type, agent_id.key)


def their_topic(topic_id: TopicId | None) -> Any:
    """A TopicId of ours as AutoGen's; None stays None."""
    return None if topic_id is None else core.TopicId(topic_id.type, topic_id.source)


def our_subscription(subscription: Any) -> TypeSubscription | TypePrefixSubscription:
    """A subscription of AutoGen as ours, with its id.

    Raises:
        DeclarationError: it is of a class of the user's own, whose code no other process has (a TypeError).
    """
    # By their fields and not by their methods, and no subclass that may have another rule.
    if _is_of(subscription, core.TypeSubscription):
        return TypeSubscription(subscription.topic_type, subscription.agent_type, subscription.id)
    if _is_of(subscription, core.TypePrefixSubscription):
        return TypePrefixSubscription(
            subscription.topic_type_prefix, subscription.agent_type, subscription.id
        )
    raise DeclarationError(
        f"{type(subscription).__name__} can't cross processes",
        "use TypeSubscription or TypePrefixSubscription",
    )


def _is_of(subscription: Any, cls: Any) -> bool:
    rules = ("is_match", "map_to_agent")
    return isinstance(subscription, cls) and all(
        getattr(type(subscription), rule) is getattr(cls, rule) for rule in rules
    )


def register_their_errors() -> None:
    """Makes AutoGen's errors come back from other processes as themselves."""
    register_error(
        errors.CantHandleException,
        errors.UndeliverableException,
        errors.MessageDroppedException,
        errors.NotAccessibleError,
    )
    # `tool_agent_caller_loop` tells these from errors of its own; they are no Exceptions, and known by their fields.
    tools: Any = import_module("autogen_core.tool_agent")
    register_error(
        tools.ToolException,
        tools.ToolNotFoundException,
        tools.InvalidToolArgumentsException,
        tools.ToolExecutionException,
    )


@contextmanager
def as_theirs() -> Iterator[None]:
    """Raises AutoGen's errors where ours have one of the same meaning."""
    try:
        yield
    except UndeliverableException as error:
        raise errors.UndeliverableException(str(error)) from error
    except CantHandleException as error:
        raise errors.CantHandleException(str(error)) from error
    except NotAccessibleError as error:
        raise errors.NotAccessibleError(str(error)) from error
