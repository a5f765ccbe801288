from __future__ import annotations

import inspect
from typing import Any

import pytest

from callboard.errors import SettingValueError
from callboard.memory.llm_messages import UserMessage
from callboard.models.errors import BadRequestError, ModelNotFoundError
from callboard.models.info import DEFAULTS, ModelInfo
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.models.openai.settings import CREATE_ARGUMENTS, OpenAISettings, retries_of

URL = "http://127.0.0.1:9/v1"
HELLO = [UserMessage(content="Hello", source="ada")]


def make(model: str = "gpt-4o", **options: Any) -> OpenAIChatCompletionClient:
    return OpenAIChatCompletionClient(model, base_url=URL, **options)


def test_every_argument_is_one_of_the_openai_package() -> None:
    from openai.resources.chat.completions import AsyncCompletions

    there = set(inspect.signature(AsyncCompletions.create).parameters)
    assert there >= CREATE_ARGUMENTS


def test_an_unknown_model_needs_its_model_info(info: ModelInfo) -> None:
    with pytest.raises(ModelNotFoundError, match=r"model_info is required.*Did you mean 'gpt-4o'"):
        make("gpt-4oo")
    assert make("llama", model_info=info).model_info == info
    assert make("gpt-4o-2024-08-06").model_info["vision"]


def test_an_incomplete_model_info_is_refused() -> None:
    with pytest.raises(ValueError, match="Missing required field 'function_calling'"):
        make("llama", model_info={"vision": True})


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(BadRequestError, match=r"'temprature'\. Did you mean 'temperature'"):
        make(temprature=1)


@pytest.mark.parametrize(
    ("setting", "value"), [("tool_mode", "magic"), ("max_retries", -1), ("timeout", -1.0)]
)
def test_impossible_values_are_refused(setting: str, value: Any) -> None:
    with pytest.raises(SettingValueError, match=setting):
        make(**{setting: value})


def test_retries() -> None:
    assert retries_of({}).settings.max_attempts == DEFAULTS.max_attempts
    assert retries_of({"max_retries": 0}).settings.max_attempts == 1
    assert retries_of({"max_retries": 2}).settings.retry_cap == DEFAULTS.retry_cap


@pytest.mark.parametrize(
    ("mode", "takes_tools", "in_text"),
    [
        ("native", True, False),
        ("native", False, False),
        ("lenient", True, False),
        ("lenient", False, True),
        ("schema", True, True),
        ("schema", False, True),
    ],
)
def test_when_tools_are_told_in_text(info: ModelInfo, mode: Any, takes_tools: bool, in_text: bool) -> None:
    settings = OpenAISettings(model="m", info={**info, "function_calling": takes_tools}, tool_mode=mode)
    assert settings.tells_tools_in_text is in_text


def test_the_fingerprint_has_all_that_decides_the_answer() -> None:
    assert make().fingerprint() == make().fingerprint()
    assert make(temperature=0.1).fingerprint() != make(temperature=0.2).fingerprint()
    assert make(extra_headers={"a": "b"}).fingerprint() == make().fingerprint()
    assert make(tool_mode="lenient").fingerprint() != make().fingerprint()
    assert OpenAIChatCompletionClient("gpt-4o", base_url="http://x").fingerprint() != make().fingerprint()


def test_the_longest_answer() -> None:
    assert make().max_completion_tokens is None
    assert make(max_tokens=5).max_completion_tokens == 5
    assert make(max_tokens=5, max_completion_tokens=7).max_completion_tokens == 7


def test_remaining_tokens(info: ModelInfo) -> None:
    used = make().count_tokens(HELLO)
    assert make().remaining_tokens(HELLO) == 128_000 - used
    assert make("llama", model_info=info, token_limit=100).remaining_tokens(HELLO) == 100 - used
    with pytest.raises(BadRequestError, match="give the client token_limit"):
        make("llama", model_info=info).remaining_tokens(HELLO)


def test_how_a_client_shows_itself() -> None:
    assert repr(make()) == f"OpenAIChatCompletionClient('gpt-4o', base_url={URL!r})"
