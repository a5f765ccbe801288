"""Messages whose content is a model of the user's."""

from __future__ import annotations

from typing import Generic, TypeVar

from pydantic import BaseModel, computed_field

from callboard.memory.llm_messages import UserMessage

from .base import BaseChatMessage

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
