"""The agent whose handoffs come and go, and which creates some itself."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from callboard.agents.assistant.agent import SYSTEM_MESSAGE, AssistantAgent
from callboard.agents.assistant.config import AssistantAgentConfig
from callboard.agents.assistant.state import AssistantAgentState
from callboard.agents.chat_agent import Response
from callboard.agents.task import Said
from callboard.cancellation import CancellationToken
from callboard.foundation.component import NotDumpableError
from callboard.messages.base import BaseChatMessage
from callboard.messages.events import ModelClientStreamingChunkEvent, ToolCallExecutionEvent
from callboard.models.base import ChatCompletionClient
from callboard.tools.dynamic import DynamicWorkbench
from callboard.tools.static import StaticWorkbench
from callboard.tools.workbench import Workbench

from .base import AbstractDispatcher, AbstractDynamicDispatcher
from .dynamic import DynamicDispatcher
from .errors import DuplicateHandoffError
from .offer import CREATE, Offer

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
        dispatcher: Has its handoffs. None: a dynamic one that authorizes nobody.
        description: What it can do, for those who choose who speaks.
        system_message: What every prompt begins with; None: nothing.
        max_tool_iterations: How often the model may ask for tools in one turn; creating a handoff is one time.
        **options: See AssistantAgent; `handoffs` is not among them.

    Raises:
        AssistantSettingError: As AssistantAgent (a ValueError).
        DuplicateHandoffError: A handoff has the name of a tool (a ValueError).
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

    def on_joined(self, members: Sequence[str]) -> None:
        """Learn to whom it can hand over.

        Raises:
            TargetRefusedError: A handoff goes to somebody else (a ValueError).
        """
        self._dispatcher.join(members)

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """Answer to what is new; yields what happens, changes of handoffs among it, and at last the Response."""
        offer = Offer(self.name, self._dispatcher, self._setup.workbenches, self._model_context)
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
                raise DuplicateHandoffError(handoff.name, "tool")
