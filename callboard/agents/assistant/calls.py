"""Runs the calls of one answer, and lets what tools say through as they say it."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence

from callboard.agents.task import Said
from callboard.asking import OnInput, asking_by
from callboard.cancellation import CancellationToken
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult
from callboard.messages.base import BaseAgentEvent, BaseChatMessage
from callboard.tools.approval import NeedsApproval
from callboard.tools.results import ToolResult
from callboard.tools.running import ToolEvent, run_tools
from callboard.tools.unknown import IfUnknown

from .bench import Bench
from .draft import Draft


class Calls:
    """The calls of one answer while they run, at the same time; each is recorded by itself.

    Args:
        calls: The calls.
        bench: Has the tools.
        draft: Told of each result as it comes.
        token: Ends them.
        if_unknown: See `run_tools`.
        needs_approval: See `run_tools`.
        on_input: Asks a person; None: as around it.

    Attributes:
        results: What they returned, in their order, when they have ended.
    """

    def __init__(
        self,
        calls: Sequence[FunctionCall],
        bench: Bench,
        draft: Draft,
        token: CancellationToken,
        if_unknown: Mapping[str, IfUnknown],
        needs_approval: Mapping[str, NeedsApproval],
        on_input: OnInput | None,
    ) -> None:
        self._calls = calls
        self._bench = bench
        self._draft = draft
        self._token = token
        self._if_unknown = if_unknown
        self._needs_approval = needs_approval
        self._on_input = on_input
        self._said: asyncio.Queue[Said | None] = asyncio.Queue()
        self.results: list[FunctionExecutionResult] = []

    async def run(self) -> AsyncGenerator[Said, None]:
        """Run them; yields the messages and events that tools yield."""
        if not self._calls:
            return
        running = asyncio.ensure_future(self._all())
        running.add_done_callback(lambda _: self._said.put_nowait(None))
        try:
            while (said := await self._said.get()) is not None:
                yield said
            self.results = await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _all(self) -> list[FunctionExecutionResult]:
        with asking_by(self._on_input):
            return await run_tools(
                self._calls,
                self._bench,
                cancellation_token=self._token,
                if_unknown=self._if_unknown,
                needs_approval=self._needs_approval,
                on_event=self._on_event,
            )

    async def _on_event(self, event: ToolEvent) -> None:
        if event.result is not None:
            self._draft.know(event.call, result_for_model(event.call, event.result))
        elif isinstance(event.item, BaseAgentEvent | BaseChatMessage):
            self._said.put_nowait(event.item)
        elif event.kind == "yielded":
            warnings.warn(
                f"the tool {event.call.name} yielded a {type(event.item).__name__}, which is no message and no event: "
                "nobody can see it",
                stacklevel=2,
            )


def result_for_model(call: FunctionCall, result: ToolResult) -> FunctionExecutionResult:
    """The result of a call as a model sees it."""
    return FunctionExecutionResult(
        content=result.to_text(), name=call.name, call_id=call.id, is_error=result.is_error
    )
