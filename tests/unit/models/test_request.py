from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import CancellationToken
from callboard.models import Image, ReplayChatCompletionClient, UserMessage
from callboard.models.base import ModelRequest, WrappedChatCompletionClient

from .asking import HELLO


class Answer(BaseModel):
    text: str


@dataclass
class Tool:
    name: str

    @property
    def schema(self) -> Mapping[str, Any]:
        return {"name": self.name}


class Through(WrappedChatCompletionClient):
    """Changes nothing."""

    async def _create(self, request: ModelRequest) -> Any:
        return await request.create(self.client)

    def _create_stream(self, request: ModelRequest) -> Any:
        return request.create_stream(self.client)


CLIENT = ReplayChatCompletionClient(["a"])
DIFFERENT = [
    ModelRequest(HELLO),
    ModelRequest(HELLO[:1]),
    ModelRequest([*HELLO, UserMessage(content="hello", source="other")]),
    ModelRequest([UserMessage(content=[Image.from_url("https://example.org/a")], source="user")]),
    ModelRequest(HELLO, tools=[Tool("f")]),
    ModelRequest(HELLO, tools=[Tool("g")]),
    ModelRequest(HELLO, tools=[Tool("f")], tool_choice="required"),
    ModelRequest(HELLO, tools=[Tool("f")], tool_choice=Tool("f")),
    ModelRequest(HELLO, json_output=True),
    ModelRequest(HELLO, json_output=Answer),
    ModelRequest(HELLO, extra_create_args={"temperature": 0.5}),
    ModelRequest(HELLO, extra_create_args={"odd": object}),
    ModelRequest([UserMessage(content="\ud800", source="user")]),
]


def test_different_requests_have_different_digests() -> None:
    assert len({request.digest(CLIENT) for request in DIFFERENT}) == len(DIFFERENT)


def test_the_model_is_part_of_it() -> None:
    other = ReplayChatCompletionClient(["a"], model="other")
    assert ModelRequest(HELLO).digest(other) != ModelRequest(HELLO).digest(CLIENT)


def test_equal_requests_have_equal_digests() -> None:
    first = ModelRequest(HELLO, tools=[Tool("f")], extra_create_args={"a": 1, "b": 2})
    second = ModelRequest(
        tuple(HELLO),
        tools=[{"name": "f"}],
        extra_create_args={"b": 2, "a": 1},
        cancellation_token=CancellationToken(),
    )
    assert first.digest(CLIENT) == second.digest(CLIENT)


def test_a_digest_is_the_same_in_every_process() -> None:
    code = (
        "from callboard.models import *; from callboard.models.base import ModelRequest; "
        "messages = [SystemMessage(content='be kind'), UserMessage(content='hello', source='user')]; "
        "print(ModelRequest(messages).digest(ReplayChatCompletionClient(['a'])))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ModelRequest(HELLO).digest(CLIENT)


async def test_a_wrapper_that_changes_nothing_is_the_client() -> None:
    inner = ReplayChatCompletionClient(["a b", "c d"])
    token = CancellationToken()
    async with Through(inner) as client:
        assert (
            await client.create(
                HELLO, tools=[Tool("f")], tool_choice="none", json_output=True, cancellation_token=token
            )
        ).content == "a b"
        assert [item async for item in client.create_stream(HELLO)][:-1] == ["c ", "d"]
    assert inner.create_calls[0] == {
        "messages": HELLO,
        "tools": [Tool("f")],
        "tool_choice": "none",
        "json_output": True,
        "extra_create_args": {},
        "cancellation_token": token,
    }
    for name in ("actual_usage", "total_usage", "fingerprint"):
        assert getattr(client, name)() == getattr(inner, name)()
    for name in ("model", "model_info", "max_completion_tokens"):
        assert getattr(client, name) == getattr(inner, name)
    assert client.count_tokens(HELLO) == inner.count_tokens(HELLO) == 3
    assert client.remaining_tokens(HELLO) == inner.remaining_tokens(HELLO)


def test_a_request_is_a_value() -> None:
    assert ModelRequest(HELLO) == ModelRequest(HELLO, cancellation_token=CancellationToken())
    with pytest.raises(AttributeError):
        ModelRequest(HELLO).json_output = True  # type: ignore[misc]
