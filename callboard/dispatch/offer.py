"""What the model of an agent with a dispatcher is shown in one turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from callboard.agents.assistant.bench import Bench
from callboard.agents.assistant.calls import result_for_model
from callboard.agents.assistant.setup import Setup
from callboard.agents.handoff import Handoff
from callboard.cancellation import CancellationToken
from callboard.memory.contexts.base import ChatCompletionContext
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult
from callboard.messages.events import HandoffChangeEvent
from callboard.tools.approval import NeedsApproval
from callboard.tools.asked import read_call
from callboard.tools.errors import ToolArgumentsError
from callboard.tools.function import FunctionTool
from callboard.tools.results import ToolResult, error_result
from callboard.tools.schema import ToolSchema
from callboard.tools.static import StaticStreamWorkbench
from callboard.tools.workbench import StreamWorkbench, Workbench

from .base import AbstractDispatcher, AbstractDynamicDispatcher
from .errors import DuplicateHandoffError

Change: TypeAlias = Literal["created", "used", "expired", "hidden"]
CREATE: Final = "create_handoff"
DESCRIPTION: Final = (
    "Creates a tool that hands the conversation over to another agent. Use it when no handoff that you have says what "
    "that agent has to know. The new tool is there with your next step: then call it."
)


class Offer(StreamWorkbench):
    """The tools and handoffs that a model is shown in one turn: those of the time of each request.

    It belongs to the turn, so that nothing is left over when the turn fails, and turns of agents that share a dispatcher or
    a workbench don't meet. Handoffs that come while the turn lasts are in the next request of it.

    Args:
        agent: The agent's name.
        dispatcher: Has the handoffs.
        workbenches: Have the tools; shared ones stay as they are.
        context: What the model sees of the conversation.

    Attributes:
        handoffs: Those of the last request, by name.
        events: What happened to handoffs, and was not yet shown to readers.
    """

    def __init__(
        self,
        agent: str,
        dispatcher: AbstractDispatcher,
        workbenches: Sequence[Workbench],
        context: ChatCompletionContext,
    ) -> None:
        self._agent = agent
        self._dispatcher = dispatcher
        self._tools = Bench(workbenches)
        self._context = context
        self._taken: set[str] = set()  # names of tools
        self._hidden: set[str] = set()
        self._creating = _creating(agent, dispatcher, self._taken, self._note)
        self.handoffs: dict[str, Handoff] = {}
        self.events: list[HandoffChangeEvent] = []

    def begin(self) -> None:
        """The turn begins."""
        if isinstance(self._dispatcher, AbstractDynamicDispatcher):
            for handoff in self._dispatcher.begin_turn():
                self._note("expired", handoff)

    def applied_to(self, setup: Setup) -> Setup:
        """The settings of an assistant for this turn."""
        here = {} if self._creating is None else {CREATE: partial(_called, self._creating)}
        return replace(setup, workbenches=(self,), handoffs=self.handoffs, here={**setup.here, **here})

    def handed_over(self, results: Sequence[FunctionExecutionResult]) -> None:
        """Calls have results: handoffs among them that were not refused were used."""
        if not isinstance(self._dispatcher, AbstractDynamicDispatcher):
            return
        for result in results:
            if result.name in self.handoffs and not result.is_error:
                handoff = self.handoffs[result.name]
                if self._dispatcher.handed_over(result.name):
                    self._note("used", handoff)

    def _note(self, change: Change, handoff: Handoff) -> None:
        event = HandoffChangeEvent(
            source=self._agent, change=change, name=handoff.name, target=handoff.target
        )
        self.events.append(event)

    # As a workbench

    async def list_tools(self) -> list[ToolSchema]:
        """Tools, what creates handoffs, and handoffs. A handoff with the name of a tool is left out; readers are told."""
        schemas = await self._tools.list_tools()
        if self._creating is not None:
            schemas.append(self._creating.schema)
        self._taken.clear()
        self._taken.update(schema["name"] for schema in schemas)
        self.handoffs.clear()
        messages = await self._context.get_messages()
        for handoff in self._dispatcher.offered(self._agent, messages):
            if handoff.name not in self._taken:
                self.handoffs[handoff.name] = handoff
            elif handoff.name not in self._hidden:
                self._hidden.add(handoff.name)
                self._note("hidden", handoff)
        return [*schemas, *(handoff.handoff_tool.schema for handoff in self.handoffs.values())]

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> ToolResult:
        """Call a tool; see `Workbench.call_tool`."""
        return await self._place(name).call_tool(name, arguments, cancellation_token, call_id)

    async def call_tool_stream(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        cancellation_token: CancellationToken | None = None,
        call_id: str | None = None,
    ) -> AsyncGenerator[Any, None]:
        """Call a tool; what it yields on the way, and the ToolResult at the end."""
        stream = self._place(name).call_tool_stream(name, arguments, cancellation_token, call_id)
        async with aclosing(stream) as items:
            async for item in items:
                yield item

    def approval_of(self, name: str) -> NeedsApproval:
        """What the workbench that has the tool says; see `Workbench.approval_of`."""
        return self._place(name).approval_of(name)

    def _place(self, name: str) -> StreamWorkbench:
        handoff = self.handoffs.get(name)
        return self._tools if handoff is None else StaticStreamWorkbench([handoff.handoff_tool])


async def _called(tool: FunctionTool, call: FunctionCall) -> FunctionExecutionResult:
    try:
        asked = read_call(call)
    except ToolArgumentsError as error:
        return result_for_model(call, error_result(CREATE, error))
    result = await StaticStreamWorkbench([tool]).call_tool(CREATE, asked.arguments, None, call.id)
    return result_for_model(call, result)


def _creating(
    agent: str, dispatcher: AbstractDispatcher, taken: set[str], note: Callable[[Change, Handoff], None]
) -> FunctionTool | None:
    """The tool by which a model creates handoffs; None: this dispatcher makes none."""
    if not isinstance(dispatcher, AbstractDynamicDispatcher):
        return None

    async def create_handoff(name: str, target: str, description: str, message: str) -> str:
        """Creates a handoff.

        Args:
            name: Name of the new tool: letters a-z, digits and '_', such as ask_for_prices.
            target: Name of the agent who goes on.
            description: When to use the new tool, in at most 1,024 characters.
            message: What to tell that agent: all that it has to know and to do.
        """
        if name in taken:
            raise DuplicateHandoffError(name, "tool")
        handoff = dispatcher.create_handoff(name, target, description, message, caller=agent)
        note("created", handoff)
        return f"There is a tool {handoff.name} now, which hands over to {handoff.target}."

    return FunctionTool(create_handoff, name=CREATE, description=DESCRIPTION)
