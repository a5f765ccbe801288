"""One run as a tree in time, made of what its stream has: turns, attempts, calls, questions, and teams inside of teams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal, TypeAlias

from callboard.agents.base import Said
from callboard.messages.chat import BaseChatMessage, HandoffMessage
from callboard.messages.events import (
    InputAnsweredEvent,
    InputRequestedEvent,
    ModelClientStreamingChunkEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from callboard.runtime.run_history import RunEntry

from .protocol import RunEnded, RunHeld, Shown

SpanKind: TypeAlias = Literal["run", "turn", "manager", "attempt", "tool", "question", "message", "held"]
SpanState: TypeAlias = Literal["ok", "open", "failed", "void", "cancelled", "expired", "withdrawn"]
MOST_TEXT: Final = 200  # characters of what was said or asked


@dataclass(slots=True)
class Span:
    """Something that took time in a run, with what happened in it.

    Attributes:
        kind: What it is. An "attempt" is one that died: what was shown of it is void.
        name: Who spoke, or which tool was called.
        began: When it began, as far as the stream says: a turn begins with what came before it, or with its first sign.
        ended: When it ended; None: it has not, as far as is known.
        state: How it stands.
        text: The beginning of what was said, asked, called with or raised.
        prompt_tokens, completion_tokens: What models used for it, as its messages say; 0: they say nothing.
        turn: The turn, as a path through nested teams; empty for what is none.
        spans: What happened in it, in order.
    """

    kind: SpanKind
    name: str
    began: datetime
    ended: datetime | None = None
    state: SpanState = "ok"
    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    turn: tuple[int, ...] = ()
    spans: list[Span] = field(default_factory=list["Span"])


class RunTrace:
    """Grows with each entry of a run's stream.

    Attributes:
        root: The run; None: nothing of it was read yet.
    """

    def __init__(self) -> None:
        self.root: Span | None = None
        self._turns: dict[tuple[int, ...], Span] = {}
        self._attempts: dict[tuple[int, ...], str] = {}
        self._seen: set[str] = set()  # ids of messages
        self._told: dict[tuple[int, ...], set[str]] = {}  # those that the last attempt at a turn has shown
        self._calls: dict[str, Span] = {}
        self._questions: dict[str, Span] = {}
        self._before: datetime | None = None

    def add(self, entry: RunEntry) -> None:
        """One more entry, in their order."""
        if self.root is None:
            self.root = Span("run", "", entry.at, state="open")
        if isinstance(entry.event, Shown):
            self._shown(self.root, entry.at, entry.event)
        elif isinstance(entry.event, RunHeld):
            self.root.spans.append(Span("held", f"turn {entry.event.turn}", entry.at, state="open"))
        elif isinstance(entry.event, RunEnded):
            self._end(self.root, entry.at, entry.event)

    def _shown(self, root: Span, at: datetime, shown: Shown) -> None:
        if shown.is_task:
            root.name = root.name or (shown.began.team if shown.began else "")
            root.text = _short("\n".join(message.to_text() for message in shown.messages))
            self._seen.update(message.id for message in shown.messages)
            self._before = at
            return
        for held in root.spans:
            if held.kind == "held" and held.ended is None:
                held.ended, held.state = at, "ok"
        span = self._turn(root, at, shown)
        self._void(span, at, shown)
        for message in shown.messages:
            self._message(span, at, message)
        if shown.is_final and not shown.goes_on and not shown.is_aside:
            span.ended, span.state = at, "ok"
            if len(shown.turn) == 1:
                self._before = at

    def _turn(self, root: Span, at: datetime, shown: Shown) -> Span:
        path = shown.turn
        if path in self._turns and path[-1] != 0:
            return self._turns[path]
        outer = self._turns.get(path[:-1], root)
        first = min((message.created_at for message in shown.messages), default=at)
        began = self._before if len(path) == 1 and self._before is not None else min(first, at)
        span = Span("turn" if path[-1] else "manager", shown.source, began, state="open", turn=path)
        outer.spans.append(span)
        self._turns[path] = span
        return span

    def _void(self, span: Span, at: datetime, shown: Shown) -> None:
        """Drafts of another attempt come before: that one died, and what was shown of it is void."""
        if shown.is_aside or not shown.turn[-1]:
            return
        before = self._attempts.get(shown.turn)
        self._attempts[shown.turn] = shown.attempt
        if before is None or before == shown.attempt:
            return
        number = 1 + sum(inner.kind == "attempt" for inner in span.spans)
        asked = [inner for inner in span.spans if inner.kind == "question"]
        dead = [inner for inner in span.spans if inner.kind not in ("attempt", "question")]
        kept = [inner for inner in span.spans if inner.kind == "attempt"]
        lost = Span("attempt", f"attempt {number}", kept[-1].ended or at if kept else span.began, at, "void")
        lost.spans = dead
        for inner in dead:
            inner.state = "void" if inner.ended is None else inner.state
        # The next attempt says with the same ids what it has from recorded steps.
        self._seen -= self._told.pop(shown.turn, set())
        self._turns = {path: one for path, one in self._turns.items() if path[:-1] != shown.turn}
        span.spans = [*kept, lost, *asked]

    def _message(self, span: Span, at: datetime, message: Said) -> None:
        if message.id in self._seen or isinstance(message, ModelClientStreamingChunkEvent):
            return
        self._seen.add(message.id)
        if not isinstance(message, InputRequestedEvent | InputAnsweredEvent):
            self._told.setdefault(span.turn, set()).add(message.id)
        if message.models_usage is not None:
            span.prompt_tokens += message.models_usage.prompt_tokens
            span.completion_tokens += message.models_usage.completion_tokens
        self._happened(span, min(message.created_at, at), message)

    def _happened(self, span: Span, when: datetime, message: Said) -> None:
        match message:
            case ToolCallRequestEvent():
                for call in message.content:
                    self._calls[call.id] = Span("tool", call.name, when, None, "open", _short(call.arguments))
                    span.spans.append(self._calls[call.id])
            case ToolCallExecutionEvent():
                for result in message.content:
                    _close(self._calls.get(result.call_id), when, "failed" if result.is_error else "ok")
            case InputRequestedEvent():
                asked = Span("question", message.source, when, None, "open", _short(message.content))
                self._questions[message.request_id] = asked
                span.spans.append(asked)
            case InputAnsweredEvent():
                state: SpanState = "ok" if message.status == "answered" else message.status
                _close(self._questions.get(message.request_id), when, state)
            case BaseChatMessage():
                text = f"to {message.target}" if isinstance(message, HandoffMessage) else message.to_text()
                span.spans.append(Span("message", message.source, when, when, text=_short(text)))
            case _:
                pass

    def _end(self, root: Span, at: datetime, end: RunEnded) -> None:
        state: SpanState = "ok" if end.state == "completed" else end.state
        for span in _all(root):
            if span.ended is None and span.kind != "run":
                span.state = "void" if state == "ok" else state
        root.ended, root.state = at, state
        if end.error is not None:
            root.text = _short(f"{root.text}\n{end.error.error_type}: {end.error.text}".strip())


def _close(span: Span | None, at: datetime, state: SpanState) -> None:
    if span is not None:
        span.ended, span.state = at, state


def _all(span: Span) -> Iterable[Span]:
    yield span
    for inner in span.spans:
        yield from _all(inner)


def _short(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}..."
