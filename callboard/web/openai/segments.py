"""A run as clients of OpenAI see it: a row of segments, each of which ends with a question, and the last with the run."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, TypeGuard

from callboard.core.answers import answer_of
from callboard.core.people import InputRequest
from callboard.errors import (
    InputAnsweredError,
    InputExpiredError,
    InputRequestUnknownError,
    InputWithdrawnError,
)
from callboard.messages.chat import BaseChatMessage
from callboard.runs.bus import ROOM
from callboard.runs.events import (
    AgentMessageEvent,
    AsyncInputRequestEvent,
    CompletedEvent,
    ErrorEvent,
    Event,
    InputRequestEvent,
    is_question,
)
from callboard.teams.listing import has_conversation, queued_task, stored_state
from callboard.teams.protocol import IfBusy
from callboard.web.api import Call
from callboard.web.event_stream import first_of, gone
from callboard.web.problems import Problem, not_found
from callboard.web.served_runs import ServedRun, new_run

from .answers import NO_RETRY, Refusal
from .asked import NOTES, Answer, Said, task_of

Asking: TypeAlias = InputRequestEvent | AsyncInputRequestEvent
Status: TypeAlias = Literal["queued", "in_progress", "completed", "failed", "cancelled"]
MOST_KEY: Final = 255  # characters
MOST_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a run, from its beginning or from a question on.

    Its id says all of it, so that any process finds it.

    Attributes:
        run: The run.
        after: Number of the question behind which it begins; 0: it begins with the run.
    """

    run: ServedRun
    after: int = 0

    @property
    def id(self) -> str:
        """The id of the run, and the number; no id of a run has a dot."""
        return f"{self.run.id}.{self.after}" if self.after else self.run.id

    def behind(self, question: Event) -> Segment:
        """The one that begins when a question is answered."""
        return Segment(self.run, question.number)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a segment has.

    Attributes:
        events: Its events until now.
        status: How it stands.
        notes: What the request was; nothing where the run began at another door.
        began: When the run began.
        used: Tokens that its models read and wrote.
    """

    events: Sequence[Event]
    status: Status
    notes: Mapping[str, Any]
    began: datetime
    used: tuple[int, int]

    @property
    def texts(self) -> list[str]:
        """What the members said."""
        return [event.message["text"] for event in self.events if is_said(event)]

    @property
    def question(self) -> Asking | None:
        """The question with which it ends; None: it ends otherwise."""
        last = self.events[-1] if self.events else None
        return last if last is not None and is_question(last) else None

    @property
    def error(self) -> str | None:
        """Why the run failed; None: it has not."""
        last = self.events[-1] if self.events else None
        return last.text if isinstance(last, ErrorEvent) else None


def is_said(event: Event) -> TypeGuard[AgentMessageEvent]:
    """Whether a member has said something: the first entry of a run is its task."""
    return isinstance(event, AgentMessageEvent) and not event.is_draft and event.number >= 2 * ROOM


def is_last(event: Event) -> bool:
    """Whether a segment ends with this."""
    return is_question(event) or isinstance(event, ErrorEvent | CompletedEvent)


def check_reads(call: Call) -> None:
    """Refuse one who may begin and not read: what is begun here is told.

    Raises:
        Problem: The scope is missing.
    """
    if "read" not in call.identity.scopes:
        raise Problem(403, "this token may not do this: it lacks the scope 'read'")


async def named(call: Call, name: str, prefix: str) -> Segment:
    """The segment of an id.

    Raises:
        Problem: There is none, or it is not for this one.
    """
    run_name, dot, number = name.removeprefix(prefix).partition(".")
    is_number = number.isascii() and number.isdecimal() and len(number) <= MOST_DIGITS
    if not name.startswith(prefix) or (dot and not is_number):
        raise not_found("such response")
    segment = Segment(await call.runs.found(call.identity, run_name), int(number or 0))
    if segment.id != name.removeprefix(prefix):
        raise not_found("such response")
    if segment.after and segment.after not in [one.number for one in await _questions(call, segment.run)]:
        raise not_found("such response")
    return segment


async def begin(
    call: Call, service: str, conversation: str | None, said: Said, body: bytes, notes: Mapping[str, Any]
) -> Segment:
    """Begin a run; with the same Idempotency-Key, again, it is the same one.

    Args:
        call: Who asks.
        service: The model.
        conversation: As the client names it; None: one of its own.
        said: What the request says.
        body: The request, as it came.
        notes: What of it is shown with the response.
    """
    if service not in call.runs.services(call.identity):
        raise Refusal(
            404,
            f"there is no model {service!r}, or not for you; /v1/models has them",
            "model_not_found",
            "model",
        )
    key = call.request.headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= MOST_KEY:
        raise Problem(400, f"an Idempotency-Key has 1 to {MOST_KEY} characters")
    new = new_run(call.identity, service, conversation)
    is_fresh = conversation is None or not await has_conversation(call.runs.runtime, new.address)
    task = task_of(said, is_fresh, notes.get("instructions"), notes)
    if_busy: IfBusy = "enqueue" if notes.get("background") else "reject"
    return Segment(await call.runs.begin(new, task, if_busy, key, body))


async def answered(call: Call, answers: Sequence[Answer]) -> Segment:
    """Answer questions; returns the segment that goes on behind the last one.

    Raises:
        Problem: One can't be answered, or not so.
    """
    if "answer" not in call.identity.scopes:
        raise Problem(403, "this token may not do this: it lacks the scope 'answer'")
    segments = [await _answered(call, one) for one in answers]
    return max(segments, key=lambda one: one.after)


async def _answered(call: Call, answer: Answer) -> Segment:
    run, question = await call.runs.question(call.identity, answer.question)
    asked = next((one for one in await _questions(call, run) if one.request_id == question.id), None)
    if asked is None:
        raise InputRequestUnknownError(answer.question)
    following = Segment(run, asked.number)
    value = answer_of(answer.text, question.id, question.choices, question.schema, question.details)
    try:
        await call.runs.runtime.inputs.answer(question.id, value, by=call.identity.name)
    except (InputAnsweredError, InputExpiredError, InputWithdrawnError) as error:
        # A client whose connection broke sends its answer again.
        if not await _is_own(call, question, value):
            where = f"{error} The run goes on: resp_{following.id}."
            raise Refusal(409, where, "already_answered", headers=NO_RETRY) from None
    return following


async def _is_own(call: Call, question: InputRequest, value: Any) -> bool:
    now = await call.runs.runtime.inputs.get(question.id)
    return now.status == "answered" and (now.by, now.answer) == (call.identity.name, value)


async def _questions(call: Call, run: ServedRun) -> list[Asking]:
    return [event for event in await call.runs.source(run).so_far() if is_question(event)]


async def read(call: Call, segment: Segment) -> Reading:
    """What a segment has now."""
    source = call.runs.source(segment.run)
    events: list[Event] = []
    for event in await source.so_far():
        if event.number > segment.after:
            events.append(event)
            if is_last(event):
                break
    state = await stored_state(call.runs.runtime, segment.run.address, segment.run.run_id)
    run = segment.run
    waiting = await queued_task(call.runs.runtime, run.address, run.run_id) if state == "queued" else []
    said = [*waiting, *await source.said()]
    task = [one for one in said if isinstance(one, BaseChatMessage) and NOTES in one.metadata][:1]
    return Reading(
        events,
        _status(events, state),
        json.loads(task[0].metadata[NOTES]) if task else {},
        said[0].created_at if said else datetime.now(UTC),
        await _used(call, segment),
    )


async def read_on(call: Call, segment: Segment, before: Reading, events: Sequence[Event]) -> Reading:
    """What a segment has at its end, for one who has read it from the beginning: nothing of it is read again.

    Args:
        call: Who reads.
        segment: What is read.
        before: What it had when the reading began.
        events: All that count.
    """
    return replace(before, events=events, status=_status(events, ""), used=await _used(call, segment))


async def _used(call: Call, segment: Segment) -> tuple[int, int]:
    spent = [part.spent for part in (await call.runs.source(segment.run).cost()).parts]
    return sum(one.prompt_tokens for one in spent), sum(one.completion_tokens for one in spent)


def _status(events: Sequence[Event], state: str) -> Status:
    last = events[-1] if events else None
    if isinstance(last, ErrorEvent):
        return "failed"
    if isinstance(last, CompletedEvent):
        return "cancelled" if last.state == "cancelled" else "completed"
    if last is not None and is_question(last):
        return "completed"
    return "queued" if state == "queued" else "in_progress"


async def ended(call: Call, segment: Segment, prefix: str) -> Reading:
    """Wait until a segment has ended.

    Args:
        call: Who waits.
        segment: For what.
        prefix: Of its id, as the client knows it.

    Raises:
        Problem: The client has gone, or this process ends; the run goes on.
    """
    call.streams.check_room()
    with call.streams.one():
        end, *_ = await first_of(_end(call, segment), gone(call.request.receive), call.streams.closing.wait())
    if isinstance(end, asyncio.CancelledError):
        where = f"this process ends, and the run goes on: retrieve {prefix}{segment.id}"
        raise Refusal(503, where, "goes_on", headers=NO_RETRY)
    if isinstance(end, BaseException):
        raise end
    return await read(call, segment)


async def _end(call: Call, segment: Segment) -> None:
    portions = call.runs.source(segment.run).read(segment.after, drafts=False)
    async with aclosing(portions):
        async for portion in portions:
            if any(map(is_last, portion)):
                return
