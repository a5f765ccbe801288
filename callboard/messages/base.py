"""What all chat messages and events have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime
from os import urandom
from typing import Any, ClassVar, Final, Self

from pydantic import BaseModel, Field

from callboard.memory.llm_messages import UserMessage
from callboard.models.types import RequestUsage

from .known import remember

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
