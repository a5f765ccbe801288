"""How often a server of a model is asked for one message, in all its attempts on the bus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from starlette.responses import Response

from callboard import ClosureContext, MessageContext, TopicId
from callboard.broker import RetryPolicy
from callboard.models import ModelRetries, ModelSettings, UserMessage
from callboard.models.info import ModelInfo
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.models.recorded import recorded
from tests.helpers.openai_server import Answer, Asked, Behaviour, BrokenOff, OpenAIServer, Refused
from tests.helpers.runtimes import Note, Runtimes, closure, letters

INFO = ModelInfo(
    vision=False, function_calling=True, json_output=True, family="unknown", structured_output=True
)
MOST = 8  # attempts at the message, then its handler gives it up
LATE = Refused(504, "upstream timed out", type="timeout")
BUSY = Refused(503, "busy", type="server_error")


class GivenUpError(Exception):
    """The test has seen enough."""

    permanent = True


class Turns(NamedTuple):
    """One behaviour after the other, and from the start again."""

    behaviours: tuple[Behaviour, ...]

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        return await self.behaviours[(len(server.requests) - 1) % len(self.behaviours)](asked, server)


@pytest.fixture(scope="module")
def running_server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as running:
        yield running


@pytest.fixture
def server(running_server: OpenAIServer) -> Iterator[OpenAIServer]:
    yield running_server
    running_server.reset()


@pytest.mark.parametrize(
    ("behaviours", "max_retries", "requests", "reason"),
    [
        pytest.param([LATE], 0, 3, "failed", id="timeouts, one attempt of the client"),
        pytest.param([LATE], 2, 6, "failed", id="timeouts"),
        pytest.param([BUSY, LATE], 2, 6, "failed", id="503, then a timeout"),
        pytest.param([LATE, BUSY], 2, 6, "failed", id="a timeout, then 503"),
        pytest.param([BrokenOff(Answer("Hello there"))], 2, 3, "failed", id="streams that break off"),
        pytest.param([Refused(500, type="server_error")], 2, 2 * MOST, "permanent", id="constant 500"),
    ],
)
async def test_what_a_server_may_have_worked_on_is_not_asked_for_again_for_minutes(
    runtimes: Runtimes,
    server: OpenAIServer,
    behaviours: list[Behaviour],
    max_retries: int,
    requests: int,
    reason: str,
) -> None:
    server.default = Turns(tuple(behaviours))
    retries = ModelRetries(ModelSettings(retry_base=0.0))
    client = OpenAIChatCompletionClient(
        "m", base_url=server.url, model_info=INFO, retries=retries, max_retries=max_retries
    )
    attempts = 0

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        nonlocal attempts
        attempts += 1
        if attempts > MOST:
            raise GivenUpError
        # The prompt is another one each time, as one with the time of day in it.
        prompt = [UserMessage(content=f"Hi for the {attempts}th time", source="ada")]
        if isinstance(behaviours[0], BrokenOff):
            async for _ in recorded(client).create_stream(prompt):
                pass
        else:
            await recorded(client).create(prompt)

    runtime = await runtimes.started(retry=RetryPolicy(3, base=0.0, cap=0.01))
    await closure(runtime, "worker", work, "work")
    await runtime.publish_message(Note(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    await client.close()
    assert len(server.requests) == requests
    (letter,) = await letters(runtime, "worker")
    assert letter["reason"] == reason
    if reason == "failed":
        assert letter["error"].startswith("ModelUnansweredError: m: ")
