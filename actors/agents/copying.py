"""Copies of agents for other conversations."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

from callboard.code import CodeExecutor
from callboard.memory.base import Memory
from callboard.models.base import ChatCompletionClient
from callboard.protocol import AgentRuntime
from callboard.tools.base import Tool
from callboard.tools.workbench import Workbench

from .errors import ConversationError

T = TypeVar("T")

SHARED: Final = (ChatCompletionClient, Tool, Workbench, Memory, CodeExecutor, AgentRuntime)
"""What conversations share: it belongs to the process, and holds nothing of one conversation."""

DEPTH: Final = 4  # how far down in lists and dictionaries these are looked for


def copy_of(agent: T) -> T:
    """A deep copy of an agent that shares with it what conversations share.

    Raises:
        ConversationError: Something in it can't be copied (a TypeError).
    """
    memo: dict[int, Any] = {id(part): part for part in _shared(vars(agent).values(), DEPTH)}
    try:
        return copy.deepcopy(agent, memo)
    except Exception as error:
        name = str(getattr(agent, "name", type(agent).__name__))
        raise ConversationError(name, type(agent).__name__, f"{type(error).__name__}: {error}") from error


def _shared(values: Iterable[Any], depth: int) -> Iterator[Any]:
    for value in values:
        if isinstance(value, SHARED):
            yield value
        elif depth and isinstance(value, Mapping):
            yield from _shared(value.values(), depth - 1)
        elif depth and isinstance(value, list | tuple | set | frozenset):
            yield from _shared(value, depth - 1)
