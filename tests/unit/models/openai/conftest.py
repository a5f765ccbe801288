"""A server that is as good as new for each test, and clients of it."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeAlias

import pytest

from callboard.models.info import ModelInfo
from callboard.models.openai import OpenAIChatCompletionClient
from tests.helpers.openai_server import OpenAIServer

VARIABLES = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_VERSION", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID")
AZURE_VARIABLES = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "AZURE_OPENAI_ENDPOINT")
VENDORS_VARIABLES = ("GEMINI_API_KEY", "ANTHROPIC_API_KEY")

MakeClient: TypeAlias = Callable[..., OpenAIChatCompletionClient]


def growing_limits() -> Iterator[float]:
    """Seconds for one try after the other, until the server, a thread that may be late, has read a request in time."""
    return (0.1 * 2**number for number in itertools.count())


@pytest.fixture(autouse=True)
def no_keys_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests never talk to a server that the person who runs them has set up."""
    for name in (*VARIABLES, *AZURE_VARIABLES, *VENDORS_VARIABLES):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def running_server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def server(running_server: OpenAIServer) -> Iterator[OpenAIServer]:
    yield running_server
    running_server.reset()


@pytest.fixture
def info() -> ModelInfo:
    """A model that can do everything."""
    return ModelInfo(
        vision=True,
        function_calling=True,
        json_output=True,
        family="unknown",
        structured_output=True,
        multiple_system_messages=True,
    )


@pytest.fixture
async def make(server: OpenAIServer, info: ModelInfo) -> AsyncIterator[MakeClient]:
    """Makes clients of the server that try once; they are closed behind the test."""
    made: list[OpenAIChatCompletionClient] = []

    def make_client(**options: Any) -> OpenAIChatCompletionClient:
        given = {
            "model": "m",
            "base_url": server.url,
            "api_key": "sk-test",
            "model_info": info,
            "max_retries": 0,
        }
        client = OpenAIChatCompletionClient(**{**given, **options})
        made.append(client)
        return client

    yield make_client
    for client in made:
        await client.close()


@pytest.fixture
def client(make: MakeClient) -> OpenAIChatCompletionClient:
    return make()
