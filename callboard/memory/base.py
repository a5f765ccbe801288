"""The interface of memories, with AutoGen's names."""

from __future__ import annotations

import base64
import binascii
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from callboard.foundation.component import ComponentBase

from .cancelling import Cancellation
from .errors import MemoryValueError
from .llm_messages import Image, LLMMessage, SystemMessage


class MemoryMimeType(Enum):
    """The kind of a content. Other MIME types are given as text."""

    TEXT = "text/plain"
    JSON = "application/json"
    MARKDOWN = "text/markdown"
    IMAGE = "image/*"
    BINARY = "application/octet-stream"


class MemoryContent(BaseModel):
    """A content to remember.

    AutoGen's can't be read back from JSON, not even with plain text; this one can, whatever it holds.

    Attributes:
        content: text, bytes, plain data for JSON, or an image.
        mime_type: its kind.
        metadata: anything about it. `id` names the record in stores that have ids; results of a query have `id`
            and, from a vector store, `score`.
    """

    model_config = ConfigDict(frozen=True, ser_json_bytes="base64")

    content: str | bytes | dict[str, Any] | Image
    mime_type: MemoryMimeType | str
    metadata: dict[str, Any] | None = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any, info: ValidationInfo) -> Any:
        """Read by MIME type: JSON has no bytes, and an image looks like any other map."""
        if not isinstance(given, dict):
            return given
        content, mime_type = given.get("content"), mime_name(given.get("mime_type") or "")
        if isinstance(content, dict) and mime_type.startswith("image/"):
            return {**given, "content": Image.model_validate(content)}
        if isinstance(content, str) and info.mode == "json" and mime_type == MemoryMimeType.BINARY.value:
            return {**given, "content": _from_base64(content)}
        return given

    @field_validator("mime_type")
    @classmethod
    def _known(cls, mime_type: MemoryMimeType | str) -> MemoryMimeType | str:
        """A known type as its MemoryMimeType, also where it came as text."""
        known: MemoryMimeType | str = next(
            (kind for kind in MemoryMimeType if kind.value == mime_type), mime_type
        )
        return known

    @property
    def text(self) -> str:
        """The content as text: JSON is written out.

        Raises:
            MemoryValueError: it is an image or bytes.
        """
        if isinstance(self.content, str):
            return self.content
        if isinstance(self.content, dict):
            return json.dumps(self.content, ensure_ascii=False)
        raise MemoryValueError(
            f"content of type {mime_name(self.mime_type)} ({type(self.content).__name__})",
            "has no text to find it by",
            "store a description as text, and where the thing itself is in the metadata",
        )


def _from_base64(content: str) -> bytes | str:
    try:
        return base64.b64decode(content, altchars=b"-_", validate=True)
    except binascii.Error:
        return content


def mime_name(mime_type: MemoryMimeType | str) -> str:
    """A MIME type as text."""
    return mime_type.value if isinstance(mime_type, MemoryMimeType) else mime_type


class MemoryQueryResult(BaseModel):
    """The result of a query, the best first.

    Attributes:
        results: the contents.
    """

    results: list[MemoryContent] = Field(default_factory=list)


class UpdateContextResult(BaseModel):
    """The contents that were added to a model context.

    Attributes:
        memories: the contents.
    """

    memories: MemoryQueryResult


class ModelContext(Protocol):
    """A conversation that a memory may look at and add to; every `ChatCompletionContext` is one."""

    async def get_messages(self) -> list[LLMMessage]:
        """The messages that the model would see."""
        ...

    async def add_message(self, message: LLMMessage) -> None:
        """Add a message at the end."""
        ...


class Memory(ABC, ComponentBase[BaseModel]):
    """A memory of an agent, beyond its conversation.

    Everything is asynchronous. `cancellation_token` is a `callboard.CancellationToken`, or anything with its methods.
    """

    component_type = "memory"

    @abstractmethod
    async def update_context(self, model_context: ModelContext) -> UpdateContextResult:
        """Add the memories that are relevant now to a model context, as one system message.

        Args:
            model_context: Looked at, and added to.

        Returns:
            The contents that were added.
        """

    @abstractmethod
    async def query(
        self,
        query: str | MemoryContent,
        cancellation_token: Cancellation | None = None,
        **kwargs: Any,
    ) -> MemoryQueryResult:
        """The memories about something.

        Args:
            query: The subject to look for.
            cancellation_token: Ends the wait.
            **kwargs: Further arguments of an implementation.
        """

    @abstractmethod
    async def add(self, content: MemoryContent, cancellation_token: Cancellation | None = None) -> None:
        """Remember something."""

    @abstractmethod
    async def clear(self) -> None:
        """Forget everything."""

    @abstractmethod
    async def close(self) -> None:
        """Let go of files and connections. Nothing is forgotten."""


async def add_to_context(
    model_context: ModelContext, title: str, memories: Sequence[MemoryContent]
) -> UpdateContextResult:
    """Add a numbered list of memories to a context as one system message; without any, add nothing.

    Args:
        model_context: Where to.
        title: The line above the list.
        memories: Contents; of one without text only the type is shown.
    """
    if memories:
        lines = [f"{number}. {_shown(memory)}" for number, memory in enumerate(memories, 1)]
        await model_context.add_message(SystemMessage(content="\n".join((f"\n{title}:", *lines))))
    return UpdateContextResult(memories=MemoryQueryResult(results=list(memories)))


async def last_text(model_context: ModelContext) -> str:
    """The text of the last message in a context, to look for; "" when there is none."""
    messages = await model_context.get_messages()
    if not messages:
        return ""
    content = messages[-1].content
    if isinstance(content, str):
        return content
    return "\n".join(_text_of(part) for part in content).strip()


def _shown(memory: MemoryContent) -> str:
    if isinstance(memory.content, bytes | Image):
        return f"({mime_name(memory.mime_type)})"
    return memory.text


def _text_of(part: Any) -> str:
    """The text in a part of a message; a picture has none."""
    if isinstance(part, str):
        return part
    if isinstance(part, Image):
        return ""
    return str(getattr(part, "content", None) or getattr(part, "arguments", ""))
