"""Chat messages: their base, their kinds, structured ones, and their types by name."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from os import urandom
from typing import Any, ClassVar, Final, Generic, Literal, Self, TypeVar

from pydantic import BaseModel, Field, computed_field

from callboard.broker.codec import message
from callboard.foundation import ActorError
from callboard.foundation.component import Component, ComponentBase
from callboard.memory.llm_messages import (
    FunctionCall,
    FunctionExecutionResult,
    Image,
    LLMMessage,
    UserMessage,
)
from callboard.models.types import RequestUsage
from callboard.tools.json_model import schema_to_pydantic_model


class MessageTypeError(ActorError, ValueError):
    """A class can't be a type of chat message or event, or data names none that this program has."""

    template = "{name}: {reason}"

    name: str
    reason: str


def unknown_type(name: object) -> MessageTypeError:
    """The error of data that names a type that this program does not have."""
    advice = "Import the module that defines it, or name its class in `custom_message_types`."
    return MessageTypeError("Unknown message type", f"{str(name)[:200]}. {advice}")


_known: dict[str, list[type[Any]]] = {}  # several, where modules share a name
_stand_ins: list[type[Any]] = []  # for those that are not known: none, or one


def remember(cls: type[BaseModel]) -> None:
    """Make a class known by its name; one that a reloaded module made again takes the place of the first."""
    if inspect.isabstract(cls):
        return
    others = [other for other in _known.get(type_name(cls), ()) if _full(other) != _full(cls)]
    _known[type_name(cls)] = [*others, cls]


@cache
def type_name(cls: type[BaseModel]) -> str:
    """The name by which data names a class: the default of its field `type`, else the class's own."""
    field = cls.model_fields.get("type")
    return field.default if field is not None and isinstance(field.default, str) else cls.__name__


def class_named(name: Any) -> type[Any]:
    """The class of a name.

    Raises:
        MessageTypeError: There is none, or several modules define one of that name (a ValueError).
    """
    classes = _known.get(name, ()) if isinstance(name, str) else ()
    if not classes:
        if _stand_ins and isinstance(name, str):
            return _stand_ins[0]
        raise unknown_type(name)
    if len(classes) > 1:
        places = " and ".join(sorted(_full(cls) for cls in classes))
        raise MessageTypeError(name, f"{places} share this name; give one of them another.")
    return classes[0]


def stand_in(cls: type[BaseModel]) -> None:
    """Let a class stand for those that are not known; see `callboard.messages.unknown`."""
    _stand_ins[:] = [cls]


def _full(cls: type[BaseModel]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


VARIANTS: Final = {digit: "89ab"[int(digit, 16) % 4] for digit in "0123456789abcdef"}
"""The first digit of the fourth group of a UUID, by a random one (RFC 9562, section 4.1)."""


def _new_id() -> str:
    """As text what `uuid.uuid4` makes; its object and the text of that take three times as long, for every message."""
    text = urandom(16).hex()
    variant = VARIANTS[text[16]]
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


def _now() -> datetime:
    return datetime.now(UTC)


class BaseMessage(BaseModel, ABC):
    """The base of everything that agents and teams say. Derive from `BaseChatMessage` or `BaseAgentEvent` instead.

    A class that derives from it is known by its `type` (else by its name) as soon as it is defined, so that its instances
    cross processes. Data that names another type is refused: nothing is imported because a message names it.
    """

    model_config: ClassVar = {"ser_json_bytes": "base64", "val_json_bytes": "base64"}

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        remember(cls)

    @abstractmethod
    def to_text(self) -> str:
        """The content as text for people and conditions. For models, see `BaseChatMessage.to_model_text`."""
        ...

    def dump(self) -> dict[str, Any]:
        """The message as plain data that fits into JSON, as AutoGen writes it. Override it to add something."""
        # What `model_dump` does, without its fifteen arguments: each turn of a team dumps several.
        data: dict[str, Any] = self.__pydantic_serializer__.to_python(self, mode="json")
        data.setdefault("type", type(self).__name__)
        return data

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> Self:
        """A message from what `dump` returned, or AutoGen's.

        Raises:
            ValueError: It is no such data (pydantic's ValidationError).
        """
        # What `model_validate` does, without its ten arguments: a run that is read again loads many.
        loaded: Self = cls.__pydantic_validator__.validate_python(data)
        return loaded


class _Said(BaseMessage, ABC):
    """The fields of chat messages and events.

    Attributes:
        id: Unique.
        source: Name of the agent, team or person it comes from.
        models_usage: Tokens that were used to make it.
        metadata: Anything about it, as text.
        created_at: When it was made, with a time zone.
    """

    id: str = Field(default_factory=_new_id)
    source: str
    models_usage: RequestUsage | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    created_at: datetime = Field(default_factory=_now)


class BaseChatMessage(_Said, ABC):
    """The base of what agents say to each other.

    For a content of your own, `StructuredMessage[YourModel]` is usually enough.
    """

    @abstractmethod
    def to_model_text(self) -> str:
        """The content as text for a model, as a part of a prompt."""
        ...

    @abstractmethod
    def to_model_message(self) -> UserMessage:
        """The content as a whole message for a model."""
        ...

    def said_text(self) -> str | None:
        """The text, where an agent simply said one; None: the message is something else, such as a summary or an end."""
        return None


class BaseTextChatMessage(BaseChatMessage, ABC):
    """The base of messages whose content is a text.

    Attributes:
        content: The text.
    """

    content: str

    def to_text(self) -> str:
        """The content."""
        return self.content

    def to_model_text(self) -> str:
        """The content."""
        return self.content

    def to_model_message(self) -> UserMessage:
        """The content, said by `source`."""
        return UserMessage(content=self.content, source=self.source)


class BaseAgentEvent(_Said, ABC):
    """The base of what agents and teams let be seen, and no other agent hears."""


@message(name="callboard.TextMessage")
class TextMessage(BaseTextChatMessage):
    """A text."""

    type: Literal["TextMessage"] = "TextMessage"

    def said_text(self) -> str | None:
        """The content."""
        return self.content


@message(name="callboard.MultiModalMessage")
class MultiModalMessage(BaseChatMessage):
    """Texts and pictures in their order.

    Attributes:
        content: The texts and pictures. AutoGen's can't be read back from JSON; these can.
    """

    content: list[str | Image]
    type: Literal["MultiModalMessage"] = "MultiModalMessage"

    def to_model_text(self, image_placeholder: str | None = "[image]") -> str:
        """The texts, and for each picture a blank and a placeholder.

        Args:
            image_placeholder: Stands for a picture; None: the picture itself as base64, or its address.
        """
        return "".join(
            part if isinstance(part, str) else f" {_shown(part, image_placeholder)}" for part in self.content
        )

    def to_text(self, iterm: bool = False) -> str:
        """The parts, each on a line of its own.

        Args:
            iterm: Show pictures as iTerm2 does, instead of ``<image>``.
        """
        return "\n".join(
            part if isinstance(part, str) else _for_terminal(part, iterm) for part in self.content
        )

    def to_model_message(self) -> UserMessage:
        """Texts and pictures, said by `source`."""
        return UserMessage(content=self.content, source=self.source)


def _shown(image: Image, placeholder: str | None) -> str:
    return placeholder if placeholder is not None else (image.data or image.url or "")


def _for_terminal(image: Image, iterm: bool) -> str:
    if not iterm or image.data is None:
        return "<image>"
    return f"\033]1337;File=inline=1:{image.data}\a\n"


@message(name="callboard.StopMessage")
class StopMessage(BaseTextChatMessage):
    """Says that a conversation is to end; its content is the reason."""

    type: Literal["StopMessage"] = "StopMessage"


@message(name="callboard.HandoffMessage")
class HandoffMessage(BaseTextChatMessage):
    """Hands the conversation over to another agent.

    Attributes:
        target: Name of the agent who goes on.
        context: What that agent's model is to know beside the content, such as the results of other calls.
    """

    target: str
    context: list[LLMMessage] = Field(default_factory=list)
    type: Literal["HandoffMessage"] = "HandoffMessage"


@message(name="callboard.ToolCallSummaryMessage")
class ToolCallSummaryMessage(BaseTextChatMessage):
    """Says what tools returned, as the answer of an agent.

    Attributes:
        tool_calls: The calls.
        results: What each of them returned.
    """

    tool_calls: list[FunctionCall]
    results: list[FunctionExecutionResult]
    type: Literal["ToolCallSummaryMessage"] = "ToolCallSummaryMessage"


StructuredContentType = TypeVar("StructuredContentType", bound=BaseModel, covariant=True)  # noqa: PLC0105 - AutoGen's name


class StructuredMessage(BaseChatMessage, Generic[StructuredContentType]):
    """A message whose content is a pydantic model.

    ``StructuredMessage[Review](content=Review(...), source="critic")``. A process knows such a message by the name of its
    model: give two models different names.

    Attributes:
        content: The model.
        format_string: How people and prompts see it, with the names of its fields in braces; None: as JSON.
    """

    content: StructuredContentType
    format_string: str | None = None

    @computed_field  # type: ignore[prop-decorator]  # mypy has no computed properties
    @property
    def type(self) -> str:
        """Name of the class, such as ``StructuredMessage[Review]``."""
        return self.__class__.__name__

    def to_text(self) -> str:
        """The content by `format_string`, or as JSON."""
        if self.format_string is None:
            return self.content.model_dump_json()
        return self.format_string.format(**self.content.model_dump())

    def to_model_text(self) -> str:
        """As `to_text`."""
        return self.to_text()

    def to_model_message(self) -> UserMessage:
        """The content as JSON, said by `source`."""
        return UserMessage(content=self.content.model_dump_json(), source=self.source)


class StructuredMessageConfig(BaseModel):
    """A StructuredMessageFactory as plain data; its fields are the arguments of StructuredMessageFactory."""

    json_schema: dict[str, Any]
    format_string: str | None = None
    content_model_name: str


class StructuredMessageFactory(ComponentBase[StructuredMessageConfig], Component[StructuredMessageConfig]):
    """A type of structured messages, whose content is a model of the user's, or is described by a JSON schema.

    A model that was made from a schema is another class than the one whose schema it was, and knows its types and limits
    only: validators of the class are not in a schema. Its messages have the same name, so data of one are read as the
    other; in one process, the last one of a name counts.

    Args:
        json_schema: Describes the content; not beside `input_model`, over which it goes, as in AutoGen.
        input_model: The model.
        format_string: How such messages look as texts; see StructuredMessage.
        content_model_name: Name of a model that is made from the schema; None: "GeneratedContentModel".

    Attributes:
        format_string: As above.
        ContentModel: The model.
        StructuredMessage: The type of the messages.

    Raises:
        MessageTypeError: Neither schema nor model is given (a ValueError).
    """

    component_type = "structured_message"
    component_config_schema = StructuredMessageConfig
    component_provider_override = "callboard.messages.StructuredMessageFactory"

    def __init__(
        self,
        json_schema: Mapping[str, Any] | None = None,
        input_model: type[BaseModel] | None = None,
        format_string: str | None = None,
        content_model_name: str | None = None,
    ) -> None:
        if json_schema:
            input_model = schema_to_pydantic_model(json_schema, content_model_name or "GeneratedContentModel")
        if input_model is None:
            raise MessageTypeError("content", "has to be described: give json_schema or input_model.")
        self.format_string = format_string
        self.ContentModel: type[BaseModel] = input_model
        self.StructuredMessage: Any = StructuredMessage[input_model]  # type: ignore[valid-type]

    def _to_config(self) -> StructuredMessageConfig:
        return StructuredMessageConfig(
            json_schema=self.ContentModel.model_json_schema(),
            format_string=self.format_string,
            content_model_name=self.ContentModel.__name__,
        )

    @classmethod
    def _from_config(cls, config: StructuredMessageConfig) -> Self:
        return cls(config.json_schema, None, config.format_string, config.content_model_name)
