"""The calls of one answer of a model, run with all tools of an assistant as one workbench."""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from callboard.core.cancellation import CancellationToken
from callboard.core.people import OnInput, asking_by
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult
from callboard.messages.chat import BaseAgentEvent, BaseChatMessage
from callboard.tools.approval import NeedsApproval
from callboard.tools.call import CheckedArguments, IfUnknown, written_arguments
from callboard.tools.errors import ToolConnectionError, ToolError, UnknownToolError, duplicate_tool
from callboard.tools.runner import ToolEvent, run_tools
from callboard.tools.schema import ToolSchema
from callboard.tools.workbench import StreamWorkbench, ToolResult, Workbench, error_result

from .base import Said
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
            self._draft.know(event.call, event.result.for_model(event.call))
        elif isinstance(event.item, BaseAgentEvent | BaseChatMessage):
            self._said.put_nowait(event.item)
        elif event.kind == "yielded":
            warnings.warn(
                f"the tool {event.call.name} yielded a {type(event.item).__name__}, which is no message and no event: "
                "nobody can see it",
                stacklevel=2,
            )


async def as_run(bench: Workbench, call: FunctionCall) -> FunctionCall:
    """A call with the arguments with which it would run; as it is where it would fail."""
    checked = await _checked(bench, call)
    return call if checked is None else _with(call, checked.shown)


async def as_sent(bench: Workbench, call: FunctionCall) -> FunctionCall:
    """A call whose arguments are those that its schema makes of them, where a tool elsewhere might read them otherwise."""
    checked = await _checked(bench, call)
    if checked is None or checked.checked is not None:
        return call
    is_same = all(key in checked and checked[key] == value for key, value in checked.written.items())
    return call if is_same else _with(call, checked)


async def _checked(bench: Workbench, call: FunctionCall) -> CheckedArguments | None:
    try:
        return await bench.check_arguments(call.name, written_arguments(call))
    except ToolConnectionError:
        raise  # it may be back when the call is made
    except ToolError:
        return None


def _with(call: FunctionCall, arguments: Mapping[str, Any]) -> FunctionCall:
    return replace(call, arguments=json.dumps(dict(arguments), ensure_ascii=False))


class Bench(StreamWorkbench):
    """Several workbenches as one, for one turn.

    A call goes to the workbench that listed the tool last: asking all of them before each call, as AutoGen does, is a
    request to every MCP server.

    Args:
        workbenches: Their tools are listed in this order.
    """

    def __init__(self, workbenches: Sequence[Workbench]) -> None:
        self._workbenches = workbenches
        self._places: dict[str, Workbench] = {}

    async def list_tools(self) -> list[ToolSchema]:
        """The tools of all of them.

        Raises:
            ToolDeclarationError: Two have one name (a ValueError). AutoGen shows both to the model and calls the first.
        """
        places: dict[str, Workbench] = {}
        schemas: list[ToolSchema] = []
        for workbench in self._workbenches:
            for schema in await workbench.list_tools():
                if schema["name"] in places:
                    raise duplicate_tool(schema["name"])
                places[schema["name"]] = workbench
                schemas.append(schema)
        self._places = places
        return schemas

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool; see `Workbench.call_tool`."""
        place = self._places.get(name)
        if place is None:
            return self._unknown(name)
        return await place.call_tool(name, arguments, cancellation_token, call_id)

    def approval_of(self, name: str) -> NeedsApproval:
        """The rule of the workbench that has the tool; see `Workbench.approval_of`."""
        place = self._places.get(name)
        return False if place is None else place.approval_of(name)

    async def check_arguments(self, name: str, arguments: Mapping[str, Any]) -> CheckedArguments:
        """The arguments as the workbench that has the tool takes them; see `Workbench.check_arguments`."""
        place = self._places.get(name)
        if place is None:
            raise UnknownToolError(name, list(self._places))
        return await place.check_arguments(name, arguments)

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Call a tool; what it yields on the way, and the ToolResult at the end."""
        place = self._places.get(name)
        if place is None:
            yield self._unknown(name)
            return
        async with aclosing(place.call_tool_stream(name, arguments, cancellation_token, call_id)) as items:
            async for item in items:
                yield item

    def _unknown(self, name: str) -> ToolResult:
        return error_result(name, UnknownToolError(name, list(self._places)))
