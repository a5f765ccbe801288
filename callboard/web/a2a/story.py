"""A run as a task of A2A, made of its events and of nothing else: so every door process makes the same."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from a2a.types import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

from callboard.core.answers import how_to_answer
from callboard.messages.chat import BaseChatMessage
from callboard.runs.bus import ROOM
from callboard.runs.events import (
    AgentMessageEvent,
    AsyncInputRequestEvent,
    CompletedEvent,
    ErrorEvent,
    Event,
    HandoffEvent,
    InputRequestEvent,
    InputResponseEvent,
    InterruptedEvent,
    StreamEvent,
    is_question,
)
from callboard.web.served_runs import ServedRun

Asking: TypeAlias = InputRequestEvent | AsyncInputRequestEvent

SCALE: Final = 4
"""Numbers for the updates of one event: update `n * SCALE + i` comes from event `n`, which has two at most."""

RESULT: Final = "result"  # id of the artifact
NUMBER: Final = "number"
"""Where the metadata of a task or an update say its number, as a text: JSON's numbers are not exact for all of them."""

STATES: Final[Mapping[str, TaskState]] = {
    "queued": TaskState.TASK_STATE_SUBMITTED,
    "working": TaskState.TASK_STATE_WORKING,
    "paused": TaskState.TASK_STATE_WORKING,
    "unknown": TaskState.TASK_STATE_WORKING,
    "input_required": TaskState.TASK_STATE_INPUT_REQUIRED,
    "completed": TaskState.TASK_STATE_COMPLETED,
    "failed": TaskState.TASK_STATE_FAILED,
    "cancelled": TaskState.TASK_STATE_CANCELED,
}
"""States of runs, and of tasks."""

ENDED: Final = frozenset(STATES[state] for state in ("completed", "failed", "cancelled"))
Told: TypeAlias = TaskStatusUpdateEvent | TaskArtifactUpdateEvent


@dataclass(frozen=True, slots=True)
class Update:
    """An update of a task.

    Attributes:
        number: Its place: numbers of a task rise strictly, and are the same at every process.
        told: What the client is told.
    """

    number: int
    told: Told


@dataclass(slots=True)
class _Draft:
    """A message under way.

    Attributes:
        id: Of the message; "": nothing says it.
        text: What there is of it.
    """

    id: str
    text: str = ""


class TaskStory:
    """What a task was told to be, event by event.

    A message that a member has said is a status update. The artifact is the result: while a member writes it has what there
    is of the text, of one member at a time, and at the end it has the last message. An attempt that is void empties it.

    Args:
        run: The run.
    """

    def __init__(self, run: ServedRun) -> None:
        self.number = 0
        self.history: list[Message] = []
        self.questions: dict[str, Asking] = {}
        self._run = run
        self._task_id, self._context_id = run.id, run.conversation
        self._status = TaskStatus(state=TaskState.TASK_STATE_WORKING)
        self._result: list[Part] = []
        self._drafts: dict[str, _Draft] = {}  # by source
        self._shown = ""  # the source whose draft is in the artifact
        self._artifact: list[Part] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self._status.state in ENDED

    def add(self, event: Event) -> list[Update]:
        """Take the next event; returns the updates that it makes."""
        told = self._told(event)
        updates = [Update(event.number * SCALE + at, one) for at, one in enumerate(told)]
        for update in updates:
            named = {"source": clean(event.source)} if event.source else {}
            update.told.metadata.update({NUMBER: str(update.number), **named})
        self.number = updates[-1].number if updates else max(self.number, event.number * SCALE)
        return updates

    def task(
        self, state: str, open_questions: Collection[str], usage: Mapping[str, float], longest: int
    ) -> Task:
        """The task as it stands.

        Args:
            state: How the run stands, by what its manager stored.
            open_questions: Ids of those that wait for an answer.
            usage: What its models used.
            longest: Most messages of its history, the newest.
        """
        task = Task(id=self._run.id, context_id=self._run.conversation, status=self._status)
        asked = [one for name, one in self.questions.items() if name in open_questions]
        if asked and not self.is_over:
            # The oldest: it is the one that an answer without a name is for.
            task.status.CopyFrom(self._asking(asked[0]))
        elif not self.is_over:
            if task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED:  # and it was answered a moment ago
                task.status.ClearField("message")
            task.status.state = STATES["queued" if state == "queued" else "working"]
        if not task.status.HasField("timestamp"):
            task.status.timestamp.FromDatetime(datetime.now(UTC))
        if self._artifact is not None:
            task.artifacts.append(Artifact(artifact_id=RESULT, parts=self._artifact))
        task.history.extend(self.history[-longest:] if longest else ())
        task.metadata.update({NUMBER: str(self.number), **({"usage": dict(usage)} if usage else {})})
        if state == "paused":
            task.metadata.update({"paused": True})
        return task

    def waiting(self, said: BaseChatMessage) -> Message:
        """A message of a task that waits for its turn, of which there are no events yet."""
        return self._said(said.id, Role.ROLE_USER, [Part(text=clean(said.to_text()))], said.source)

    # Events

    def _told(self, event: Event) -> Sequence[Told]:
        if isinstance(event, StreamEvent):
            return self._piece(event) if event.is_draft else ()
        if isinstance(event, InterruptedEvent):
            return self._void(event.source)
        if event.is_draft:
            return ()
        if isinstance(event, AgentMessageEvent):
            return self._message(event)
        if isinstance(event, HandoffEvent):
            return self._void(event.source)
        if is_question(event):
            self.questions[event.request_id] = event
            return [self._now(self._asking(event))]
        if isinstance(event, InputResponseEvent):
            self.questions.pop(event.request_id, None)
            return [self._now(_status(TaskState.TASK_STATE_WORKING, event))]
        if isinstance(event, ErrorEvent):
            said = self._said(f"{event.uuid}", Role.ROLE_AGENT, [Part(text=clean(event.text))], event.source)
            return [self._now(_status(TaskState.TASK_STATE_FAILED, event, said))]
        return self._end(event) if isinstance(event, CompletedEvent) else ()

    def _message(self, event: AgentMessageEvent) -> Sequence[Told]:
        message = event.message
        parts = [Part(text=clean(str(message.get("text", ""))))]
        if "data" in message:
            parts.append(Part(data=value_of(message["data"]), media_type="application/json"))
        # The first entry of a run is its task.
        is_task = event.number < 2 * ROOM
        role = Role.ROLE_USER if is_task else Role.ROLE_AGENT
        said = self._said(str(message.get("id") or event.uuid), role, parts, event.source)
        self.history.append(said)
        if is_task:
            return ()
        self._result = parts[-1:]
        self._drafts.pop(event.source, None)
        if self._shown == event.source:
            self._shown = ""
        return [self._now(_status(TaskState.TASK_STATE_WORKING, event, said))]

    def _piece(self, event: StreamEvent) -> Sequence[Told]:
        draft = self._drafts.get(event.source)
        # One of which nothing says what it becomes goes on until it is said or void.
        is_new = draft is None or bool(event.message_id and draft.id != event.message_id)
        if draft is None or is_new:
            draft = self._drafts[event.source] = _Draft(event.message_id)
        draft.text += event.content
        if self._shown not in ("", event.source):
            return ()
        is_first = is_new or not self._shown
        self._shown = event.source
        return [self._show(draft.text, None if is_first else event.content)]

    def _void(self, source: str) -> Sequence[Told]:
        self._drafts.pop(source, None)
        if self._shown != source or not source:
            return ()
        self._shown = ""
        return [self._show("", None)]

    def _end(self, event: CompletedEvent) -> Sequence[Told]:
        state = STATES[event.state]
        told: list[Told] = []
        if state == TaskState.TASK_STATE_COMPLETED and self._result:
            self._artifact = self._result
            artifact = Artifact(artifact_id=RESULT, parts=self._result)
            last = self._shown_as(artifact)
            last.last_chunk = True
            told.append(last)
        return [*told, self._now(_status(state, event))]

    # What is told

    def _show(self, text: str, piece: str | None) -> TaskArtifactUpdateEvent:
        """The text that is being written; only its last piece, where the client has the others."""
        self._artifact = [Part(text=clean(text))]
        parts = self._artifact if piece is None else [Part(text=clean(piece))]
        artifact = Artifact(artifact_id=RESULT, parts=parts)
        told = self._shown_as(artifact)
        told.append = piece is not None
        return told

    def _shown_as(self, artifact: Artifact) -> TaskArtifactUpdateEvent:
        return TaskArtifactUpdateEvent(task_id=self._task_id, context_id=self._context_id, artifact=artifact)

    def _now(self, status: TaskStatus) -> TaskStatusUpdateEvent:
        self._status = status
        return TaskStatusUpdateEvent(task_id=self._task_id, context_id=self._context_id, status=status)

    def _asking(self, event: Asking) -> TaskStatus:
        choices, schema, details = event.choices, event.answer_schema, event.details
        words = how_to_answer(choices, schema, details)
        told = {"question": event.request_id, "choices": list(choices), "schema": schema, "details": details}
        expires = {} if event.expires is None else {"expires": event.expires.isoformat()}
        parts = [
            Part(text=clean(f"{event.prompt} [{words}]")),
            Part(data=value_of(told | expires), media_type="application/json"),
        ]
        said = self._said(event.request_id, Role.ROLE_AGENT, parts, event.source)
        return _status(TaskState.TASK_STATE_INPUT_REQUIRED, event, said)

    def _said(self, id: str, role: Role, parts: Sequence[Part], source: str) -> Message:
        named = {"source": clean(source)} if source else {}
        return Message(
            message_id=clean(id),
            role=role,
            parts=parts,
            metadata=named,
            task_id=self._task_id,
            context_id=self._context_id,
        )


def _status(state: TaskState, event: Event, message: Message | None = None) -> TaskStatus:
    status = TaskStatus(state=state, message=message)
    status.timestamp.FromDatetime(event.at)
    return status


def value_of(data: Any) -> Value:
    """Plain data as a part has it."""
    # A number that is none, and half of a character, are in no JSON.
    text = clean(json.dumps(data, ensure_ascii=False))
    return ParseDict(json.loads(text, parse_constant=lambda _: None), Value())


def clean(text: str) -> str:
    """A text without halves of characters, which the protocol can't carry."""
    return text.encode("utf-8", "replace").decode()
