"""Servers that a config names: private ones are reached only when the caller of load_component allows it."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, get_args

import httpx2
import pytest
from pydantic import BaseModel

from callboard import CancellationToken, ComponentLoader
from callboard.foundation import addresses
from callboard.foundation.addresses import public_transport
from callboard.foundation.component import ComponentNotAllowedError
from callboard.foundation.providers import PROVIDERS
from callboard.memory.llm_messages import Image, UserMessage
from callboard.models import ChatCompletionClient
from callboard.tools import HttpTool, McpWorkbench
from callboard.tools.errors import CallRefusedError, ToolConnectionError

OPENAI = {"provider": "callboard.models.openai.OpenAIChatCompletionClient"}
SCHEMA = {"type": "object", "properties": {}}
MAKERS = {
    "anthropic": "AnthropicChatCompletionClient",
    "gemini": "GeminiChatCompletionClient",
    "openai_responses": "OpenAIResponsesChatCompletionClient",
}


def config_of(name: str, host: str, port: int) -> dict[str, Any]:
    """A config that names a server by the field of a component."""
    configs: Mapping[str, dict[str, Any]] = {
        "McpWorkbench.url": {
            "provider": "callboard.tools.McpWorkbench",
            "config": {
                "server_params": {"type": "StreamableHttpServerParams", "url": f"http://{host}:{port}/mcp"}
            },
        },
        "OpenAIChatCompletionClient.base_url": {
            **OPENAI,
            "config": {"model": "gpt-4o", "base_url": f"http://{host}:{port}/v1", "api_key": "k"},
        },
        "OpenAIChatCompletionClient.azure_endpoint": {
            **OPENAI,
            "config": {
                "model": "gpt-4o",
                "azure_endpoint": f"http://{host}:{port}",
                "api_version": "1",
                "api_key": "k",
            },
        },
        "OllamaChatCompletionClient.host": {
            "provider": "callboard.models.ollama.OllamaChatCompletionClient",
            "config": {"model": "gpt-4o", "host": f"http://{host}:{port}"},
        },
        **{
            f"{name}.base_url": {
                "provider": f"callboard.models.{module}.{name}",
                "config": {"model": "a-model", "base_url": f"http://{host}:{port}", "api_key": "k"},
            }
            for module, name in MAKERS.items()
        },
        "ChromaDBVectorMemory.host": {
            "provider": "callboard.memory.ChromaDBVectorMemory",
            "config": {"client_type": "http", "host": host, "port": port},
        },
        "HttpTool.host": {
            "provider": "callboard.tools.HttpTool",
            "config": {"name": "t", "host": host, "port": port, "json_schema": SCHEMA},
        },
    }
    return configs[name]


FIELDS = (
    "McpWorkbench.url",
    "OpenAIChatCompletionClient.base_url",
    "OpenAIChatCompletionClient.azure_endpoint",
    "OllamaChatCompletionClient.host",
    *(f"{name}.base_url" for name in MAKERS.values()),
    "ChromaDBVectorMemory.host",
    "HttpTool.host",
)


async def use(component: Any) -> None:
    """Has it ask its server."""
    if isinstance(component, ChatCompletionClient):
        await component.create([UserMessage(content="hello", source="user")])
    elif isinstance(component, McpWorkbench):
        await component.list_tools()
    elif isinstance(component, HttpTool):
        await component.run_json({}, CancellationToken())
    else:
        raise AssertionError("it can't be made")


class Listener:
    """A server of this machine that counts who comes."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests: list[str] = []
        self.answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.requests.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(self.answer)
        await writer.drain()
        writer.close()


@pytest.fixture
async def listener() -> AsyncIterator[Listener]:
    made = Listener()
    async with await asyncio.start_server(made.serve, "127.0.0.1", 0) as server:
        made.port = server.sockets[0].getsockname()[1]
        yield made


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "inside.test", "127.1"])
async def test_a_config_alone_reaches_no_private_address(
    field: str, host: str, listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lookup(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setattr(addresses, "lookup", lookup)
    with pytest.raises((ComponentNotAllowedError, ToolConnectionError, CallRefusedError)) as error:
        await use(ComponentLoader.load_component(config_of(field, host, listener.port), object))
    assert listener.connections == 0
    assert host in str(error.value)
    if field != "HttpTool.host":
        assert f"hosts=['{host}']" in str(error.value)


@pytest.mark.parametrize("field", ["McpWorkbench.url", "OpenAIChatCompletionClient.base_url"])
async def test_who_allows_it_reaches_one(field: str, listener: Listener) -> None:
    dump = config_of(field, "127.0.0.1", listener.port)
    component = ComponentLoader.load_component(dump, object, hosts=["127.0.0.1"])
    with pytest.raises(Exception):  # noqa: B017, PT011 - what answers there is no server of this kind
        await use(component)
    assert listener.connections > 0


WORDS = ("address", "endpoint", "host", "server", "uri", "url")


def _fields(kind: Any, seen: set[Any]) -> Iterator[str]:
    """The names of the fields of a config, and of what is in it."""
    if isinstance(kind, type) and issubclass(kind, BaseModel) and kind not in seen:
        seen.add(kind)
        for name, field in kind.model_fields.items():
            yield name
            yield from _fields(field.annotation, seen)
    elif dataclasses.is_dataclass(kind):
        yield from (field.name for field in dataclasses.fields(kind))
    for part in get_args(kind):
        yield from _fields(part, seen)


def test_every_field_that_names_a_server_is_tried() -> None:
    found: set[str] = set()
    for package, names in PROVIDERS.items():
        for name in names:
            schema = getattr(importlib.import_module(package), name).component_config_schema
            fields = set(
                _fields(schema, {Image})
            )  # the addresses of pictures are for models: nothing here fetches one
            found |= {f"{name}.{field}" for field in fields if any(word in field for word in WORDS)}
    # The same class by AutoGen's other name; fields that the client of Ollama refuses;
    # hosts of redirects, which allow_private opens with `hosts` only; what holds url
    known = {
        "AzureOpenAIChatCompletionClient.azure_endpoint",
        "AzureOpenAIChatCompletionClient.base_url",
        "HttpTool.allowed_hosts",
        "McpWorkbench.server_params",
        "OllamaChatCompletionClient.azure_endpoint",
        "OllamaChatCompletionClient.base_url",
    }
    assert found - known == set(FIELDS)


class TestTransport:
    """Here 127.0.0.1 is public, and 127.0.0.2 is not."""

    @pytest.fixture(autouse=True)
    def names(self, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
        known = {
            "outside.test": ["127.0.0.1"],
            "inside.test": ["127.0.0.2"],
            "mixed.test": ["127.0.0.1", "127.0.0.2"],
            "nowhere.test": [],
        }

        async def lookup(host: str, port: int) -> list[str]:
            if not known[host]:
                raise OSError("no such name")
            return known[host]

        monkeypatch.setattr(addresses, "lookup", lookup)
        monkeypatch.setattr(addresses, "is_public", lambda address: address != "127.0.0.2")
        return known

    async def test_the_server_is_asked_by_its_name(self, listener: Listener) -> None:
        async with httpx2.AsyncClient(transport=public_transport()) as client:
            answer = await client.post(f"http://outside.test:{listener.port}/a?b=c", content=b"xyz")
        assert answer.status_code == 404
        assert listener.requests[0].startswith("POST /a?b=c HTTP/1.1\r\n")
        assert f"host: outside.test:{listener.port}\r\n" in listener.requests[0].lower()

    @pytest.mark.parametrize("host", ["inside.test", "mixed.test"])
    async def test_one_private_address_is_enough(self, listener: Listener, host: str) -> None:
        async with httpx2.AsyncClient(transport=public_transport()) as client:
            with pytest.raises(
                ComponentNotAllowedError, match=rf"reaching {host}, whose address 127\.0\.0\.2"
            ):
                await client.get(f"http://{host}:{listener.port}/")
        assert listener.connections == 0

    async def test_a_redirect_leads_to_none(self, listener: Listener) -> None:
        to = f"http://inside.test:{listener.port}/".encode()
        listener.answer = b"HTTP/1.1 302 Found\r\nLocation: " + to + b"\r\nConnection: close\r\n\r\n"
        async with httpx2.AsyncClient(transport=public_transport(), follow_redirects=True) as client:
            with pytest.raises(ComponentNotAllowedError):
                await client.get(f"http://outside.test:{listener.port}/")
        assert listener.connections == 1

    async def test_another_address_is_tried(self, listener: Listener, names: dict[str, list[str]]) -> None:
        names["outside.test"] = ["127.0.0.9", "127.0.0.1"]
        async with httpx2.AsyncClient(transport=public_transport()) as client:
            assert (await client.get(f"http://outside.test:{listener.port}/")).status_code == 404

    async def test_a_name_that_nobody_knows(self) -> None:
        async with httpx2.AsyncClient(transport=public_transport()) as client:
            with pytest.raises(httpx2.ConnectError, match="its address is not known"):
                await client.get("http://nowhere.test/")
