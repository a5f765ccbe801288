"""Which handler tools are called by."""

from __future__ import annotations

import asyncio

from callboard import CancellationToken, MessageContext
from callboard.tools import tool_context
from callboard.tools.call import ToolContext, current_tool_context


async def test_the_nearest_context_counts_and_goes_into_tasks() -> None:
    ctx = MessageContext(None, None, True, CancellationToken(), "m")

    async def seen() -> ToolContext:
        return current_tool_context()

    assert current_tool_context() == ToolContext()
    with tool_context(ctx):
        assert (await asyncio.create_task(seen())).message is ctx
        with tool_context():
            assert current_tool_context().message is None
        assert current_tool_context().message is ctx
    assert current_tool_context() == ToolContext()
