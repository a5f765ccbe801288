"""Events that agents and teams let be seen while they work, and the closed unions of all that is said."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

from callboard.broker.codec import message
from callboard.code import CodeBlock, CodeResult
from callboard.memory.base import MemoryContent
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult

from .chat import (
    BaseAgentEvent,
    BaseChatMessage,
    BaseMessage,
    HandoffMessage,
    MessageTypeError,
    MultiModalMessage,
    StopMessage,
    TextMessage,
    ToolCallSummaryMessage,
    class_named,
    type_name,
    unknown_type,
)


@message(name="callboard.ToolCallRequestEvent")
class ToolCallRequestEvent(BaseAgentEvent):
    """The model asks for tools.

    Attributes:
        content: The calls.
    """

    content: list[FunctionCall]
    type: Literal["ToolCallRequestEvent"] = "ToolCallRequestEvent"

    def to_text(self) -> str:
        """The calls, as Python shows them."""
        return str(self.content)


@message(name="callboard.ToolCallExecutionEvent")
class ToolCallExecutionEvent(BaseAgentEvent):
    """Tools have run.

    Attributes:
        content: What each call returned.
    """

    content: list[FunctionExecutionResult]
    type: Literal["ToolCallExecutionEvent"] = "ToolCallExecutionEvent"

    def to_text(self) -> str:
        """The results, as Python shows them."""
        return str(self.content)


@message(name="callboard.CodeGenerationEvent")
class CodeGenerationEvent(BaseAgentEvent):
    """The model has written code.

    Attributes:
        retry_attempt: 0 for its first try.
        content: Its whole answer.
        code_blocks: The code in it.
    """

    retry_attempt: int
    content: str
    code_blocks: list[CodeBlock]
    type: Literal["CodeGenerationEvent"] = "CodeGenerationEvent"

    def to_text(self) -> str:
        """The whole answer."""
        return self.content


@message(name="callboard.CodeExecutionEvent")
class CodeExecutionEvent(BaseAgentEvent):
    """Code has run.

    Attributes:
        retry_attempt: 0 for the model's first try.
        result: Exit code and output.
    """

    retry_attempt: int
    result: CodeResult
    type: Literal["CodeExecutionEvent"] = "CodeExecutionEvent"

    def to_text(self) -> str:
        """The output."""
        return self.result.output


@message(name="callboard.UserInputRequestedEvent")
class UserInputRequestedEvent(BaseAgentEvent):
    """A person is about to be asked.

    Attributes:
        request_id: Id of the question.
        content: Nothing; for readers who expect a content.
    """

    request_id: str
    content: Literal[""] = ""
    type: Literal["UserInputRequestedEvent"] = "UserInputRequestedEvent"

    def to_text(self) -> str:
        """Nothing."""
        return ""


@message(name="callboard.InputRequestedEvent")
class InputRequestedEvent(BaseAgentEvent):
    """A question waits for its answer, without a process: see `MessageContext.ask`.

    AutoGen has no such event: there the agent that asks waits in memory.

    Attributes:
        request_id: Id of the question, by which it is answered.
        content: The question.
        choices: The answers there are; empty: any.
        to: Who may answer; empty: anybody.
        answer_schema: JSON schema of an answer.
        details: What belongs to it, such as the name and the arguments of a tool.
        timeout: Seconds after which it expires; None: it does not.
    """

    request_id: str
    content: str
    choices: list[str] = Field(default_factory=list)
    to: list[str] = Field(default_factory=list)
    answer_schema: dict[str, Any] = Field(default_factory=dict)
    details: dict[str, Any] = Field(default_factory=dict)
    timeout: float | None = None
    type: Literal["InputRequestedEvent"] = "InputRequestedEvent"

    def to_text(self) -> str:
        """The question."""
        return self.content


@message(name="callboard.InputAnsweredEvent")
class InputAnsweredEvent(BaseAgentEvent):
    """A question has its answer, or gets none any more.

    Attributes:
        request_id: Id of the question.
        status: What became of it.
        content: The answer as JSON; "" without one.
        by: Who answered; "": it was not answered, or not said.
    """

    request_id: str
    status: Literal["answered", "expired", "withdrawn"]
    content: str = ""
    by: str = ""
    type: Literal["InputAnsweredEvent"] = "InputAnsweredEvent"

    def to_text(self) -> str:
        """The answer."""
        return self.content


@message(name="callboard.MemoryQueryEvent")
class MemoryQueryEvent(BaseAgentEvent):
    """A memory was asked.

    Attributes:
        content: What it found.
    """

    content: list[MemoryContent]
    type: Literal["MemoryQueryEvent"] = "MemoryQueryEvent"

    def to_text(self) -> str:
        """The memories, as Python shows them."""
        return str(self.content)


@message(name="callboard.ModelClientStreamingChunkEvent")
class ModelClientStreamingChunkEvent(BaseAgentEvent):
    """A piece of a model's answer, as it comes.

    Attributes:
        content: The piece.
        full_message_id: Id of the message that the pieces become.
    """

    content: str
    full_message_id: str | None = None
    type: Literal["ModelClientStreamingChunkEvent"] = "ModelClientStreamingChunkEvent"

    def to_text(self) -> str:
        """The piece."""
        return self.content


@message(name="callboard.AttemptEndedEvent")
class AttemptEndedEvent(BaseAgentEvent):
    """The process in which `source` was speaking is gone: what it said since its turn began is void; it begins again.

    AutoGen has no such event: there the run is gone, too.

    Attributes:
        content: A sentence for people.
        void_ids: Ids of the messages and events that were shown and are void; pieces of a text are void as well.
    """

    content: str = "was interrupted, and begins again"
    void_ids: list[str] = Field(default_factory=list)
    type: Literal["AttemptEndedEvent"] = "AttemptEndedEvent"

    def to_text(self) -> str:
        """The sentence."""
        return self.content


@message(name="callboard.OutageEvent")
class OutageEvent(BaseAgentEvent):
    """`source` can't go on, because something that it needs is away, such as its model; it begins its turn again later.

    AutoGen has no such event: there the run fails.

    Attributes:
        content: A sentence for people, with the error.
        since: When a request failed first; None: an older version wrote the event.
        asked: How often was asked since, in all attempts at the turn.
        next_at: When the turn begins again.
    """

    content: str
    since: datetime | None = None
    asked: int = 0
    next_at: datetime | None = None
    type: Literal["OutageEvent"] = "OutageEvent"

    def to_text(self) -> str:
        """The sentence."""
        return self.content


@message(name="callboard.ThoughtEvent")
class ThoughtEvent(BaseAgentEvent):
    """A model's reasoning, or the text that came with its calls.

    Attributes:
        content: The text.
    """

    content: str
    type: Literal["ThoughtEvent"] = "ThoughtEvent"

    def to_text(self) -> str:
        """The text."""
        return self.content


@message(name="callboard.SelectSpeakerEvent")
class SelectSpeakerEvent(BaseAgentEvent):
    """A team has chosen who speaks next.

    Attributes:
        content: Their names.
    """

    content: list[str]
    type: Literal["SelectSpeakerEvent"] = "SelectSpeakerEvent"

    def to_text(self) -> str:
        """The names, as Python shows them."""
        return str(self.content)


@message(name="callboard.SelectorEvent")
class SelectorEvent(BaseAgentEvent):
    """Piece of the thought of a SelectorGroupChat's model on the way to its choice.

    Attributes:
        content: The text.
    """

    content: str
    type: Literal["SelectorEvent"] = "SelectorEvent"

    def to_text(self) -> str:
        """The text."""
        return self.content


@message(name="callboard.HandoffChangeEvent")
class HandoffChangeEvent(BaseAgentEvent):
    """Something happened to a handoff of an agent with a dispatcher. AutoGen has no such event.

    Attributes:
        change: What: the agent's model created it; it was used and is gone; its lifetime is over; or it is hidden, because
            a tool has its name.
        name: Name of the handoff.
        target: Its target.
    """

    change: Literal["created", "used", "expired", "hidden"]
    name: str
    target: str
    type: Literal["HandoffChangeEvent"] = "HandoffChangeEvent"

    def to_text(self) -> str:
        """All of it, for people."""
        return f"The handoff {self.name} to {self.target}: {self.change}."


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
    | OutageEvent
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
        ValueError: It is no such data, or names a type that this program does not have (MessageTypeError).
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


class MessageFactory:
    """Makes messages from plain data: of the types that this package defines, and of those that were registered.

    Args:
        custom: Types to register.
    """

    def __init__(self, custom: Iterable[type[BaseAgentEvent | BaseChatMessage]] = ()) -> None:
        self._types: dict[str, type[BaseAgentEvent | BaseChatMessage]] = {
            type_name(cls): cls for union in (ChatMessage, AgentEvent) for cls in _members(union)
        }
        for message_type in custom:
            self.register(message_type)

    def is_registered(self, message_type: type[BaseAgentEvent | BaseChatMessage]) -> bool:
        """Whether it knows a type."""
        return type_name(message_type) in self._types

    def register(self, message_type: type[BaseAgentEvent | BaseChatMessage]) -> None:
        """Make a type known.

        Raises:
            MessageTypeError: It is known, or is no class of chat messages or events (a ValueError).
        """
        given: object = message_type  # programs without a type checker pass other things
        if not isinstance(given, type) or not issubclass(given, BaseChatMessage | BaseAgentEvent):
            raise MessageTypeError(
                str(message_type), "must be a subclass of BaseChatMessage or BaseAgentEvent."
            )
        if self.is_registered(message_type):
            raise MessageTypeError(type_name(message_type), "is already registered.")
        self._types[type_name(message_type)] = message_type

    def create(self, data: Mapping[str, Any]) -> BaseAgentEvent | BaseChatMessage:
        """A message from what its `dump` returned.

        Raises:
            MessageTypeError: It names a type that is not known, or none (a ValueError).
            ValueError: It does not fit the type.
        """
        name = data.get("type")
        if not isinstance(name, str):
            raise MessageTypeError(
                "type", "the field 'type' is required in the data of a message, and is a text."
            )
        if name not in self._types:
            raise unknown_type(name)
        return self._types[name].load(data)


def _members(union: Any) -> tuple[type[BaseAgentEvent | BaseChatMessage], ...]:
    members: tuple[type[BaseAgentEvent | BaseChatMessage], ...] = union.__origin__.__args__
    return members
