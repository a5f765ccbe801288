"""The agent whose handoffs come and go, and what its model is offered in one turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from callboard.agents.assistant import (
    SYSTEM_MESSAGE,
    AssistantAgent,
    AssistantAgentConfig,
    AssistantAgentState,
)
from callboard.agents.base import Response, Said
from callboard.agents.handoff import Handoff
from callboard.agents.tool_calls import Bench
from callboard.agents.turn import Setup
from callboard.core.cancellation import CancellationToken
from callboard.foundation.component import NotDumpableError
from callboard.memory.contexts import ChatCompletionContext
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult
from callboard.messages.chat import BaseChatMessage
from callboard.messages.events import (
    HandoffChangeEvent,
    ModelClientStreamingChunkEvent,
    ToolCallExecutionEvent,
)
from callboard.models.base import ChatCompletionClient
from callboard.tools.approval import NeedsApproval
from callboard.tools.call import CheckedArguments, read_call
from callboard.tools.dynamic import DynamicWorkbench
from callboard.tools.errors import ToolArgumentsError
from callboard.tools.function import FunctionTool
from callboard.tools.schema import ToolSchema
from callboard.tools.static import StaticStreamWorkbench, StaticWorkbench
from callboard.tools.workbench import StreamWorkbench, ToolResult, Workbench, error_result

from .dispatcher import AbstractDispatcher, AbstractDynamicDispatcher, name_taken
from .dynamic import DynamicDispatcher

Change: TypeAlias = Literal["created", "used", "expired", "hidden"]
CREATE: Final = "create_handoff"
CREATE_DESCRIPTION: Final = (
    "Creates a tool that hands the conversation over to another agent. Use it when no handoff that you have says what "
    "that agent has to know. The new tool is there with your next step: then call it."
)


class HandoffOffer(StreamWorkbench):
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
        """The rule of the workbench that has the tool; see `Workbench.approval_of`."""
        return self._place(name).approval_of(name)

    async def check_arguments(self, name: str, arguments: Mapping[str, Any]) -> CheckedArguments:
        """The arguments as the workbench that has the tool takes them; see `Workbench.check_arguments`."""
        return await self._place(name).check_arguments(name, arguments)

    def _place(self, name: str) -> StreamWorkbench:
        handoff = self.handoffs.get(name)
        return self._tools if handoff is None else StaticStreamWorkbench([handoff.handoff_tool])


async def _called(tool: FunctionTool, call: FunctionCall) -> FunctionExecutionResult:
    try:
        asked = read_call(call)
    except ToolArgumentsError as error:
        return error_result(CREATE, error).for_model(call)
    result = await StaticStreamWorkbench([tool]).call_tool(CREATE, asked.arguments, None, call.id)
    return result.for_model(call)


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
            raise name_taken(name, "tool")
        handoff = dispatcher.create_handoff(name, target, description, message, caller=agent)
        note("created", handoff)
        return f"There is a tool {handoff.name} now, which hands over to {handoff.target}."

    return FunctionTool(create_handoff, name=CREATE, description=CREATE_DESCRIPTION)


DESCRIPTION: Final = "An agent that provides assistance with ability to use tools and dynamic handoffs."
MAX_TOOL_ITERATIONS: Final = 10


class DynamicDispatcherAgent(AssistantAgent):
    """An assistant that hands over as its dispatcher says, and whose model creates handoffs with messages of its own.

    It is an AssistantAgent: one turn loop, one way to remember. Before each request its model is shown the handoffs that
    the dispatcher offers it then. With a dynamic dispatcher the model also has the tool `create_handoff`; a handoff that it
    creates can be used in the same turn, with the next step. What is refused, the model is told as the result of its call.

    What is different in the proposal of AutoGen #4739: its handoffs are copied when a turn begins and stay when it fails;
    new ones can't be used before the next turn; the tool is added to a workbench that others may share; and a handoff
    with the name of a tool ends every turn with an error. Here it is refused when it is created, and left out when the tool
    comes later.

    It can't be dumped as a component; its state can be saved.

    In a team the targets have to be members, see `outside` of DynamicDispatcher. Handoffs that came at run time are part of
    its state, on the bus of the commit of each turn.

    Args:
        name: A Python identifier.
        model_client: Its model, which must be able to call tools.
        workbench: One or several workbenches with its tools; they stay as they are.
        dispatcher: Has its handoffs. None: a dynamic one that authorizes none.
        description: What it can do, for those who choose who speaks.
        system_message: What every prompt begins with; None: nothing.
        max_tool_iterations: How often the model may ask for tools in one turn; creating a handoff is one time.
        **options: See AssistantAgent; `handoffs` is not among them.

    Raises:
        AgentSettingError: As AssistantAgent (a ValueError).
        HandoffDeclarationError: A handoff has the name of a tool (a ValueError).
    """

    def __init__(
        self,
        name: str,
        model_client: ChatCompletionClient,
        workbench: Workbench | Sequence[Workbench] | None = None,
        dispatcher: AbstractDispatcher | None = None,
        description: str = DESCRIPTION,
        system_message: str | None = SYSTEM_MESSAGE,
        *,
        max_tool_iterations: int = MAX_TOOL_ITERATIONS,
        **options: Any,
    ) -> None:
        super().__init__(
            name,
            model_client,
            workbench=workbench,
            handoffs=[],  # its model has to be able to hand over
            description=description,
            system_message=system_message,
            max_tool_iterations=max_tool_iterations,
            **options,
        )
        self._dispatcher = DynamicDispatcher() if dispatcher is None else dispatcher
        self._check_names()

    @property
    def dispatcher(self) -> AbstractDispatcher:
        """Its dispatcher."""
        return self._dispatcher

    @property
    def hands_over(self) -> bool:
        """It may get handoffs at any time."""
        return True

    def on_joined(self, members: Sequence[str]) -> None:
        """Learn to whom it can hand over.

        Raises:
            TargetRefusedError: A handoff goes to another agent (a ValueError).
        """
        self._dispatcher.join(members)

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """Answer to what is new; yields what happens, changes of handoffs among it, and at last the Response."""
        offer = HandoffOffer(self.name, self._dispatcher, self._setup.workbenches, self._model_context)
        offer.begin()
        inner: list[Said] = []
        turn = self._take_turn(offer.applied_to(self._setup), messages, cancellation_token)
        async with aclosing(turn) as items:
            async for item in items:
                if isinstance(item, ToolCallExecutionEvent):
                    offer.handed_over(item.content)
                happened = [] if isinstance(item, Response) else [item]
                for said in (*happened, *offer.events):
                    yield said
                    if not isinstance(said, ModelClientStreamingChunkEvent):
                        inner.append(said)
                offer.events.clear()
                if isinstance(item, Response):
                    yield replace(item, inner_messages=inner)

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Forget the conversation, and the handoffs that were created in it."""
        await super().on_reset(cancellation_token)
        if isinstance(self._dispatcher, AbstractDynamicDispatcher):
            self._dispatcher.reset()

    def _to_config(self) -> AssistantAgentConfig:
        raise NotDumpableError(
            type(self).__name__, "a dispatcher is not written down: make the agent in your program"
        )

    # Its state

    async def save_state(self) -> Mapping[str, Any]:
        """Its conversation in AutoGen's shape, and beside it the state of its dispatcher."""
        return {**await super().save_state(), **await self._saved_handoffs()}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned, or the state of an AssistantAgent.

        Raises:
            ValueError: It is no such state.
        """
        AssistantAgentState.model_validate(state)
        await self._load_handoffs(state)
        await super().load_state(state)

    async def save_beside_context(self) -> Mapping[str, Any] | None:
        """The state of its dispatcher, and its conversation unless that is kept in a list."""
        return {**(await super().save_beside_context() or {}), **await self._saved_handoffs()} or None

    async def load_beside_context(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_beside_context` returned."""
        await self._load_handoffs(state)
        if "llm_context" in state:
            await super().load_state(state)

    async def _saved_handoffs(self) -> dict[str, Any]:
        if not isinstance(self._dispatcher, AbstractDynamicDispatcher):
            return {}
        return {"dispatcher": dict(await self._dispatcher.save_state())}

    async def _load_handoffs(self, state: Mapping[str, Any]) -> None:
        if isinstance(self._dispatcher, AbstractDynamicDispatcher) and "dispatcher" in state:
            await self._dispatcher.load_state(state["dispatcher"])

    def _check_names(self) -> None:
        """Refuse handoffs with the names of tools, as far as these are known now."""
        taken = {CREATE} if isinstance(self._dispatcher, AbstractDynamicDispatcher) else set()
        for bench in self._setup.workbenches:
            if isinstance(bench, StaticWorkbench):
                taken |= set(bench.names)
            elif isinstance(bench, DynamicWorkbench):
                taken |= {tool.name for tool in bench.tools}
        for handoff in self._dispatcher.handoffs:
            if handoff.name in taken:
                raise name_taken(handoff.name, "tool")
