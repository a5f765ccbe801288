"""Chat completions: a run for each call, its last message as the answer, or its pieces as they come."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Final

from starlette.responses import Response

from callboard.runs.events import (
    ErrorEvent,
    Event,
    HandoffEvent,
    InterruptedEvent,
    StreamEvent,
    is_question,
)
from callboard.web.api import Call
from callboard.web.event_stream import EventStream, Portions
from callboard.web.problems import Problem
from callboard.web.requests import body_of, read_as

from .answers import NO_RETRY, Refusal, as_json, error_of
from .asked import ChatRequest, chat_said, check_tools, warning
from .items import QUESTION, arguments_of
from .segments import (
    Asking,
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

PREFIX: Final = "chatcmpl-"
CONVERSATION: Final = "callboard-conversation"
"""The header that names a conversation."""
BETWEEN: Final = "\n\n"
DONE: Final = "[DONE]"
MOST_NAME: Final = 200  # characters


async def complete(call: Call) -> Response:
    """Make a chat completion."""
    check_reads(call)
    body = await body_of(call.request, call.options)
    asked = read_as(ChatRequest, call.request, body)
    check_tools(asked)
    said = chat_said(asked.messages)
    is_stream = bool(asked.stream)
    if is_stream:
        call.streams.check_room()
    if said.answers:
        segment = await answered(call, said.answers)
    else:
        segment = await begin(call, asked.model, _conversation(call, asked), said, body, {})
    headers = {CONVERSATION: _ascii(segment.run.conversation), **warning(asked.ignored)}
    if is_stream:
        stream = ChatStream(call, segment, bool(asked.stream_options and asked.stream_options.include_usage))
        return EventStream(stream.portions(), call.streams, written, headers)
    return as_json(_completion(segment, await ended(call, segment, PREFIX)), headers)


async def retrieve_completion(call: Call) -> Response:
    """Show a chat completion; waits for its end."""
    segment = await named(call, call.request.path_params["id"], PREFIX)
    return as_json(_completion(segment, await ended(call, segment, PREFIX)))


def _conversation(call: Call, asked: ChatRequest) -> str | None:
    name = call.request.headers.get(CONVERSATION) or asked.user or None
    if name is not None and len(name) > MOST_NAME:
        raise Problem(400, f"the name of a conversation has {MOST_NAME} characters at most")
    return name


def _ascii(name: str) -> str:
    # A header has no other letters, and no line ends.
    return json.dumps(name)[1:-1] if not name.isprintable() or not name.isascii() else name


def _completion(segment: Segment, reading: Reading) -> dict[str, Any]:
    _check_success(segment, reading)
    message: dict[str, Any] = {"role": "assistant", "content": reading.texts[-1] if reading.texts else ""}
    reason = "stop"
    if reading.question is not None:
        reason = "tool_calls"
        message |= {"content": None, "tool_calls": [_call(segment, reading.question)]}
    choice = {"index": 0, "message": {**message, "refusal": None}, "finish_reason": reason, "logprobs": None}
    return {
        **_head(segment, "chat.completion", int(reading.began.timestamp())),
        "choices": [choice],
        "usage": _usage(reading),
    }


def _check_success(segment: Segment, reading: Reading) -> None:
    if reading.error is not None:
        raise Refusal(502, f"the run failed: {reading.error}", "run_failed", headers=NO_RETRY)
    if reading.status == "cancelled":
        raise Refusal(409, "the run was cancelled", "run_cancelled", headers=NO_RETRY)


def _call(segment: Segment, question: Asking) -> dict[str, Any]:
    function = {"name": QUESTION, "arguments": arguments_of(segment, question)}
    return {"id": question.request_id, "type": "function", "function": function}


def _head(segment: Segment, kind: str, created: int) -> dict[str, Any]:
    return {"id": PREFIX + segment.id, "object": kind, "created": created, "model": segment.run.service}


def _usage(reading: Reading) -> dict[str, int]:
    asked, written = reading.used
    return {"prompt_tokens": asked, "completion_tokens": written, "total_tokens": asked + written}


def written(data: Any) -> bytes:
    """A chunk as it is sent: JSON on one line."""
    text = data if isinstance(data, str) else json.dumps(data)
    return f"data: {text}\n\n".encode()


class VoidError(Exception):
    """What was sent does not count, and can't be taken back."""


class ChatText:
    """The one text that a stream shows: the pieces of one member at a time, with a blank line between messages.

    A text that was sent can't be taken back. Where a process died in the middle of it, what the next attempt says is held
    until it has said the same, and goes on from there.
    """

    def __init__(self) -> None:
        self._source = ""  # whose message is under way; "": nobody's
        self._id = ""
        self._text = ""  # of this attempt
        self._sent = ""  # of this message
        self._is_begun = False
        self._waiting: list[str] = []  # messages of others meanwhile

    def take(self, event: Event) -> str:
        """What an event adds to the text.

        Raises:
            VoidError: Another attempt says something else than was sent.
        """
        if isinstance(event, StreamEvent) and event.is_draft:
            return self._piece(event)
        if isinstance(event, InterruptedEvent) and event.source == self._source:
            self._id = self._text = ""
        elif isinstance(event, HandoffEvent) and event.source == self._source and not event.is_draft:
            return self.closed()  # what it wrote before it handed over becomes no message
        elif is_said(event):
            return self._message(event.source, event.message["text"], event.message["id"])
        return ""

    def _piece(self, event: StreamEvent) -> str:
        if self._source not in ("", event.source):
            return ""  # two at once are no text: the message of the second one comes whole
        between = ""
        if not self._source or (self._id and self._id != event.message_id):
            between = self._next(event.source)
        self._id = event.message_id
        self._text += event.content
        return between + self._grown(self._text)

    def _message(self, source: str, text: str, id: str) -> str:
        if self._source not in ("", source):
            self._waiting.append(text)
            return ""
        between = ""
        if not self._source or (self._id and self._id != id):
            between = self._next(source)
        added = between + self._grown(text)
        if self._sent != text:
            raise VoidError(source)
        return added + self.closed()

    def closed(self) -> str:
        """The messages that waited for the one under way, which is over."""
        self._source = ""
        waiting, self._waiting = self._waiting, []
        return "".join(self._next("") + text for text in waiting)

    def _next(self, source: str) -> str:
        between = BETWEEN if self._is_begun else ""
        self._source, self._id, self._text, self._sent, self._is_begun = source, "", "", "", True
        return between

    def _grown(self, text: str) -> str:
        if self._sent.startswith(text):
            return ""
        if not text.startswith(self._sent):
            raise VoidError(self._source)
        added, self._sent = text[len(self._sent) :], text
        return added


class ChatStream:
    """The chunks of a completion.

    Args:
        call: Who reads.
        segment: What is read.
        with_usage: Whether the last one tells what the run used.
    """

    def __init__(self, call: Call, segment: Segment, with_usage: bool) -> None:
        self._call = call
        self._segment = segment
        self._with_usage = with_usage
        self._text = ChatText()
        self._created = 0

    async def portions(self) -> Portions:
        """The chunks as they come."""
        before = await read(self._call, self._segment)
        self._created = int(before.began.timestamp())
        yield [self._chunk({"role": "assistant", "content": ""})]
        events = self._call.runs.source(self._segment.run).read(self._segment.after, drafts=True)
        async with aclosing(events):
            async for portion in events:
                chunks, last = self._chunks(portion)
                yield chunks
                if last is not None:
                    yield await self._end(before, last)
                    return
                if chunks and isinstance(chunks[-1], dict) and "error" in chunks[-1]:
                    return

    def _chunks(self, events: Sequence[Event]) -> tuple[list[Any], Event | None]:
        """The chunks of some events, and the one with which the segment ends."""
        chunks: list[Any] = []
        for event in events:
            if is_last(event):
                return chunks, event
            try:
                added = self._text.take(event)
            except VoidError as error:
                return [*chunks, self._void(error)], None
            if added:
                chunks.append(self._chunk({"content": added}))
        return chunks, None

    async def _end(self, before: Reading, last: Event) -> list[Any]:
        if isinstance(last, ErrorEvent):
            failed = Refusal(502, f"the run failed: {last.text}", "run_failed")
            return [{"error": error_of(failed)}]
        reading = await read_on(self._call, self._segment, before, [last])
        if reading.status == "cancelled":
            return [{"error": error_of(Refusal(409, "the run was cancelled", "run_cancelled"))}]
        left = self._text.closed()
        chunks = [self._chunk({"content": left})] if left else []
        if is_question(last):
            calls = [{"index": 0, **_call(self._segment, last)}]
            chunks.append(self._chunk({"tool_calls": calls}))
        chunks.append(self._chunk({}, "tool_calls" if is_question(last) else "stop"))
        if self._with_usage:
            chunks.append({**self._head(), "choices": [], "usage": _usage(reading)})
        return [*chunks, DONE]

    def _void(self, error: VoidError) -> dict[str, Any]:
        where = PREFIX + self._segment.id
        text = (
            f"what was sent of {str(error)!r} does not count: its process died in the middle, or its text was changed; the "
            f"run goes on, and its answer is that of the completion {where}"
        )
        return {"error": error_of(Refusal(502, text, "void_attempt"))}

    def _head(self) -> dict[str, Any]:
        return _head(self._segment, "chat.completion.chunk", self._created)

    def _chunk(self, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return {**self._head(), "choices": [choice]}
