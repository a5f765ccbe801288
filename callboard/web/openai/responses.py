"""Responses: a run, or what follows in it behind an answer; made, shown, read live, and cancelled."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

from starlette.responses import Response

from callboard.runs.events import Event
from callboard.web.api import LAST_NUMBER, Call
from callboard.web.event_stream import EventStream, Portions
from callboard.web.problems import Problem, not_found
from callboard.web.requests import body_of, number_of, read_as

from .answers import Refusal, as_json
from .asked import ConversationName, ResponseRequest, Said, check_tools, input_said, warning
from .frames import SCALE, Frame, Frames, written
from .items import item_of, question_item
from .segments import (
    Reading,
    Segment,
    answered,
    begin,
    check_reads,
    ended,
    is_last,
    is_said,
    named,
    read,
    read_on,
)

PREFIX: Final = "resp_"
MOST_PAIR: Final = (64, 512)  # characters of a name and a value of metadata
OF_A_RUN: Final = ("background", "conversation", "instructions", "metadata", "store")
ENDS: Final = {
    "completed": "response.completed",
    "failed": "response.failed",
    # There is no other for one that was cancelled.
    "cancelled": "response.incomplete",
}


async def create(call: Call) -> Response:
    """Make a response, or answer a question of an earlier one, and go on there."""
    check_reads(call)
    body = await body_of(call.request, call.options)
    asked = read_as(ResponseRequest, call.request, body)
    _check(asked)
    said = input_said(asked.input)
    if asked.stream:
        call.streams.check_room()
    previous = await _previous(call, asked)
    ignored = asked.ignored
    if said.answers:
        segment = await answered(call, said.answers)
        if previous is not None and previous.run != segment.run:
            raise Refusal(
                400, "that question is of another response", "invalid_value", "previous_response_id"
            )
        ignored = sorted(
            {*ignored, *(name for name in OF_A_RUN if getattr(asked, name) is not None)} - _SHOWN
        )
    else:
        segment = await _begun(call, asked, said, previous, body)
    headers = warning(ignored)
    if asked.stream:
        return _stream(call, segment, -1, headers)
    reading = await (read(call, segment) if asked.background else ended(call, segment, PREFIX))
    return as_json(response_of(segment, reading), headers)


_SHOWN: Final = frozenset({"background"})
"""What applies to an answer as well."""


def _check(asked: ResponseRequest) -> None:
    check_tools(asked)
    if asked.background and asked.store is False:
        raise Refusal(400, "what runs in the background is stored", "invalid_value", "store")
    if asked.conversation is not None and asked.previous_response_id is not None:
        raise Refusal(
            400, "give the conversation, or the response before", "invalid_value", "previous_response_id"
        )
    names, values = MOST_PAIR
    if any(len(name) > names or len(value) > values for name, value in (asked.metadata or {}).items()):
        text = f"a name has {names} characters at most, and a value {values}"
        raise Refusal(400, text, "invalid_value", "metadata")


async def _previous(call: Call, asked: ResponseRequest) -> Segment | None:
    if asked.previous_response_id is None:
        return None
    try:
        found = await named(call, asked.previous_response_id, PREFIX)
    except Problem as problem:
        code, param = "previous_response_not_found", "previous_response_id"
        raise Refusal(problem.status, problem.detail, code, param) from None
    if asked.model not in (None, found.run.service):
        raise Refusal(400, f"that response is of the model {found.run.service!r}", "invalid_value", "model")
    return found


async def _begun(
    call: Call, asked: ResponseRequest, said: Said, previous: Segment | None, body: bytes
) -> Segment:
    model = asked.model if previous is None else previous.run.service
    if model is None:
        raise Refusal(400, "say which model", "missing_required_parameter", "model")
    given = asked.conversation
    conversation = given.id if isinstance(given, ConversationName) else given
    if previous is not None:
        conversation = previous.run.conversation
    elif conversation is not None and not 0 < len(conversation) <= 200:
        raise Refusal(400, "its id has 1 to 200 characters", "invalid_value", "conversation")
    told = {
        "background": asked.background,
        "instructions": asked.instructions,
        "metadata": asked.metadata,
        "previous_response_id": asked.previous_response_id,
        "store": asked.store,
    }
    notes = {name: value for name, value in told.items() if value is not None}
    return await begin(call, model, conversation, said, body, notes)


async def retrieve(call: Call) -> Response:
    """Show a response, or its events from a number on."""
    segment, reading = await _stored(call)
    if call.query("stream") not in ("1", "true"):
        return as_json(response_of(segment, reading))
    call.streams.check_room()
    after = number_of(call.query("starting_after"), "starting_after", most=LAST_NUMBER, default=0)
    return _stream(call, segment, after if call.query("starting_after") else -1, {})


async def cancel(call: Call) -> Response:
    """End the run of a response now."""
    check_reads(call)
    segment, reading = await _stored(call)
    if reading.status in ("queued", "in_progress"):
        await call.runs.cancel(segment.run)
    return as_json(response_of(segment, await read(call, segment)))


async def _stored(call: Call) -> tuple[Segment, Reading]:
    segment = await named(call, call.request.path_params["id"], PREFIX)
    reading = await read(call, segment)
    if reading.notes.get("store") is False:
        raise not_found("such response")
    return segment, reading


def response_of(segment: Segment, reading: Reading) -> dict[str, Any]:
    """A response as it stands."""
    notes, (asked, wrote) = reading.notes, reading.used
    last = reading.events[-1].at.timestamp() if reading.events else None
    is_over = reading.status not in ("queued", "in_progress")
    error = None if reading.error is None else {"code": "server_error", "message": reading.error}
    usage = {
        "input_tokens": asked,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": wrote,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": asked + wrote,
    }
    return {
        "id": PREFIX + segment.id,
        "object": "response",
        "created_at": int(reading.began.timestamp()),
        "completed_at": int(last) if last is not None and reading.status == "completed" else None,
        "status": reading.status,
        "model": segment.run.service,
        "output": _output(segment, reading),
        "error": error,
        "incomplete_details": None,
        "usage": usage if is_over else None,
        "conversation": {"id": segment.run.conversation},
        "previous_response_id": notes.get("previous_response_id"),
        "background": bool(notes.get("background")),
        "store": notes.get("store", True),
        "instructions": notes.get("instructions"),
        "metadata": notes.get("metadata", {}),
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [],
        "text": {"format": {"type": "text"}},
        "temperature": None,
        "top_p": None,
        "truncation": "disabled",
    }


def _output(segment: Segment, reading: Reading) -> list[dict[str, Any]]:
    items = [item_of(event) for event in reading.events if is_said(event)]
    if reading.question is not None:
        items.append(question_item(segment, reading.question))
    elif items and reading.status == "completed":
        items[-1]["phase"] = "final_answer"
    for item in items[:-1]:
        item["phase"] = "commentary"
    return items


def _stream(call: Call, segment: Segment, after: int, headers: dict[str, str]) -> Response:
    return EventStream(_portions(call, segment, after), call.streams, written, headers)


async def _portions(call: Call, segment: Segment, after: int) -> Portions:
    """The frames behind a number, as they come."""
    before, counting = await read(call, segment), list[Event]()
    begun = {**response_of(segment, before), "output": [], "error": None, "usage": None}
    begun |= {"status": "in_progress", "completed_at": None}
    first = [
        {"type": kind, "response": begun, "sequence_number": number}
        for number, kind in enumerate(("response.created", "response.in_progress"))
    ]
    yield _behind(after, first)
    # What was shown before the number is made again: what is shown behind it depends on it.
    made, events = Frames(segment), call.runs.source(segment.run).read(segment.after, drafts=True)
    async with aclosing(events):
        async for portion in events:
            frames: list[Frame] = []
            for event in portion:
                counting += [] if event.is_draft else [event]
                shown = made.of(event)
                frames += shown
                if is_last(event):
                    reading = await read_on(call, segment, before, counting)
                    frames.append(_end(segment, reading, event.number * SCALE + len(shown)))
                    yield _behind(after, frames)
                    return
            yield _behind(after, frames)


def _end(segment: Segment, reading: Reading, number: int) -> Frame:
    return {
        "type": ENDS[reading.status],
        "response": response_of(segment, reading),
        "sequence_number": number,
    }


def _behind(after: int, frames: Sequence[Frame]) -> list[Frame]:
    return [frame for frame in frames if frame["sequence_number"] > after]
