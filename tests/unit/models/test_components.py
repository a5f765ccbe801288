"""Model clients as plain data and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from callboard import CacheStore, Component, ComponentModel, InMemoryStore
from callboard.foundation.component import (
    ComponentConfigError,
    ComponentLoader,
    ComponentNotAllowedError,
    ComponentTypeError,
    NotDumpableError,
)
from callboard.models import (
    CachedChatCompletionClient,
    ChatCompletionClient,
    Delayed,
    FunctionCall,
    ModelInfo,
    ModelRetries,
    ModelSettings,
    RecordedChatCompletionClient,
    ReplayChatCompletionClient,
    RetryingChatCompletionClient,
    RuntimeStore,
)
from callboard.models.errors import RateLimitError
from callboard.models.openai import AzureOpenAIChatCompletionClient, OpenAIChatCompletionClient

from .asking import HELLO, result

CALL = FunctionCall(id="1", arguments='{"a": 1}', name="f")
INFO = ModelInfo(vision=False, function_calling=True, json_output=False, family="x", structured_output=False)
KEYS = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "AZURE_OPENAI_ENDPOINT",
    "AZURE_OPENAI_API_KEY",
    "GEMINI_API_KEY",
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "of-the-environment")


def replay() -> ReplayChatCompletionClient:
    return ReplayChatCompletionClient(["one", [CALL], result("two")], INFO, default="more", model="m")


def again(client: Component[Any]) -> Any:
    """What a dump becomes after it was JSON."""
    assert isinstance(client, ChatCompletionClient)
    text = client.dump_component().model_dump_json()
    return ChatCompletionClient.load_component(ComponentModel.model_validate_json(text))


async def test_a_script() -> None:
    loaded = again(replay())
    assert type(loaded) is ReplayChatCompletionClient
    assert [(await loaded.create(HELLO)).content for _ in range(4)] == ["one", [CALL], "two", "more"]
    assert (loaded.model, loaded.model_info) == ("m", INFO)


@pytest.mark.parametrize("answer", [lambda _: "a", RateLimitError("m", "slow"), Delayed(0.0, "a")])
def test_a_script_of_more_than_data_is_refused(answer: Any) -> None:
    with pytest.raises(NotDumpableError, match="only texts, calls and results"):
        ReplayChatCompletionClient([answer]).dump_component()


def test_a_script_of_autogen_is_read() -> None:
    loaded = ChatCompletionClient.load_component(
        {
            "provider": "autogen_ext.models.replay.ReplayChatCompletionClient",
            "component_type": "replay_chat_completion_client",
            "config": {"chat_completions": ["a"], "model_info": {**INFO}},
        }
    )
    assert isinstance(loaded, ReplayChatCompletionClient)
    assert loaded.chat_completions == ["a"]


class TestClientsAroundClients:
    async def test_a_cache_with_a_store_of_its_own(self) -> None:
        loaded = again(CachedChatCompletionClient(replay(), seconds=5))
        assert isinstance(loaded, CachedChatCompletionClient)
        assert loaded._to_config().seconds == 5
        assert [(await loaded.create(HELLO)).content for _ in range(2)] == ["one", "one"]

    @pytest.mark.parametrize("store", [InMemoryStore[bytes](), RuntimeStore()])
    def test_a_cache_with_a_store(self, store: CacheStore[bytes] | RuntimeStore) -> None:
        loaded = again(CachedChatCompletionClient(replay(), store))
        assert type(loaded.store) is type(store)

    def test_a_cache_with_a_store_that_is_no_component(self) -> None:
        class Store:
            async def get(self, name: str) -> bytes | None: ...
            async def set(self, name: str, value: bytes, seconds: float) -> None: ...

        with pytest.raises(NotDumpableError, match="its Store is no component"):
            CachedChatCompletionClient(replay(), Store()).dump_component()

    def test_autogens_cache_is_read(self) -> None:
        loaded = ChatCompletionClient.load_component(
            {
                "provider": "autogen_ext.models.cache.ChatCompletionCache",
                "component_type": "chat_completion_cache",
                "config": {
                    "client": replay().dump_component().model_dump(),
                    "store": {"provider": "autogen_core.InMemoryStore", "config": {}},
                },
            }
        )
        assert isinstance(loaded, CachedChatCompletionClient)
        assert isinstance(loaded.store, InMemoryStore)

    def test_retries(self) -> None:
        settings = ModelSettings(max_attempts=7, retry_base=0.5, retry_cap=4, longest_retry_after=9)
        loaded = again(RetryingChatCompletionClient(replay(), ModelRetries(settings)))
        assert isinstance(loaded, RetryingChatCompletionClient)
        assert loaded.retries.settings == settings

    def test_a_recording(self) -> None:
        loaded = again(RecordedChatCompletionClient(replay()))
        assert isinstance(loaded, RecordedChatCompletionClient)
        assert isinstance(loaded.client, ReplayChatCompletionClient)

    def test_the_inner_one_has_to_be_a_client(self) -> None:
        memory = {"provider": "callboard.InMemoryStore", "config": {}}
        with pytest.raises(ComponentTypeError, match="no ChatCompletionClient"):
            ChatCompletionClient.load_component(
                {"provider": "callboard.models.RecordedChatCompletionClient", "config": {"client": memory}}
            )


async def test_a_store_of_autogens_kind_is_a_cache() -> None:
    store = InMemoryStore[bytes]()
    client = CachedChatCompletionClient(replay(), store)
    assert [(await client.create(HELLO)).cached for _ in range(2)] == [True, True]
    assert (await client.create(HELLO)).content == "one"
    assert list(store.store) == [next(iter(store.store))]
    assert store.get("nothing", b"else") == b"else"


async def test_a_store_that_gives_text_for_bytes_is_one_too() -> None:
    class Texts(InMemoryStore[Any]):
        def set(self, key: str, value: Any) -> None:
            self.store[key] = value.decode()

    client = CachedChatCompletionClient(replay(), Texts())
    assert [(await client.create(HELLO)).content for _ in range(2)] == ["one", "one"]


class TestOpenAI:
    def test_options_come_back_without_secrets(self) -> None:
        client = OpenAIChatCompletionClient(
            "gpt-4o",
            api_key="s3cret",
            temperature=0.5,
            timeout=3,
            model_info=INFO,
            default_headers={"Authorization": "s3cret", "X-Team": "a"},
        )
        dump = client.dump_component()
        assert dump.provider == "callboard.models.openai.OpenAIChatCompletionClient"
        assert dump.component_type == "model"
        assert dump.config == {
            "model": "gpt-4o",
            "temperature": 0.5,
            "timeout": 3,
            "model_info": INFO,
            "default_headers": {"X-Team": "a"},
        }
        loaded = again(client)
        assert loaded.fingerprint() == client.fingerprint()
        assert loaded._connection.api_key == "of-the-environment"

    @pytest.mark.parametrize(
        "provider",
        ["OpenAIChatCompletionClient", "autogen_ext.models.openai.OpenAIChatCompletionClient"],
    )
    def test_autogens_dump_is_read(self, provider: str) -> None:
        config = {"model": "gpt-4o", "api_key": "**********", "max_tokens": 9, "seed": None}
        loaded: Any = ChatCompletionClient.load_component({"provider": provider, "config": config})
        assert loaded.max_completion_tokens == 9
        assert loaded._connection.api_key == "of-the-environment"

    def test_a_key_in_the_query_stays_out(self) -> None:
        query = {"subscription-key": "s3cret", "region": "eu"}
        dump = OpenAIChatCompletionClient("gpt-4o", extra_query=query).dump_component()
        assert dump.config["extra_query"] == {"region": "eu"}

    def test_a_key_in_a_config_is_used(self) -> None:
        config = {"model": "gpt-4o", "api_key": "given"}
        loaded: Any = ChatCompletionClient.load_component(
            {"provider": "OpenAIChatCompletionClient", "config": config}
        )
        assert loaded._connection.api_key == "given"

    def test_older_capabilities_are_read(self) -> None:
        capabilities = {"vision": True, "function_calling": False, "json_output": True}
        loaded = OpenAIChatCompletionClient.load_component(
            {
                "provider": "OpenAIChatCompletionClient",
                "config": {"model": "own", "model_capabilities": capabilities},
            }
        )
        assert loaded.model_info["vision"]
        assert not loaded.model_info["structured_output"]

    @pytest.mark.parametrize(
        ("address", "hosts", "key"),
        [
            ("https://elsewhere.example/v1", [], "none"),
            ("https://elsewhere.example/v1", ["elsewhere.example"], "of-the-environment"),
            ("https://api.openai.com/v1", [], "of-the-environment"),
            ("https://of-the.environment/v1/", [], "of-the-environment"),
        ],
    )
    def test_the_key_of_the_environment_goes_to_no_stranger(
        self, address: str, hosts: list[str], key: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_BASE_URL", "https://of-the.environment/v1")
        dump = {"provider": "OpenAIChatCompletionClient", "config": {"model": "gpt-4o", "base_url": address}}
        loaded = OpenAIChatCompletionClient.load_component(dump, hosts=hosts)
        assert loaded._connection.api_key == key
        assert loaded._connection.base_url == address

    def test_another_vendors_address_gets_that_vendors_key(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("GEMINI_API_KEY", "of-gemini")
        address = "https://generativelanguage.googleapis.com/v1beta/openai/"
        config = {"model": "gemini-2.0-flash", "base_url": address}
        dump = {"provider": "OpenAIChatCompletionClient", "config": config}
        loaded = OpenAIChatCompletionClient.load_component(dump)
        assert loaded._connection.api_key == "of-gemini"

    @pytest.mark.parametrize(
        ("name", "value"),
        [("retries", ModelRetries()), ("http_client", object()), ("response_format", InMemoryStore)],
    )
    def test_objects_of_the_program_are_refused(self, name: str, value: Any) -> None:
        options: dict[str, Any] = {name: value}
        with pytest.raises(NotDumpableError, match=name):
            OpenAIChatCompletionClient("gpt-4o", **options).dump_component()

    def test_a_wrong_value_is_told_without_the_others(self) -> None:
        config = {"model": "gpt-4o", "timeout": "soon", "api_key": "s3cret"}
        with pytest.raises(ComponentConfigError, match="timeout") as error:
            ChatCompletionClient.load_component({"provider": "OpenAIChatCompletionClient", "config": config})
        assert "s3cret" not in str(error.value)


class TestAzure:
    CONFIG: ClassVar[dict[str, Any]] = {
        "model": "gpt-4o",
        "azure_endpoint": "https://a.openai.azure.com",
        "azure_deployment": "d",
        "api_version": "2024-10-21",
    }

    def dump(self) -> dict[str, Any]:
        return {"provider": "AzureOpenAIChatCompletionClient", "config": self.CONFIG}

    def test_a_deployment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "of-azure")
        loaded = ChatCompletionClient.load_component(self.dump(), hosts=["a.openai.azure.com"])
        assert isinstance(loaded, AzureOpenAIChatCompletionClient)
        assert loaded.dump_component().config == self.CONFIG
        assert loaded.dump_component().provider == "callboard.models.openai.AzureOpenAIChatCompletionClient"

    def test_one_that_nobody_named_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AZURE_OPENAI_API_KEY", "of-azure")
        with pytest.raises(ComponentNotAllowedError, match=r"hosts=\['a.openai.azure.com'\]"):
            ChatCompletionClient.load_component(self.dump())
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://a.openai.azure.com/")
        assert isinstance(ChatCompletionClient.load_component(self.dump()), AzureOpenAIChatCompletionClient)

    def test_a_token_provider_that_is_unknown_is_refused(self) -> None:
        provider = {"provider": "autogen_ext.auth.azure.AzureTokenProvider", "config": {}}
        config = {**self.CONFIG, "azure_ad_token_provider": provider}
        with pytest.raises(ComponentNotAllowedError):
            ChatCompletionClient.load_component(
                {**self.dump(), "config": config}, hosts=["a.openai.azure.com"]
            )


@pytest.mark.parametrize("make", [InMemoryStore[bytes], RuntimeStore], ids=["in memory", "of the runtime"])
def test_stores(make: Callable[[], Any]) -> None:
    dump = make().dump_component()
    assert (dump.component_type, dump.config) == ("cache_store", {})
    assert type(ComponentLoader.load_component(dump, object)) is type(make())
