"""Tasks and their results."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol, TypeAlias

from pydantic import BaseModel, Field

from callboard.cancellation import CancellationToken
from callboard.messages.base import BaseAgentEvent, BaseChatMessage
from callboard.messages.chat import TextMessage
from callboard.messages.unions import AnyMessage

from .errors import TaskError

Task: TypeAlias = str | BaseChatMessage | Sequence[BaseChatMessage] | None
Said: TypeAlias = BaseAgentEvent | BaseChatMessage


class TaskResult(BaseModel):
    """What came of a task.

    Attributes:
        messages: Everything that was said, in its order, without the pieces of streamed texts.
        stop_reason: Why it ended; None: nothing says so, as where an agent ran alone.
        output: The last message as an object, of a team with an `output_content_type`. It is not part of the JSON, for it is
            in the message.
    """

    messages: Sequence[AnyMessage]
    stop_reason: str | None = None
    output: BaseModel | None = Field(default=None, exclude=True)


class TaskRunner(Protocol):
    """What carries out tasks: an agent, or a team. It goes on where its last task ended."""

    async def run(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
    ) -> TaskResult:
        """Carry out a task.

        Args:
            task: What to do; None: go on with the last one.
            cancellation_token: Ends it at once.
            output_task_messages: Whether the task is in the result, too.
        """
        ...

    def run_stream(
        self,
        *,
        task: Task = None,
        cancellation_token: CancellationToken | None = None,
        output_task_messages: bool = True,
    ) -> AsyncGenerator[Said | TaskResult, None]:
        """Carry out a task; yields what is said as it is said, and at last the TaskResult."""
        ...


def task_messages(task: Task) -> list[BaseChatMessage]:
    """A task as messages; a text comes from "user".

    Raises:
        TaskError: It is an empty list, or no task at all (a ValueError).
    """
    if task is None:
        return []
    if isinstance(task, str):
        return [TextMessage(content=task, source="user")]
    if isinstance(task, BaseChatMessage):
        return [task]
    given: object = task
    if not isinstance(given, list | tuple):
        raise TaskError(f"A {type(given).__name__} is no task.")
    if not given:
        raise TaskError("Task list cannot be empty.")
    for message in given:
        if not isinstance(message, BaseChatMessage):
            raise TaskError(f"Invalid message type in sequence: {type(message).__name__}.")
    return list(task)
