"""What a run begins with: its team and its task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from callboard.agents.task import Task, task_messages
from callboard.messages.base import BaseChatMessage
from callboard.teams.group_chat import BaseGroupChat
from callboard.teams.local import Participant

from . import variables
from .errors import RunDeclarationError
from .options import RunOptions
from .team import run_team

OF_TEAM: Final = ("chat_manager", "max_turns", "termination", "tools", "is_termination_message", "name")


def team_of(agents: Sequence[Participant], options: RunOptions) -> BaseGroupChat:
    """The team that carries it out; see `run_team`."""
    given: dict[str, Any] = dict(options)
    return run_team(*agents, **{key: given[key] for key in OF_TEAM if key in given})


def task_with(message: Task, *known: Mapping[str, Any] | None) -> list[BaseChatMessage] | None:
    """The task with what is known besides; of two values of a variable the later one.

    Raises:
        RunDeclarationError: Something is known, and there is no task (a ValueError).
        ContextVariableError: One of them is no plain data (a ValueError).
        TaskError: The task is none (a ValueError).
    """
    messages, values = task_messages(message), {}
    for some in known:
        values.update(variables.as_json({} if some is None else some))
    if not values:
        return messages or None
    if not messages:
        raise RunDeclarationError("Context variables go with a message: give run() a message as well.")
    first = messages[0].model_copy(deep=True)
    first.metadata.update(variables.written(values))
    return [first, *messages[1:]]
