"""Arguments that a server refuses: asked once more without them, and remembered."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from callboard.models import UserMessage
from callboard.models.errors import BadRequestError, UnsupportedParameterError
from tests.helpers.openai_server import Answer, OpenAIServer, Refused

from .conftest import MakeClient

HELLO = [UserMessage(content="Hello", source="ada")]
NUMBERS = itertools.count()
ONLY_ONE = "Unsupported value: 'temperature' does not support {} with this model. Only the default (1) value is supported."


def no_value(value: float) -> Refused:
    return Refused(400, ONLY_ONE.format(value), "unsupported_value", param="temperature")


def no_parameter(name: str, more: str = "") -> Refused:
    text = f"Unsupported parameter: '{name}' is not supported with this model.{more}"
    return Refused(400, text, "unsupported_parameter", param=name)


@pytest.fixture
def model() -> str:
    """A name that no test has used: what a server refuses is remembered for the process."""
    return f"new-model-{next(NUMBERS)}"


def sent(server: OpenAIServer, *names: str) -> list[dict[str, Any]]:
    """These arguments of each request."""
    return [{name: one.body[name] for name in names if name in one.body} for one in server.requests]


async def test_a_value_that_is_refused_is_left_out_and_remembered(
    server: OpenAIServer, make: MakeClient, model: str, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(no_value(0.2), Answer("Hi"), Answer("Hi"), Answer("Hi"))
    client = make(model=model, temperature=0.2)
    with caplog.at_level(logging.WARNING, "callboard.models"):
        assert (await client.create(HELLO)).content == "Hi"
        await client.create(HELLO)
        await make(model=model, temperature=0.2).create(HELLO)
    assert sent(server, "temperature") == [{"temperature": 0.2}, {}, {}, {}]
    (told,) = caplog.messages
    assert told.startswith(
        f"{model} at {server.url} refuses temperature=0.2, which is left out from now on: Unsup"
    )


async def test_another_value_and_another_model_are_asked_for(
    server: OpenAIServer, make: MakeClient, model: str
) -> None:
    server.script(no_value(0.2), *[Answer("Hi")] * 3)
    await make(model=model, temperature=0.2).create(HELLO)
    await make(model=model, temperature=1).create(HELLO)
    await make(model=f"{model}-b", temperature=0.2).create(HELLO)
    assert sent(server, "temperature")[1:] == [{}, {"temperature": 1}, {"temperature": 0.2}]


async def test_several_arguments_are_refused_one_after_the_other(
    server: OpenAIServer, make: MakeClient, model: str
) -> None:
    use = " Use 'max_completion_tokens' instead."
    server.script(
        no_parameter("max_tokens", use), no_parameter("top_p"), no_parameter("logprobs"), Answer("Hi")
    )
    arguments: Mapping[str, Any] = {"max_tokens": 9, "top_p": 0.5, "logprobs": True}
    await make(model=model, **arguments).create(HELLO)
    names = ("max_tokens", "max_completion_tokens", "top_p", "logprobs")
    assert sent(server, *names)[-1] == {"max_completion_tokens": 9}
    assert len(server.requests) == 4


async def test_a_stream_is_asked_for_without_it(server: OpenAIServer, make: MakeClient, model: str) -> None:
    server.script(no_parameter("top_p"), Answer("Hello"))
    items = [item async for item in make(model=model, top_p=0.5).create_stream(HELLO)]
    assert "".join(item for item in items if isinstance(item, str)) == "Hello"
    assert sent(server, "top_p") == [{"top_p": 0.5}, {}]


async def test_words_without_a_code_are_understood(
    server: OpenAIServer, make: MakeClient, model: str
) -> None:
    words = "Unsupported parameter: 'top_p' is not supported with this model."
    server.script(Refused(400, words, "invalid_request_body"), Answer("Hi"))
    await make(model=model, top_p=0.5).create(HELLO)
    assert sent(server, "top_p") == [{"top_p": 0.5}, {}]


@pytest.mark.parametrize("name", ["stop", "messages[0].role", "", "temperature"])
async def test_what_cannot_be_left_out_is_an_error_after_one_request(
    server: OpenAIServer, make: MakeClient, model: str, name: str
) -> None:
    """Also one that was not sent."""
    server.default = no_parameter(name)
    with pytest.raises(UnsupportedParameterError) as failed:
        await make(model=model, stop=["end"]).create(HELLO)
    assert isinstance(failed.value, BadRequestError)
    assert failed.value.parameter == name
    assert len(server.requests) == 1


async def test_a_server_that_refuses_for_ever_is_asked_as_often_as_there_are_arguments(
    server: OpenAIServer, make: MakeClient, model: str
) -> None:
    server.default = no_parameter("temperature")
    with pytest.raises(UnsupportedParameterError):
        await make(model=model, temperature=0.2, top_p=0.1).create(HELLO)
    assert len(server.requests) == 2
