from __future__ import annotations

from typing import Any

import pytest

from callboard.memory.llm_messages import UserMessage
from callboard.models.base import ModelRequest
from callboard.models.errors import BadRequestError
from callboard.models.info import ModelInfo
from callboard.models.openai.chat_request import ChatRequest
from callboard.models.openai.settings import OpenAISettings

HELLO = [UserMessage(content="Hello", source="ada")]
ADD = {"name": "add", "parameters": {"type": "object", "properties": {}}}


class Other:
    """A tool that is not offered."""

    name = "other"
    schema = {"name": "other"}  # noqa: RUF012


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"tools": [{"name": "add numbers"}]}, "'add numbers' can't be the name of a tool"),
        ({"tools": [print]}, "builtin_function_or_method is no tool"),
        ({"tools": [{"description": "nameless"}]}, "is no tool: give a Tool or a ToolSchema with a name"),
        ({"tools": [ADD, ADD]}, "two tools are called 'add'"),
        ({"tools": [ADD], "tool_choice": Other()}, "tool_choice is 'other', which is not among the tools"),
        ({"tool_choice": "required"}, "'required' without tools"),
        ({"tools": [ADD], "tool_choice": "always"}, "neither auto, required, none nor a tool"),
        (
            {"tools": [{"name": "f", "strict": True, "parameters": {"type": "object"}}]},
            "'f' can't be strict: an object in its parameters may have any keys",
        ),
    ],
)
def test_arguments_that_contradict_each_other_are_refused(
    info: ModelInfo, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadRequestError, match=said):
        ChatRequest.of(ModelRequest(HELLO, **asked), OpenAISettings(model="m", info=info))


def test_tool_choice_without_tools_is_left_out(info: ModelInfo) -> None:
    request = ChatRequest.of(ModelRequest(HELLO, tool_choice="none"), OpenAISettings(model="m", info=info))
    assert set(request.arguments) == {"model", "messages"}


def test_options_of_a_stream_are_added_to(info: ModelInfo) -> None:
    asked = ModelRequest(HELLO, extra_create_args={"stream_options": {"include_obfuscation": False}})
    request = ChatRequest.of(asked, OpenAISettings(model="m", info=info))

    arguments = request.stream_arguments(include_usage=None)

    assert arguments["stream_options"] == {"include_usage": True, "include_obfuscation": False}
    assert "stream" not in request.arguments
