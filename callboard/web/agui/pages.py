"""What pages ask for: a run that they begin or answer, told as it happens, and a conversation that they come back to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

from ag_ui.core import (
    PROTOCOL_VERSION,
    AssistantMessage,
    FunctionCall,
    Message,
    MessagesSnapshotEvent,
    RunAgentInput,
    RunFinishedEvent,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from starlette.responses import Response

from callboard.core.answers import answer_of
from callboard.core.people import InputRequest
from callboard.errors import InputAnsweredError, InputExpiredError, InputWithdrawnError
from callboard.runs.bus import ROOM
from callboard.runs.events import (
    AgentMessageEvent,
    CompletedEvent,
    ErrorEvent,
    Event,
    ToolCallEvent,
    ToolResultEvent,
    is_question,
)
from callboard.teams.listing import has_conversation, has_run
from callboard.web.api import LAST_NUMBER, Call
from callboard.web.event_stream import EventStream, Portions
from callboard.web.problems import Problem, not_found
from callboard.web.requests import body_of, number_of, read_as
from callboard.web.served_runs import ServedRun

from .asked import BEFORE_ID, Answer, answers_in, check, task_in
from .frames import SCALE, Frame, Frames, open_among

MOST_RUNS: Final = 50
"""Runs of a conversation of which a page that comes back is shown the messages."""


async def run(call: Call) -> Response:
    """Begin a run, or answer what it waits for, and tell what happens. The same input, again, is the same run."""
    asked = await _asked(call)
    answers = answers_in(asked)
    if not answers:
        begun = await _begun(call, asked)
        return _stream(call, begun, asked, 0, is_known=True)
    run, after = await _answered(call, asked, answers)
    return _stream(call, run, asked, after, is_known=True)


async def connect(call: Call) -> Response:
    """Tell a page that comes back what was said in a conversation, and what happens in its last run."""
    asked = await _asked(call)
    run = await _last_run(call, asked.thread_id)
    if run is None:
        return EventStream(_nothing(asked), call.streams, _written(""))
    return _stream(call, run, asked, 0, is_known=False)


async def _asked(call: Call) -> RunAgentInput:
    call.runs.check_service(call.identity, call.request.path_params["service"])
    asked = read_as(RunAgentInput, call.request, await body_of(call.request, call.options))
    check(asked)
    call.streams.check_room()
    return asked


def _check_scope(call: Call, scope: str) -> None:
    if scope not in call.identity.scopes:
        raise Problem(403, f"this token may not do this: it lacks the scope {scope!r}")


async def _begun(call: Call, asked: RunAgentInput) -> ServedRun:
    new = ServedRun(call.identity, call.request.path_params["service"], asked.thread_id, asked.run_id)
    _check_scope(call, "run")
    await call.runs.runtime.open()
    # A page that was loaded again, or whose connection broke, sends its input again.
    if await has_run(call.runs.runtime, new.address, new.run_id):
        return new
    is_fresh = not await has_conversation(call.runs.runtime, new.address)
    return await call.runs.begin(new, task_in(asked, is_fresh), "reject", None, b"")


async def _last_run(call: Call, thread: str) -> ServedRun | None:
    found = await _runs_of(call, thread, 1)
    return found[0] if found else None


async def _runs_of(call: Call, thread: str, limit: int) -> list[ServedRun]:
    """Those of a conversation, the newest first."""
    service = call.request.path_params["service"]
    await call.runs.runtime.open()
    found, _ = await call.runs.listed(call.identity, lambda _: True, service, limit, None, thread)
    return [run for run, _ in found]


# Answers


async def _answered(call: Call, asked: RunAgentInput, answers: Sequence[Answer]) -> tuple[ServedRun, int]:
    """Answer; returns the run, and the number behind which it goes on."""
    _check_scope(call, "answer")
    places = [await _answer(call, asked.thread_id, one) for one in answers]
    runs = {run.run_id for run, _ in places}
    if len(runs) > 1:
        raise Problem(422, "these are answers to different runs; answer one at a time")
    return places[0][0], max(number for _, number in places)


async def _answer(call: Call, thread: str, answer: Answer) -> tuple[ServedRun, int]:
    run, question = await call.runs.question(call.identity, answer.question)
    if (run.service, run.conversation) != (call.request.path_params["service"], thread):
        raise not_found("such interrupt")
    events = await call.runs.source(run).so_far()
    numbers = [one.number for one in events if is_question(one) and one.request_id == question.id]
    if not numbers:
        raise not_found("such interrupt")
    if not answer.is_given:
        _check_scope(call, "run")
        await call.runs.cancel(run)
        return run, numbers[0]
    await _give(call, question, _value(question, answer.value))
    return run, numbers[0]


def _value(question: InputRequest, given: Any) -> Any:
    """An answer as plain data: as it is, or what a text says."""
    if not isinstance(given, str):
        return given
    return answer_of(given, question.id, question.choices, question.schema, question.details)


async def _give(call: Call, question: InputRequest, value: Any) -> None:
    inputs, name = call.runs.runtime.inputs, call.identity.name
    try:
        await inputs.answer(question.id, value, by=name)
    except (InputAnsweredError, InputExpiredError, InputWithdrawnError):
        # A page whose connection broke sends its answer again.
        now = await inputs.get(question.id)
        if now.status != "answered" or (now.by, now.answer) != (name, value):
            raise


# What is told


def _stream(call: Call, run: ServedRun, asked: RunAgentInput, after: int, *, is_known: bool) -> Response:
    """The events of a run behind a number.

    Args:
        call: Who reads.
        run: The run.
        asked: What the page asked for.
        after: Number of the event behind which the page's run begins.
        is_known: Whether the page knows the task, and what was said before.
    """
    place = _place(call, run)
    name = asked.run_id if is_known else run.run_id
    frames = Frames(asked.thread_id, name, shows_task=not is_known)
    portions = _portions(call, run, frames, after, place)
    started = RunStartedEvent(thread_id=asked.thread_id, run_id=name, protocol_version=PROTOCOL_VERSION)
    return EventStream(
        _from(call, run, started, portions, is_known or place >= 0), call.streams, _written(run.id)
    )


def _place(call: Call, run: ServedRun) -> int:
    """The number that the page has in a Last-Event-ID; -1: none, or one of another run."""
    given = call.request.headers.get("last-event-id")
    if given is None:
        return -1
    name, _, number = given.rpartition(":")
    place = number_of(number, "the number of an event", most=LAST_NUMBER, default=0)
    return place if name == run.id else -1


async def _from(
    call: Call, run: ServedRun, started: RunStartedEvent, portions: Portions, is_known: bool
) -> Portions:
    yield [Frame(None, started)]
    async with aclosing(portions):
        if not is_known:
            yield [Frame(None, MessagesSnapshotEvent(messages=await _said(call, run, is_with_it=False)))]
        async for portion in portions:
            yield portion


async def _portions(call: Call, run: ServedRun, frames: Frames, after: int, place: int) -> Portions:
    """The frames behind a place, as they come, until the run has ended or waits for somebody."""
    seen: list[Event] = []
    async with aclosing(call.runs.source(run).read(after, drafts=True)) as portions:
        async for portion in portions:
            told: list[Frame] = []
            for event in portion:
                told += frames.of(event)
                asked = await _asked_by(call, run, seen, event, place)
                if asked or isinstance(event, ErrorEvent | CompletedEvent):
                    end = frames.end(event, asked)
                    yield [*_behind(told, place), *await _corrected(call, run, frames), *end]
                    return
            yield _behind(told, place)


async def _asked_by(call: Call, run: ServedRun, seen: list[Event], event: Event, place: int) -> Sequence[Any]:
    """What the run waits for, where an event says that it does and the page has not heard of it."""
    if not is_question(event):
        return ()
    seen.append(event)
    if place >= event.number * SCALE:
        return ()
    open_ids = {question.id for _, question in await call.runs.questions(run.identity, run)}
    return open_among(seen, open_ids) if event.request_id in open_ids else ()


def _behind(told: Sequence[Frame], place: int) -> list[Frame]:
    return [one for one in told if one.number is None or one.number > place]


async def _corrected(call: Call, run: ServedRun, frames: Frames) -> list[Frame]:
    """All messages, where the page was shown some that do not count."""
    if not frames.has_void:
        return []
    return [Frame(None, MessagesSnapshotEvent(messages=await _said(call, run, is_with_it=True)))]


async def _nothing(asked: RunAgentInput) -> Portions:
    """A conversation in which nothing was said."""
    named: dict[str, Any] = {"thread_id": asked.thread_id, "run_id": asked.run_id}
    yield [
        Frame(None, RunStartedEvent(**named, protocol_version=PROTOCOL_VERSION)),
        Frame(None, MessagesSnapshotEvent(messages=[])),
        Frame(None, RunFinishedEvent(**named, outcome=RunFinishedSuccessOutcome())),
    ]


async def _said(call: Call, run: ServedRun, *, is_with_it: bool) -> list[Message]:
    """What was said in a conversation until a run, and in it."""
    runs = await _runs_of(call, run.conversation, MOST_RUNS)
    names = [one.run_id for one in runs]
    since = names.index(run.run_id) if run.run_id in names else -1
    messages: list[Message] = []
    for one in reversed(runs[since + 1 :]):
        messages += messages_of(await call.runs.source(one).so_far())
    return messages + (messages_of(await call.runs.source(run).so_far()) if is_with_it else [])


def messages_of(events: Sequence[Event]) -> list[Message]:
    """The messages that some events come to."""
    messages: list[Message] = []
    for event in events:
        if isinstance(event, AgentMessageEvent):
            messages += _message(event)
        elif isinstance(event, ToolCallEvent):
            function = FunctionCall(name=event.name, arguments=event.arguments)
            called = [ToolCall(id=event.call_id, function=function)]
            messages.append(AssistantMessage(id=event.call_id, name=event.source or None, tool_calls=called))
        elif isinstance(event, ToolResultEvent):
            name = f"result-{event.call_id}"
            messages.append(ToolMessage(id=name, tool_call_id=event.call_id, content=event.content))
    return messages


def _message(event: AgentMessageEvent) -> list[Message]:
    name, text = str(event.message.get("id") or event.uuid), str(event.message.get("text", ""))
    if event.number >= 2 * ROOM:
        return [AssistantMessage(id=name, name=event.source or None, content=text)]
    return [] if name.startswith(BEFORE_ID) else [UserMessage(id=name, content=text)]


def _written(name: str) -> Any:
    """How a frame is sent: JSON on one line, and its place for a page that comes back.

    Args:
        name: The id of the run at a door, which has no line break whatever a program has called the run.
    """

    def written(frame: Frame) -> bytes:
        head = "" if frame.number is None else f"id: {name}:{frame.number}\n"
        # Not by the model: half a character in a text is an error there, and here it is written as an escape.
        told = json.dumps(frame.told.model_dump(by_alias=True))
        return f"{head}data: {told}\n\n".encode()

    return written
