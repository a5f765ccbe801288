"""A run in one process that waits while nobody holds its response: it is there when it is asked for again."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from callboard.runs import a_run, ask_user
from callboard.runs.events import is_async_input_request
from callboard.runs.local import run_here
from callboard.runs.response import AsyncRunResponse
from tests.helpers.eventually import eventually
from tests.helpers.run_agents import call, chatterer, speaker


async def ask() -> str:
    """Asks."""
    return str(await ask_user("Go on?"))


async def begin(run_id: str, waits_for: str) -> AsyncRunResponse:
    options: dict[str, Any] = {"message": "Hi", "run_id": run_id, "max_turns": 1}
    if waits_for == "an answer":
        return await a_run(speaker("a", call("ask"), "Thanks."), tools=[ask], **options)
    return await a_run(chatterer("a"), step=waits_for == "a step", **options)


async def waiting(run_id: str, waits_for: str) -> list[str]:
    response = await begin(run_id, waits_for)
    if waits_for == "resume":
        await response.pause()
        return [await response.state]
    if waits_for == "an answer":
        async for event in response.events:
            if is_async_input_request(event):
                break
    await asyncio.sleep(0)
    return [await response.state]


@pytest.mark.parametrize("waits_for", ["an answer", "a step", "resume"])
async def test_a_run_that_waits_goes_on_when_its_response_was_dropped(
    waits_for: str, capfd: pytest.CaptureFixture[str]
) -> None:
    [state] = await waiting(f"kept {waits_for}", waits_for)
    for _ in range(3):
        await asyncio.sleep(0)
        gc.collect()
    assert run_here(f"kept {waits_for}") is not None
    response = await begin(f"kept {waits_for}", waits_for)
    assert await response.state == state
    if waits_for == "an answer":
        async for event in response.events:
            if is_async_input_request(event):
                await event.a_respond("yes")
    elif waits_for == "resume":
        await response.resume()
    assert (await response.result()).messages
    assert "destroyed" not in capfd.readouterr().err


async def test_a_run_that_has_ended_is_not_kept() -> None:
    assert await (await begin("over", "nothing")).summary == "a speaks"

    def is_gone() -> bool:
        gc.collect()
        return run_here("over") is None

    await eventually(is_gone)
