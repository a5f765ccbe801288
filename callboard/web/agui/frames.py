"""The events of AG-UI, made of those of a run; their numbers are the same at every process."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    Interrupt,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from callboard.core.answers import APPROVAL
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
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)

from .asked import BEFORE_ID

Asking = InputRequestEvent | AsyncInputRequestEvent
SCALE: Final = 1000
"""Numbers for the frames of one event: frame `n * SCALE + i` comes from event `n`, which has three for each member that
is writing, and a few more."""

VOID: Final = "void"
"""Name of the event that says that a message does not count: `{"messageId": ...}`."""

ANSWERED: Final = "answered"
"""Name of the event that says that something that was waited for is over, whoever answered."""


class Frame(NamedTuple):
    """An event as it is sent.

    Attributes:
        number: Its place in the run; None: it has none.
        told: What the page is told.
    """

    number: int | None
    told: BaseEvent


@dataclass(slots=True)
class _Draft:
    """A message under way.

    Attributes:
        id: Of the message.
        text: What was shown of it.
    """

    id: str
    text: str = ""


class Frames:
    """Makes the frames of a run. Each message that begins ends before the next one of its member begins.

    Args:
        thread: The conversation, as the page names it.
        run_id: The run, as the page names it.
        shows_task: Whether the page does not know the task.
    """

    def __init__(self, thread: str, run_id: str, *, shows_task: bool) -> None:
        self.has_void = False
        self._thread, self._run_id, self._shows_task = thread, run_id, shows_task
        self._drafts: dict[str, _Draft] = {}  # by source
        self._calls: set[str] = set()
        self._results: set[str] = set()
        self._used: dict[str, TokenUsage] = {}
        self._last = ""

    def of(self, event: Event) -> list[Frame]:
        """The frames of an event that is not the last one."""
        return [Frame(event.number * SCALE + at, told) for at, told in enumerate(self._of(event))]

    def end(self, event: Event, asked: Sequence[Asking]) -> list[Frame]:
        """The frames with which a stream ends.

        Args:
            event: The last event of the run, or a question.
            asked: What the run waits for; nothing: it has ended.
        """
        told = [one for source in list(self._drafts) for one in self._void(source)]
        told.append(self._end(event, asked))
        return [Frame(event.number * SCALE + at, one) for at, one in enumerate(told)]

    def _of(self, event: Event) -> Sequence[BaseEvent]:
        if isinstance(event, StreamEvent):
            return self._piece(event) if event.is_draft else ()
        if isinstance(event, ToolCallEvent):
            return self._call(event)
        if isinstance(event, ToolResultEvent):
            return self._result(event)
        if isinstance(event, InterruptedEvent):
            return self._void(event.source)
        if event.is_draft:
            return ()
        if isinstance(event, AgentMessageEvent):
            return self._message(event)
        if isinstance(event, HandoffEvent):
            return self._void(event.source)
        if isinstance(event, UsageEvent):
            self._use(event)
        if isinstance(event, InputResponseEvent):
            told = {"interruptId": event.request_id, "status": event.status, "by": event.by}
            return [CustomEvent(name=ANSWERED, value={**told, "value": event.value})]
        return ()

    # Messages

    def _piece(self, event: StreamEvent) -> Sequence[BaseEvent]:
        draft, told = self._drafts.get(event.source), list[BaseEvent]()
        # One of which nothing says what it becomes goes on until it is said or void.
        if draft is None or (event.message_id and draft.id != event.message_id):
            name = event.message_id or f"{event.source}-{event.number}"
            told += self._void(event.source)
            told.append(_start(name, "assistant", event.source))
            draft = self._drafts[event.source] = _Draft(name)
        draft.text += event.content
        return [*told, TextMessageContentEvent(message_id=draft.id, delta=event.content)]

    def _message(self, event: AgentMessageEvent) -> Sequence[BaseEvent]:
        name, text = str(event.message.get("id") or event.uuid), str(event.message.get("text", ""))
        if event.number < 2 * ROOM:  # the first entry of a run is its task
            is_shown = self._shows_task and not name.startswith(BEFORE_ID)
            return _whole(name, "user", "", text) if is_shown else ()
        self._last = text
        draft = self._drafts.get(event.source)
        if draft is None or draft.id != name or not text.startswith(draft.text):
            # What was shown of it can't be taken back: a text that was changed is a message of its own.
            is_changed = draft is not None and draft.id == name
            return [
                *self._void(event.source),
                *_whole(f"{name}-changed" if is_changed else name, "assistant", event.source, text),
            ]
        del self._drafts[event.source]
        left = text.removeprefix(draft.text)
        rest = [TextMessageContentEvent(message_id=name, delta=left)] if left else []
        return [*rest, TextMessageEndEvent(message_id=name)]

    def _void(self, source: str) -> Sequence[BaseEvent]:
        draft = self._drafts.pop(source, None)
        if draft is None:
            return ()
        self.has_void = True
        ended = TextMessageEndEvent(message_id=draft.id)
        return [ended, CustomEvent(name=VOID, value={"messageId": draft.id})]

    # Tools of the team

    def _call(self, event: ToolCallEvent) -> Sequence[BaseEvent]:
        # It comes again when its turn counts.
        if event.call_id in self._calls:
            return ()
        self._calls.add(event.call_id)
        return call_of(event.call_id, event.name, event.arguments)

    def _result(self, event: ToolResultEvent) -> Sequence[BaseEvent]:
        if event.call_id in self._results:
            return ()
        self._results.add(event.call_id)
        name = f"result-{event.call_id}"
        return [ToolCallResultEvent(message_id=name, tool_call_id=event.call_id, content=event.content)]

    # The end

    def _use(self, event: UsageEvent) -> None:
        one = self._used.setdefault(
            event.model, TokenUsage(model=event.model or None, input_tokens=0, output_tokens=0)
        )
        one.input_tokens = (one.input_tokens or 0) + event.prompt_tokens
        one.output_tokens = (one.output_tokens or 0) + event.completion_tokens

    def _end(self, event: Event, asked: Sequence[Asking]) -> BaseEvent:
        usage = list(self._used.values()) or None
        if isinstance(event, ErrorEvent):
            return RunErrorEvent(message=event.text, code=event.error_type, usage=usage)
        named: dict[str, Any] = {"thread_id": self._thread, "run_id": self._run_id, "usage": usage}
        if asked:
            interrupts = [interrupt_of(one) for one in asked]
            return RunFinishedEvent(**named, outcome=RunFinishedInterruptOutcome(interrupts=interrupts))
        if isinstance(event, CompletedEvent) and event.state == "cancelled":
            return RunFinishedEvent(**named, outcome=RunFinishedCancelledOutcome())
        return RunFinishedEvent(**named, result=self._last, outcome=RunFinishedSuccessOutcome())


def interrupt_of(question: Asking) -> Interrupt:
    """A question as the protocol has it."""
    schema = dict(question.answer_schema)
    if question.choices:
        schema = {"type": "string", "enum": list(question.choices)}
    is_approval = question.details.get("kind") == APPROVAL
    return Interrupt(
        id=question.request_id,
        reason="confirmation" if is_approval else "input_required",
        message=question.prompt,
        response_schema=schema or {"type": "string"},
        expires_at=None if question.expires is None else question.expires.isoformat(),
        metadata={"source": question.source, "details": question.details},
    )


def call_of(id: str, name: str, arguments: str) -> Sequence[BaseEvent]:
    """A call of a tool."""
    return [
        ToolCallStartEvent(tool_call_id=id, tool_call_name=name),
        ToolCallArgsEvent(tool_call_id=id, delta=arguments),
        ToolCallEndEvent(tool_call_id=id),
    ]


def _start(id: str, role: Any, name: str) -> BaseEvent:
    return TextMessageStartEvent(message_id=id, role=role, name=name or None)


def _whole(id: str, role: Any, name: str, text: str) -> Sequence[BaseEvent]:
    piece = [TextMessageContentEvent(message_id=id, delta=text)] if text else []
    return [_start(id, role, name), *piece, TextMessageEndEvent(message_id=id)]


def open_among(events: Collection[Event], open_ids: Collection[str]) -> list[Asking]:
    """The questions among some events that wait for an answer."""
    return [one for one in events if isinstance(one, Asking) and one.request_id in open_ids]
