"""Where a client goes and with which key."""

from __future__ import annotations

import importlib.util

import pytest

from callboard.errors import SettingValueError
from callboard.foundation import MissingPackageError
from callboard.memory.llm_messages import UserMessage
from callboard.models.errors import AuthenticationError
from callboard.models.info import ModelInfo
from callboard.models.openai import AzureOpenAIChatCompletionClient, OpenAIChatCompletionClient
from callboard.models.openai.connection import NO_KEY, connection_of
from tests.helpers.openai_server import Answer, OpenAIServer, Refused

HELLO = [UserMessage(content="Hello", source="ada")]


def test_a_missing_key_says_what_to_set() -> None:
    with pytest.raises(
        AuthenticationError, match=r"no API key.*give api_key, or set OPENAI_API_KEY"
    ) as missing:
        OpenAIChatCompletionClient("gpt-4o")
    assert str(missing.value).count("OPENAI_API_KEY") == 1
    with pytest.raises(AuthenticationError, match="set GEMINI_API_KEY"):
        OpenAIChatCompletionClient("gemini-2.0-flash")


@pytest.mark.parametrize(
    ("model", "variable", "address"),
    [
        ("gpt-4o", "OPENAI_API_KEY", "https://api.openai.com/v1"),
        ("gemini-2.0-flash", "GEMINI_API_KEY", "https://generativelanguage.googleapis.com/v1beta/openai/"),
        ("claude-3-5-sonnet-20241022", "ANTHROPIC_API_KEY", "https://api.anthropic.com/v1/"),
    ],
)
def test_keys_come_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, model: str, variable: str, address: str
) -> None:
    monkeypatch.setenv(variable, "sk-env")

    connection = connection_of(model, {})

    assert (connection.base_url, connection.api_key) == (address, "sk-env")


def test_the_address_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")

    connection = connection_of("m", {})

    assert (connection.base_url, connection.api_key) == ("http://127.0.0.1:8000/v1", NO_KEY)
    assert connection.secret is None
    assert connection_of("m", {"base_url": "http://other/v1"}).base_url == "http://other/v1"


@pytest.mark.parametrize("address", ["localhost:8000/v1", "ftp://x", "api.openai.com"])
def test_an_address_needs_its_scheme(address: str) -> None:
    with pytest.raises(SettingValueError, match=r"base_url=.*begins with http:// or https://"):
        connection_of("m", {"base_url": address})


def test_a_timeout_has_to_be_positive() -> None:
    with pytest.raises(SettingValueError, match="timeout=0"):
        connection_of("m", {"base_url": "http://x", "timeout": 0})


def test_the_package_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pip install 'callboard\[openai\]'"):
        connection_of("m", {"base_url": "http://x"})


def test_no_key_is_shown(info: ModelInfo) -> None:
    connection = connection_of(
        "m", {"base_url": "http://x", "api_key": "sk-1", "default_headers": {"k": "sk-2"}}
    )
    client = OpenAIChatCompletionClient("m", base_url="http://x", api_key="sk-1", model_info=info)

    assert "sk-" not in repr(connection) + repr(client) + str(client.fingerprint())


async def test_a_key_may_be_made_for_each_request(server: OpenAIServer, info: ModelInfo) -> None:
    keys = iter(["sk-first", "sk-second"])

    async def next_key() -> str:
        return next(keys)

    server.default = Answer("a")
    async with OpenAIChatCompletionClient(
        "m", base_url=server.url, api_key=next_key, model_info=info
    ) as client:
        await client.create(HELLO)
        await client.create(HELLO)

    sent = [asked.headers["authorization"] for asked in server.requests]
    assert sent == ["Bearer sk-first", "Bearer sk-second"]


# Azure


async def test_a_deployment_in_azure(server: OpenAIServer) -> None:
    server.default = Answer("from azure")
    options = {"azure_endpoint": server.root, "azure_deployment": "mine", "api_version": "2024-10-21"}
    async with OpenAIChatCompletionClient("gpt-4o", api_key="az-key", **options) as client:  # type: ignore[arg-type]
        result = await client.create(HELLO)
        [*_, streamed] = [item async for item in client.create_stream(HELLO)]

    assert result.content == "from azure"
    assert not isinstance(streamed, str)
    assert streamed.content == "from azure"
    assert server.last.path == "/openai/deployments/mine/chat/completions"
    assert server.last.query == {"api-version": "2024-10-21"}
    assert server.last.headers["api-key"] == "az-key"
    assert "authorization" not in server.last.headers


async def test_azure_by_its_own_name_and_the_environment(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.default = Answer("a")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.root)
    monkeypatch.setenv("OPENAI_API_VERSION", "2024-10-21")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "az-env")

    async with AzureOpenAIChatCompletionClient("gpt-4o") as client:
        await client.create(HELLO)

    assert server.last.path == "/openai/deployments/gpt-4o/chat/completions"
    assert server.last.headers["api-key"] == "az-env"


async def test_azure_with_tokens(server: OpenAIServer) -> None:
    server.default = Answer("a")
    common = {"azure_endpoint": server.root, "api_version": "2024-10-21"}
    async with OpenAIChatCompletionClient("gpt-4o", azure_ad_token="token", **common) as client:  # type: ignore[arg-type]
        await client.create(HELLO)
    assert server.last.headers["authorization"] == "Bearer token"

    async def provide() -> str:
        return "made"

    async with OpenAIChatCompletionClient(
        "gpt-4o",
        azure_ad_token_provider=provide,
        **common,  # type: ignore[arg-type]
    ) as client:
        await client.create(HELLO)
    assert server.last.headers["authorization"] == "Bearer made"


async def test_azure_refuses_a_deployment_that_is_not_there(server: OpenAIServer) -> None:
    server.script(Refused(401, "Access denied due to invalid subscription key", "401"))
    common = {"azure_endpoint": server.root, "api_version": "2024-10-21", "api_key": "az"}
    async with OpenAIChatCompletionClient("gpt-4o", **common) as client:  # type: ignore[arg-type]
        with pytest.raises(AuthenticationError):
            await client.create(HELLO)


def test_azure_says_what_is_missing() -> None:
    with pytest.raises(AuthenticationError, match="set AZURE_OPENAI_API_KEY"):
        connection_of("gpt-4o", {"azure_endpoint": "https://x", "api_version": "2024-10-21"})
    with pytest.raises(SettingValueError, match="OPENAI_API_VERSION"):
        connection_of("gpt-4o", {"azure_endpoint": "https://x", "api_key": "k"})
    with pytest.raises(SettingValueError, match="base_url"):
        connection_of("gpt-4o", {"azure_endpoint": "https://x", "base_url": "https://y"})
    with pytest.raises(SettingValueError, match="azure_endpoint"):
        connection_of("gpt-4o", {"azure_endpoint": "x", "api_key": "k", "api_version": "1"})
    with pytest.raises(SettingValueError, match="AZURE_OPENAI_ENDPOINT"):
        AzureOpenAIChatCompletionClient("gpt-4o")


async def test_a_provider_of_empty_keys_is_an_error(server: OpenAIServer, info: ModelInfo) -> None:
    async def no_key() -> str:
        return ""

    async with OpenAIChatCompletionClient(
        "m", base_url=server.url, api_key=no_key, model_info=info
    ) as client:
        with pytest.raises(AuthenticationError, match="gave no key"):
            await client.create(HELLO)
