"""Copies of agents for other conversations."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from types import MethodType
from typing import Any, Final, Protocol, Self, TypeVar, runtime_checkable

from callboard.code import CodeExecutor
from callboard.memory.base import Memory
from callboard.memory.contexts.base import ChatCompletionContext
from callboard.models.base import ChatCompletionClient
from callboard.protocol import AgentRuntime
from callboard.tools.base import Tool
from callboard.tools.workbench import Workbench

from .errors import ConversationError

T = TypeVar("T")

SHARED: Final = (ChatCompletionClient, Tool, Workbench, Memory, CodeExecutor, AgentRuntime)
"""What conversations share: it belongs to the process, and holds nothing of one conversation."""

DEPTH: Final = 4  # how far down in lists and dictionaries these are looked for


@runtime_checkable
class Conversational(Protocol):
    """What has its own way to be copied for another conversation: an agent, or a team."""

    def for_conversation(self) -> Self:
        """One like this, for another conversation."""
        ...


def twin_of(participant: T) -> T:
    """An agent or team like this one for another conversation: by its own `for_conversation`, else a copy.

    Raises:
        ConversationError: Something in it can't be copied (a TypeError).
    """
    return participant.for_conversation() if isinstance(participant, Conversational) else copy_of(participant)


def copy_of(agent: T) -> T:
    """A deep copy of an agent or a team that shares with it what conversations share.

    Agents and teams inside are copied by their own `for_conversation`. Methods of other objects, which it was given as
    functions, stay methods of these.

    Raises:
        ConversationError: Something in it can't be copied (a TypeError).
    """
    try:
        memo: dict[int, Any] = dict(_known(agent, vars(agent).values(), DEPTH))
        return copy.deepcopy(agent, memo)
    except ConversationError:
        raise
    except Exception as error:
        name = str(getattr(agent, "name", type(agent).__name__))
        raise ConversationError(name, type(agent).__name__, f"{type(error).__name__}: {error}") from error


def _known(owner: object, values: Iterable[Any], depth: int) -> Iterator[tuple[int, Any]]:
    """What takes the place of which object in a copy, by the objects' ids."""
    for value in values:
        if isinstance(value, SHARED) or (isinstance(value, MethodType) and value.__self__ is not owner):
            yield id(value), value
        elif isinstance(value, Conversational):
            yield id(value), value.for_conversation()
        elif depth and isinstance(value, ChatCompletionContext):
            yield from _known(owner, vars(value).values(), depth - 1)
        elif depth and isinstance(value, Mapping):
            yield from _known(owner, value.values(), depth - 1)
        elif depth and isinstance(value, list | tuple | set | frozenset):
            yield from _known(owner, value, depth - 1)
