"""Types of structured messages, from models and from schemas."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel, Field, ValidationError

from callboard.foundation.component import ComponentModel
from callboard.messages import MessageTypeError, StructuredMessage, StructuredMessageFactory


class Marks(BaseModel):
    points: int = Field(ge=0)
    words: list[str] = []


SCHEMA = Marks.model_json_schema()


def test_of_a_model() -> None:
    factory = StructuredMessageFactory(input_model=Marks, format_string="{points} points")
    assert factory.StructuredMessage is StructuredMessage[Marks]
    message = factory.StructuredMessage(
        content=Marks(points=3), source="x", format_string=factory.format_string
    )
    assert message.to_text() == "3 points"


def test_of_a_schema() -> None:
    factory = StructuredMessageFactory(json_schema=SCHEMA, content_model_name="Marks2")
    message = factory.StructuredMessage.load(
        {"content": {"points": 3, "words": ["good"]}, "source": "x", "type": "StructuredMessage[Marks2]"}
    )
    assert message.type == "StructuredMessage[Marks2]"
    assert (message.content.points, message.content.words) == (3, ["good"])
    with pytest.raises(ValidationError):
        factory.ContentModel(points=-1)


def test_the_schema_goes_over_the_model() -> None:
    """As in AutoGen."""
    factory = StructuredMessageFactory(SCHEMA, Marks)
    assert factory.ContentModel.__name__ == "GeneratedContentModel"


def test_one_of_them_is_needed() -> None:
    with pytest.raises(MessageTypeError, match="give json_schema or input_model"):
        StructuredMessageFactory()


@pytest.mark.parametrize(
    "provider",
    ["callboard.messages.StructuredMessageFactory", "autogen_agentchat.messages.StructuredMessageFactory"],
)
def test_dumps(provider: str) -> None:
    factory = StructuredMessageFactory(None, Marks, "{points} points")
    dump = json.loads(factory.dump_component().model_dump_json())
    assert dump["component_type"] == "structured_message"
    assert dump["config"] == {
        "json_schema": SCHEMA,
        "format_string": "{points} points",
        "content_model_name": "Marks",
    }
    dump["provider"] = provider
    again = StructuredMessageFactory.load_component(ComponentModel.model_validate(dump))
    assert again.format_string == "{points} points"
    assert again.ContentModel.__name__ == "Marks"
    assert again.ContentModel(points=1, words=["a"]).model_dump() == {"points": 1, "words": ["a"]}
