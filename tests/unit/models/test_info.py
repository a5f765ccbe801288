from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.errors import SettingValueError
from callboard.models import ModelRequest, UserMessage
from callboard.models.errors import ModelNotFoundError
from callboard.models.info import (
    get_info,
    get_token_limit,
    known_model,
    known_models,
    validate_model_info,
    without_version,
)
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.models.openai.chat_request import ChatRequest


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("gpt-4-0613", "gpt-4"),
        ("gpt-4.5-preview", "gpt-4.5-preview"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4"),
        ("claude-3-5-sonnet-latest", "claude-3-5-sonnet"),
        ("gemini-1.5-pro-002", "gemini-1.5-pro"),
        ("gemini-2.5-pro-preview-05-06", "gemini-2.5-pro"),
        ("o3-mini", "o3-mini"),
        ("o1-preview-2024-09-12", "o1-preview"),
        ("gpt-4.5-preview-2025-02-27", "gpt-4.5-preview"),
    ],
)
def test_versions_do_not_matter(name: str, model: str) -> None:
    assert known_model(name) is known_models()[model]
    assert get_info(name) == known_models()[model].info
    assert get_token_limit(name) == known_models()[model].context


@pytest.mark.parametrize("name", ["gpt-4o-mega", "llama", "", "gpt-40", "my-gpt-4o", "gpt-4o-preview"])
def test_others_are_not_guessed(name: str) -> None:
    for get in (get_info, get_token_limit):
        with pytest.raises(ModelNotFoundError, match="model_info is required"):
            get(name)


def test_the_nearest_name_is_told() -> None:
    with pytest.raises(ModelNotFoundError, match="Did you mean 'gpt-4o'"):
        get_info("gpt4o")


def test_every_row_is_complete() -> None:
    for known in known_models().values():
        validate_model_info(known.info)
        assert known.context >= 8_192


def test_an_incomplete_info_is_refused() -> None:
    with pytest.raises(ValueError, match="Missing required field 'function_calling'"):
        validate_model_info({"vision": True})


def test_a_version_is_cut_off_once() -> None:
    assert without_version("gpt-4o-2024-08-06") == "gpt-4o"
    assert without_version("gpt-4o") == "gpt-4o"


@pytest.fixture
def own_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "models.json"
    monkeypatch.setenv("CALLBOARD_MODELS", str(path))
    known_models.cache_clear()
    yield path
    known_models.cache_clear()


def test_a_table_of_ones_own_wins(own_table: Path) -> None:
    row = {"family": "unknown", "context": 8192, "can": "tools json"}
    own_table.write_text(json.dumps({"models": {"my-model": row, "gpt-5": {**row, "context": 7}}}))
    assert get_info("my-model")["function_calling"]
    assert not get_info("my-model")["vision"]
    assert get_token_limit("gpt-5") == 7
    assert get_token_limit("gpt-4o") == 128_000
    OpenAIChatCompletionClient("my-model", base_url="http://127.0.0.1:1", api_key="x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"models": {"m": 3}}',
        '{"models": {"m": {"family": "f", "context": 1, "can": "fly"}}}',
    ],
)
def test_a_table_that_can_not_be_read_is_told(own_table: Path, text: str) -> None:
    own_table.write_text(text)
    with pytest.raises(SettingValueError, match="CALLBOARD_MODELS"):
        get_info("gpt-4o")


@pytest.mark.parametrize(
    "name", ["gpt-5.1", "gpt-5.2", "claude-sonnet-4-5-20250929", "gemini-3-pro-preview", "grok-4"]
)
def test_current_names_are_known(name: str) -> None:
    assert get_info(name)["function_calling"]


@pytest.mark.parametrize(("model", "name"), [("gpt-5.1", "max_completion_tokens"), ("gpt-4o", "max_tokens")])
async def test_answers_are_limited_as_the_model_takes_it(model: str, name: str) -> None:
    client = OpenAIChatCompletionClient(model, base_url="http://127.0.0.1:1", api_key="x", max_tokens=5)
    request = ModelRequest([UserMessage(content="Hi", source="ada")])
    arguments = ChatRequest.of(request, client._settings).arguments
    assert {key: value for key, value in arguments.items() if key.startswith("max_")} == {name: 5}
