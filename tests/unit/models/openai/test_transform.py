from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    Image,
    LLMMessage,
    SystemMessage,
    UserMessage,
)
from callboard.models.errors import BadRequestError
from callboard.models.info import ModelInfo
from callboard.models.openai.chat_request import AFTER_RESULTS, Transformer
from callboard.models.openai.settings import OpenAISettings

PIXEL = Image.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")
HELLO = UserMessage(content="Hello", source="ada")


@pytest.fixture
def settings(info: ModelInfo) -> OpenAISettings:
    return OpenAISettings(model="m", info=info)


def wire(settings: OpenAISettings, *messages: LLMMessage, told: str | None = None) -> list[dict[str, Any]]:
    return Transformer(settings).messages(messages, told)


def with_info(settings: OpenAISettings, **changes: Any) -> OpenAISettings:
    info: Any = {**settings.info, **changes}
    return replace(settings, info=info)


def test_images_and_texts_in_their_order(settings: OpenAISettings) -> None:
    web = Image.from_url("https://example.org/a.png")

    (message,) = wire(settings, UserMessage(content=["Look:", PIXEL, web], source="ada"))

    text, data, address = message["content"]
    assert text == {"type": "text", "text": "Look:"}
    assert data["image_url"]["url"].startswith("data:image/png;base64,")
    assert address["image_url"]["url"] == "https://example.org/a.png"


def test_images_are_refused_for_a_model_that_sees_none(settings: OpenAISettings) -> None:
    blind = with_info(settings, vision=False)

    with pytest.raises(BadRequestError, match="takes no images"):
        wire(blind, UserMessage(content=["Look:", PIXEL], source="ada"))
    assert wire(blind, UserMessage(content=["only", "texts"], source="ada"))


SYSTEMS = (SystemMessage(content="one"), HELLO, SystemMessage(content="two"))


def test_system_messages_stay_where_a_model_takes_several(settings: OpenAISettings) -> None:
    assert [message["content"] for message in wire(settings, *SYSTEMS)] == ["one", "Hello", "two"]


def test_system_messages_become_one_where_a_model_takes_one(settings: OpenAISettings) -> None:
    one = with_info(settings, multiple_system_messages=False)

    assert wire(one, *SYSTEMS) == [
        {"role": "system", "content": "one"},
        {"role": "user", "content": "Hello\n\ntwo", "name": "ada"},
    ]
    assert wire(one, HELLO) == wire(settings, HELLO)


def test_without_a_word_about_it_a_model_takes_one(settings: OpenAISettings) -> None:
    info: Any = {name: value for name, value in settings.info.items() if name != "multiple_system_messages"}

    assert len(wire(replace(settings, info=info), *SYSTEMS)) == 2


def test_instructions_of_the_client_stand_behind_the_first_system_messages(settings: OpenAISettings) -> None:
    told = Transformer(settings).messages(SYSTEMS, "three", "now")
    assert [message["content"] for message in told] == ["one", "three", "Hello", "two", "now"]

    told = Transformer(with_info(settings, multiple_system_messages=False)).messages(SYSTEMS, "three", "now")
    assert [message["content"] for message in told] == ["one\nthree", "Hello\n\ntwo\n\nnow"]


def test_names(settings: OpenAISettings) -> None:
    sources = ("ada", "writer/ada", "writer_ada", "Ada Lovelace", "")
    told = wire(settings, *(UserMessage(content="Hello", source=source) for source in sources))

    names = [message["name"] for message in told]
    assert names[:2] == ["ada", "writer_ada"]
    assert names[2].startswith("writer_ada_")
    assert names[3:] == ["Ada_Lovelace", "speaker"]
    silent = replace(settings, include_name_in_message=False)
    assert wire(silent, HELLO) == [{"role": "user", "content": "Hello"}]
    assert "name" not in wire(with_info(settings, family="mistral"), HELLO)[0]


def test_prefixes(settings: OpenAISettings) -> None:
    prefixing = replace(settings, add_name_prefixes=True)

    assert wire(prefixing, HELLO)[0]["content"] == "ada said:\nHello"
    (message,) = wire(prefixing, UserMessage(content=[PIXEL], source="ada"))
    assert message["content"][0] == {"type": "text", "text": "ada said:\n"}


def test_texts_are_not_empty_where_that_is_refused(settings: OpenAISettings) -> None:
    empty = AssistantMessage(content=[FunctionCall("1", "{}", "add")], source="bot")

    assert wire(settings, empty)[0]["content"] is None
    for family in ("gemini-2.0-flash", "claude-3-haiku"):
        assert wire(with_info(settings, family=family), empty)[0]["content"] == " "


def test_the_last_answer_has_no_space_at_its_end_for_claude(settings: OpenAISettings) -> None:
    answer = AssistantMessage(content="So far \n", source="bot")

    assert wire(settings, answer)[0]["content"] == "So far \n"
    assert wire(with_info(settings, family="claude-3-haiku"), answer)[0]["content"] == "So far"


def test_calls_and_results_in_words(settings: OpenAISettings) -> None:
    results = [
        FunctionExecutionResult(content="3", name="add", call_id="1", is_error=False),
        FunctionExecutionResult(content="no such page", name="get", call_id="2", is_error=True),
    ]
    call = AssistantMessage(content=[FunctionCall("1", '{"a": 1}', "add")], source="bot")

    told = wire(replace(settings, tool_mode="schema"), call, FunctionExecutionResultMessage(content=results))

    assert told == [
        {"role": "assistant", "name": "bot", "content": '{"name": "add", "arguments": {"a": 1}}'},
        {"role": "user", "content": f"Result of add: 3\nError of get: no such page\n{AFTER_RESULTS}"},
    ]
