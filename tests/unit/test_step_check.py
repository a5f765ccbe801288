"""What can be no step of ctx.once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from callboard.errors import DeclarationError

from .recording import context


async def pay(cents: int) -> int:
    return cents


async def run(name: str, call: Callable[[], Awaitable[Any]]) -> Any:
    return await call()


@pytest.mark.parametrize("recorder", [None, run])
async def test_what_is_given_wrong_is_said_with_what_to_write(recorder: Any) -> None:
    ctx = context()
    ctx.recorder = recorder
    once: Any = ctx.once
    with pytest.raises(DeclarationError, match="its name, a text, comes first"):
        await once(pay, 250)
    with pytest.raises(DeclarationError, match=r"apart, .*: await ctx\.once\('charge', pay, \.\.\.\)"):
        await once("charge", pay(250))
    with pytest.raises(DeclarationError, match="a int is no function"):
        await once("charge", 250)


async def test_a_function_that_is_not_async_may_run_in_a_thread() -> None:
    once: Any = context().once
    with pytest.raises(
        DeclarationError, match=r"has to be async; .* await ctx\.once\('charge', asyncio\.to_thread"
    ):
        await once("charge", abs, 250)
    assert await once("charge", asyncio.to_thread, abs, -250) == 250
