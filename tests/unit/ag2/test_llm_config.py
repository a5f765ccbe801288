"""Which model an agent asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from callboard.ag2 import LLMConfig
from callboard.groupchat import ConversableAgent, GroupChatDeclarationError
from callboard.models.openai import AzureOpenAIChatCompletionClient, OpenAIChatCompletionClient

FAST: dict[str, Any] = {"model": "gpt-4o-mini", "api_key": "sk-1", "tags": ["fast", "cheap"]}
GOOD: dict[str, Any] = {"model": "gpt-4o", "api_key": "sk-2", "tags": ["good"]}


def model_of(config: Any) -> Any:
    return ConversableAgent("a", llm_config=config).client


@pytest.mark.parametrize(
    "config",
    [
        LLMConfig(FAST, GOOD, temperature=0.5),
        LLMConfig(config_list=[FAST, GOOD], temperature=0.5),
        LLMConfig(config_list=FAST, temperature=0.5),
        LLMConfig(api_type="openai", temperature=0.5, **FAST),
        {"config_list": [FAST], "temperature": 0.5, "cache_seed": 42},
    ],
)
def test_the_first_entry_is_asked_with_the_options_of_all(config: Any) -> None:
    client = model_of(config)
    assert isinstance(client, OpenAIChatCompletionClient)
    assert client.model == "gpt-4o-mini"
    assert client.dump_component().config["temperature"] == 0.5


def test_an_entry_says_more_than_the_options_of_all() -> None:
    client = model_of(LLMConfig({**FAST, "temperature": 1.0, "max_completion_tokens": 9}, temperature=0.5))
    config = client.dump_component().config
    assert (config["temperature"], config["max_completion_tokens"]) == (1.0, 9)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({}, "names no model"),
        ({"config_list": []}, "names no model"),
        ({"config_list": "gpt-4o"}, "str is no configuration"),
        ({"config_list": [None]}, "NoneType is no configuration"),
        ("gpt-4o", "str is no configuration"),
        ([FAST], "list is no configuration"),
        (LLMConfig, "is no configuration"),
    ],
)
def test_what_is_no_configuration_is_refused(config: Any, says: str) -> None:
    with pytest.raises(GroupChatDeclarationError, match=says):
        model_of(config)


def test_a_model_that_is_not_well_known() -> None:
    client = model_of({"model": "llama3", "base_url": "http://127.0.0.1:1/v1", "api_key": "none"})
    assert client.model_info["function_calling"]
    assert client.model_info["family"] == "unknown"


def test_azure() -> None:
    entry = {
        **FAST,
        "api_type": "azure",
        "base_url": "https://x.openai.azure.com",
        "api_version": "2024-06-01",
    }
    assert isinstance(model_of(LLMConfig(entry)), AzureOpenAIChatCompletionClient)


def test_another_service_is_not_taken_for_openai() -> None:
    with pytest.raises(GroupChatDeclarationError, match="api_type 'bedrock'"):
        model_of(LLMConfig({**FAST, "api_type": "bedrock"}))


@pytest.mark.parametrize(
    ("wanted", "models"),
    [
        ({}, ["gpt-4o-mini", "gpt-4o"]),
        ({"model": "gpt-4o"}, ["gpt-4o"]),
        ({"model": ["gpt-4o", "other"], "exclude": True}, ["gpt-4o-mini"]),
        ({"tags": ["cheap"]}, ["gpt-4o-mini"]),
        ({"tags": ["cheap", "good"]}, ["gpt-4o-mini", "gpt-4o"]),
        ({"base_url": None, "model": {"gpt-4o"}}, ["gpt-4o"]),
    ],
)
def test_some_of_the_entries(wanted: dict[str, Any], models: list[str]) -> None:
    config = LLMConfig(FAST, GOOD, seed=7).where(**wanted)
    assert [entry["model"] for entry in config.config_list] == models
    assert config["seed"] == 7


def test_no_entry_is_left() -> None:
    with pytest.raises(GroupChatDeclarationError, match="No entry"):
        LLMConfig(FAST).where(model="other")


def test_entries_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "models.json").write_text(json.dumps([FAST, GOOD]), encoding="utf-8")
    by_path = LLMConfig.from_json(path="models.json", file_location=tmp_path, filter_dict={"tags": ["good"]})
    assert by_path.config_list == [GOOD]
    monkeypatch.setenv("MODELS", json.dumps(FAST))
    assert LLMConfig.from_json(env="MODELS", temperature=0)["temperature"] == 0
    monkeypatch.setenv("MODELS", str(tmp_path / "models.json"))
    assert LLMConfig.from_json(env="MODELS").config_list == [FAST, GOOD]


@pytest.mark.parametrize("text", ["sk-secret", '"sk-secret"', "[1]", "[" * 100_000, "[]"])
def test_a_file_with_something_else(text: str, tmp_path: Path) -> None:
    (tmp_path / "models.json").write_text(text, encoding="utf-8")
    with pytest.raises(GroupChatDeclarationError) as caught:
        LLMConfig.from_json(path=tmp_path / "models.json")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "make",
    [
        LLMConfig,
        lambda: LLMConfig({"api_key": "sk-1"}),
        lambda: LLMConfig(FAST, tempreature=1),
        LLMConfig.from_json,
        lambda: LLMConfig.from_json(env="A", path="b"),
        lambda: LLMConfig.from_json(env="NO_SUCH_VARIABLE_HERE"),
        lambda: LLMConfig.from_json(path="no such file"),
    ],
)
def test_what_is_no_configuration(make: Any) -> None:
    with pytest.raises(GroupChatDeclarationError):
        make()


def test_secrets_are_not_shown() -> None:
    headers = {"Authorization": "Bearer h-1"}
    shown = repr(LLMConfig({**FAST, "azure_ad_token": "t-1", "default_headers": headers}, api_key="sk-3"))
    assert "gpt-4o-mini" in shown
    assert not [secret for secret in ("sk-1", "t-1", "h-1", "sk-3") if secret in shown]
