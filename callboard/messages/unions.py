"""The closed unions of what agents say, and a field's type for any of it, the user's own types included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from .base import BaseAgentEvent, BaseChatMessage, BaseMessage
from .chat import HandoffMessage, MultiModalMessage, StopMessage, TextMessage, ToolCallSummaryMessage
from .errors import MessageTypeError
from .events import (
    AttemptEndedEvent,
    CodeExecutionEvent,
    CodeGenerationEvent,
    HandoffChangeEvent,
    InputAnsweredEvent,
    InputRequestedEvent,
    MemoryQueryEvent,
    ModelClientStreamingChunkEvent,
    SelectorEvent,
    SelectSpeakerEvent,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
    UserInputRequestedEvent,
)
from .known import class_named

ChatMessage: TypeAlias = Annotated[
    TextMessage | MultiModalMessage | StopMessage | ToolCallSummaryMessage | HandoffMessage,
    Field(discriminator="type"),
]
"""Every chat message that this package defines, but for `StructuredMessage`, whose content is the user's."""

AgentEvent: TypeAlias = Annotated[
    ToolCallRequestEvent
    | ToolCallExecutionEvent
    | MemoryQueryEvent
    | UserInputRequestedEvent
    | InputRequestedEvent
    | InputAnsweredEvent
    | ModelClientStreamingChunkEvent
    | AttemptEndedEvent
    | ThoughtEvent
    | SelectSpeakerEvent
    | SelectorEvent
    | HandoffChangeEvent
    | CodeGenerationEvent
    | CodeExecutionEvent,
    Field(discriminator="type"),
]
"""Every event that this package defines. In AutoGen's, `SelectorEvent` is missing."""


def read_message(data: Any) -> Any:
    """A chat message or event from what `dump` returned; one that is a message already stays as it is.

    Raises:
        ValueError: It is no such data, or names a type that this program does not have (UnknownMessageTypeError).
    """
    if type(data) is dict:  # as it comes from a stream
        return class_named(data.get("type")).load(data)
    if isinstance(data, BaseChatMessage | BaseAgentEvent):
        return data
    if not isinstance(data, Mapping):
        raise MessageTypeError(type(data).__name__, "is no chat message and no event")
    return class_named(data.get("type")).load(data)


def _dump(message: BaseMessage) -> dict[str, Any]:
    return message.dump()


AnyMessage: TypeAlias = Annotated[
    BaseChatMessage | BaseAgentEvent,
    PlainValidator(read_message),
    PlainSerializer(_dump),
    WithJsonSchema({"type": "object"}),
]
"""The type of a pydantic field that holds any chat message or event, of the user's own types as well.

It is written with its concrete type, and read as that. A field of an abstract class loses both.
"""
