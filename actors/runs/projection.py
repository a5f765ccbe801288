"""What agents and teams say, as the events of a run. There is no other source of events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from hashlib import blake2s
from typing import Any, Final
from uuid import UUID

from callboard.agents.task import Said
from callboard.groupchat.message import ConversationMessage, as_message
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import HandoffMessage, StopMessage, ToolCallSummaryMessage
from callboard.messages.events import (
    AttemptEndedEvent,
    CodeExecutionEvent,
    InputAnsweredEvent,
    InputRequestedEvent,
    ModelClientStreamingChunkEvent,
    SelectSpeakerEvent,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
    UserInputRequestedEvent,
)
from callboard.messages.structured import StructuredMessage

from .event import Event
from .events import (
    AgentMessageEvent,
    AsyncInputRequestEvent,
    HandoffEvent,
    InputRequestEvent,
    InputResponseEvent,
    Message,
    OutputEvent,
    SpeakerSelectedEvent,
    StreamEvent,
    SystemEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)

Make = Callable[..., Event]

RUN_BITS: Final = 64  # of an event's uuid that say which run it is; the others are its number
MODEL: Final = "model"
"""Where the metadata of a message names the model that was asked."""


class Projection:
    """Makes the events of one run.

    Args:
        run_id: The run.
        is_async: Whether its questions are for async readers.
    """

    def __init__(self, run_id: str, *, is_async: bool = False) -> None:
        self.run_id = run_id
        self.asks_as = AsyncInputRequestEvent if is_async else InputRequestEvent
        self._digest = blake2s(run_id.encode("utf-8", "surrogatepass"), digest_size=RUN_BITS // 8).digest()
        self._base = int.from_bytes(self._digest, "big") << RUN_BITS

    def make(
        self, kind: type[Event], number: int, at: datetime, is_draft: bool = False, **fields: Any
    ) -> Event:
        """One event.

        Args:
            kind: Its class.
            number: Its place in the run.
            at: When it happened.
            is_draft: Whether it may not count.
            **fields: What it says.
        """
        uuid = UUID(int=self._base + number + (1 << (RUN_BITS - 1) if is_draft else 0))
        return kind(uuid=uuid, run_id=self.run_id, number=number, at=at, is_draft=is_draft, **fields)

    def of(self, said: Said, number: int, at: datetime, *, is_draft: bool = False) -> list[Event]:
        """The events of what somebody said, whose numbers follow each other.

        Args:
            said: What was said.
            number: Of the first event.
            at: When it was said.
            is_draft: Whether it may not count.
        """
        makes = list(_parts(said))
        return [make(self, number + place, at, is_draft) for place, make in enumerate(makes)]


def message_of(said: BaseChatMessage) -> Message:
    """What was said as plain data, with the RFC's names beside those of group chats."""
    data = as_message(said)
    message = {"text": said.to_text(), "sender": said.source, "id": said.id, **data}
    if isinstance(said, StructuredMessage):
        message["data"] = said.content.model_dump(mode="json")
    return message


def _parts(said: Said) -> Iterator[Make]:
    yield from _SHOWN.get(type(said), _other)(said)
    usage = said.models_usage
    if usage is not None and not isinstance(said, ModelClientStreamingChunkEvent):
        yield _event(
            UsageEvent,
            source=said.source,
            model=said.metadata.get(MODEL, ""),
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
        )


def _event(kind: type[Event], **fields: Any) -> Make:
    def make(projection: Projection, number: int, at: datetime, is_draft: bool) -> Event:
        return projection.make(kind, number, at, is_draft, **fields)

    return make


def _other(said: Said) -> Iterator[Make]:
    if isinstance(said, BaseChatMessage):
        yield from _message(said)
    else:
        yield _event(SystemEvent, source=said.source, value=said.to_text())


def _message(said: BaseChatMessage) -> Iterator[Make]:
    yield _event(AgentMessageEvent, source=said.source, message=message_of(said))


def _conversation(said: ConversationMessage) -> Iterator[Make]:
    """A message of a group chat, which may call functions, or answer calls."""
    data, source = said.data, said.source
    calls: list[Mapping[str, Any]] = list(data.get("tool_calls") or ())
    answers: list[Mapping[str, Any]] = list(data.get("tool_responses") or ())
    if not answers and (said.to_text() or not calls):
        yield from _message(said)
    for call in calls:
        function = call.get("function", {})
        yield _event(
            ToolCallEvent,
            source=source,
            call_id=call.get("id", ""),
            name=function.get("name", ""),
            arguments=function.get("arguments", ""),
        )
    for answer in answers:
        yield _event(
            ToolResultEvent,
            source=source,
            call_id=answer.get("tool_call_id", ""),
            name=answer.get("name", ""),
            content=str(answer.get("content", "")),
        )


def _stop(said: StopMessage) -> Iterator[Make]:
    yield _event(SystemEvent, source=said.source, value=said.content)


def _handoff(said: HandoffMessage) -> Iterator[Make]:
    yield _event(HandoffEvent, source=said.source, target=said.target, content=said.content)


def _calls(said: ToolCallRequestEvent) -> Iterator[Make]:
    for call in said.content:
        yield _event(
            ToolCallEvent, source=said.source, call_id=call.id, name=call.name, arguments=call.arguments
        )


def _results(said: ToolCallExecutionEvent) -> Iterator[Make]:
    for result in said.content:
        yield _event(
            ToolResultEvent,
            source=said.source,
            call_id=result.call_id,
            name=result.name,
            content=result.content,
            is_error=bool(result.is_error),
        )


def _piece(said: ModelClientStreamingChunkEvent) -> Iterator[Make]:
    yield _event(StreamEvent, source=said.source, content=said.content, message_id=said.full_message_id or "")


def _speakers(said: SelectSpeakerEvent) -> Iterator[Make]:
    yield _event(SpeakerSelectedEvent, source=said.source, speakers=tuple(said.content))


def _output(said: CodeExecutionEvent) -> Iterator[Make]:
    yield _event(OutputEvent, source=said.source, value=said.to_text())


def _sentence(said: AttemptEndedEvent | ThoughtEvent) -> Iterator[Make]:
    yield _event(SystemEvent, source=said.source, value=f"{said.source}: {said.content}")


def _question(said: InputRequestedEvent) -> Iterator[Make]:
    expires = None if said.timeout is None else said.created_at + timedelta(seconds=said.timeout)
    fields: dict[str, Any] = {"prompt": said.content, "choices": tuple(said.choices), "details": said.details}

    def make(projection: Projection, number: int, at: datetime, is_draft: bool) -> Event:
        ids = {"source": said.source, "request_id": said.request_id, "expires": expires}
        return projection.make(projection.asks_as, number, at, is_draft, **fields, **ids)

    yield make


def _answer(said: InputAnsweredEvent) -> Iterator[Make]:
    value = json.loads(said.content) if said.content else None
    yield _event(
        InputResponseEvent,
        source=said.source,
        value=value,
        request_id=said.request_id,
        by=said.by,
        status=said.status,
    )


def _nothing(said: UserInputRequestedEvent) -> Iterator[Make]:
    """The question itself is an event of its own."""
    yield from ()


_SHOWN: Final[Mapping[type[Any], Callable[[Any], Iterator[Make]]]] = {
    ConversationMessage: _conversation,
    StopMessage: _stop,
    HandoffMessage: _handoff,
    ToolCallSummaryMessage: _message,
    ToolCallRequestEvent: _calls,
    ToolCallExecutionEvent: _results,
    ModelClientStreamingChunkEvent: _piece,
    SelectSpeakerEvent: _speakers,
    CodeExecutionEvent: _output,
    AttemptEndedEvent: _sentence,
    ThoughtEvent: _sentence,
    UserInputRequestedEvent: _nothing,
    InputRequestedEvent: _question,
    InputAnsweredEvent: _answer,
}
