"""Which type an event has."""

from __future__ import annotations

from typing import TypeGuard

from .event import Event
from .events import (
    AgentMessageEvent,
    AsyncInputRequestEvent,
    CompletedEvent,
    ErrorEvent,
    HandoffEvent,
    InputRequestEvent,
    InputResponseEvent,
    OutputEvent,
    SpeakerSelectedEvent,
    StreamEvent,
    SystemEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)


def is_input_request(event: Event) -> TypeGuard[InputRequestEvent]:
    """Whether a person is asked."""
    return event.type == "input_request"


def is_async_input_request(event: Event) -> TypeGuard[AsyncInputRequestEvent]:
    """Whether a person is asked, in a run that is read asynchronously."""
    return event.type == "async_input_request"


def is_input_response(event: Event) -> TypeGuard[InputResponseEvent]:
    """Whether a question was answered."""
    return event.type == "input_response"


def is_output(event: Event) -> TypeGuard[OutputEvent]:
    """Whether something was put out."""
    return event.type == "output"


def is_agent_message(event: Event) -> TypeGuard[AgentMessageEvent]:
    """Whether somebody said something."""
    return event.type == "agent_message"


def is_system_event(event: Event) -> TypeGuard[SystemEvent]:
    """Whether it is a system event."""
    return event.type == "system"


def is_tool_call(event: Event) -> TypeGuard[ToolCallEvent]:
    """Whether a tool was called."""
    return event.type == "tool_call"


def is_tool_result(event: Event) -> TypeGuard[ToolResultEvent]:
    """Whether a tool has returned."""
    return event.type == "tool_result"


def is_stream(event: Event) -> TypeGuard[StreamEvent]:
    """Whether it is a piece of a text."""
    return event.type == "stream"


def is_speaker_selected(event: Event) -> TypeGuard[SpeakerSelectedEvent]:
    """Whether somebody is to speak."""
    return event.type == "speaker_selected"


def is_handoff(event: Event) -> TypeGuard[HandoffEvent]:
    """Whether an agent handed over."""
    return event.type == "handoff"


def is_usage(event: Event) -> TypeGuard[UsageEvent]:
    """Whether a model has answered."""
    return event.type == "usage"


def is_error(event: Event) -> TypeGuard[ErrorEvent]:
    """Whether the run has failed."""
    return event.type == "error"


def is_completed(event: Event) -> TypeGuard[CompletedEvent]:
    """Whether the run has ended, and not by an error."""
    return event.type == "completed"
