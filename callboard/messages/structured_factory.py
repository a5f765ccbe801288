"""Types of structured messages, also from JSON schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel

from callboard.foundation.component import Component, ComponentBase
from callboard.tools.json_model import schema_to_pydantic_model

from .errors import MessageTypeError
from .structured import StructuredMessage


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
