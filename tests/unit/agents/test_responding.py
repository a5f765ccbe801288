"""What a stream ends with."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from callboard.agents import Response, TaskResult
from callboard.agents.base import response_of, result_of
from callboard.agents.errors import NoResponseError
from callboard.messages import TextMessage

SAID = TextMessage(content="so it is", source="a")
RESULT = TaskResult(messages=[SAID], stop_reason="done")


async def stream(*items: Any, ends: list[str] | None = None) -> AsyncGenerator[Any, None]:
    for item in items:
        yield item
    if ends is not None:
        ends.append("end")


async def test_the_result_of_a_stream_that_is_read_to_its_end() -> None:
    ends: list[str] = []
    assert await result_of(stream(SAID, RESULT, ends=ends), "team") is RESULT
    assert ends == ["end"]


async def test_a_team_that_ends_without_a_result() -> None:
    with pytest.raises(NoResponseError, match="'team' ended without a result"):
        await result_of(stream(SAID), "team")


async def test_the_response_of_a_stream() -> None:
    response = Response(chat_message=SAID)
    assert await response_of(stream(SAID, response), "a") is response
    with pytest.raises(NoResponseError):
        await response_of(stream(SAID), "a")
