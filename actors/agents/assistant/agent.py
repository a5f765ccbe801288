"""The agent that answers with a model and tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

from pydantic import BaseModel

from callboard.agents.base import BaseChatAgent
from callboard.agents.chat_agent import Response
from callboard.agents.errors import AssistantSettingError, NoResponseError
from callboard.agents.handoff import Handoff
from callboard.agents.task import Said
from callboard.cancellation import CancellationToken
from callboard.memory.base import Memory
from callboard.memory.contexts.base import ChatCompletionContext
from callboard.memory.contexts.conversation import Conversation
from callboard.memory.contexts.windows import UnboundedChatCompletionContext
from callboard.memory.llm_messages import SystemMessage
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import HandoffMessage, TextMessage, ToolCallSummaryMessage
from callboard.messages.structured import StructuredMessage
from callboard.models.base import ChatCompletionClient
from callboard.tools.base import Tool
from callboard.tools.workbench import Workbench

from . import parts
from .draft import Draft
from .setup import Setup
from .state import AssistantAgentState
from .summary import ToolCallSummaryFormatter, by_format
from .turn import Turn

DESCRIPTION: Final = "An agent that provides assistance with ability to use tools."
SYSTEM_MESSAGE: Final = (
    "You are a helpful AI assistant. Solve tasks using your tools. "
    "Reply with TERMINATE when the task has been completed."
)


class AssistantAgent(BaseChatAgent):
    """TODO"""

    def __init__(
        self,
        name: str,
        model_client: ChatCompletionClient,
        *,
        tools: Sequence[Tool | Callable[..., Any]] | None = None,
        workbench: Workbench | Sequence[Workbench] | None = None,
        handoffs: Sequence[Handoff | str] | None = None,
        model_context: ChatCompletionContext | None = None,
        description: str = DESCRIPTION,
        system_message: str | None = SYSTEM_MESSAGE,
        model_client_stream: bool = False,
        reflect_on_tool_use: bool | None = None,
        max_tool_iterations: int = 1,
        tool_call_summary_format: str = "{result}",
        tool_call_summary_formatter: ToolCallSummaryFormatter | None = None,
        output_content_type: type[BaseModel] | None = None,
        output_content_type_format: str | None = None,
        memory: Sequence[Memory] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(name, description)
        if max_tool_iterations < 1:
            raise AssistantSettingError(
                f"Maximum number of tool iterations must be greater than or equal to 1, got {max_tool_iterations}"
            )
        own_tools = parts.tools_of(tools, model_client)
        own_handoffs = parts.handoffs_of(handoffs, own_tools, model_client)
        self._setup = Setup(
            name=name,
            client=parts.recorded(model_client),
            is_streamed=model_client_stream,
            system=() if system_message is None else (SystemMessage(content=system_message),),
            workbenches=parts.workbenches_of(workbench, own_tools, own_handoffs),
            handoffs=own_handoffs,
            memory=parts.memories_of(memory),
            reflects=output_content_type is not None if reflect_on_tool_use is None else reflect_on_tool_use,
            max_tool_iterations=max_tool_iterations,
            formatter=tool_call_summary_formatter or by_format(tool_call_summary_format),
            output_type=output_content_type,
            output_format=output_content_type_format,
        )
        self._model_context = model_context or UnboundedChatCompletionContext()
        self._metadata = dict(metadata or {})
        self._draft: Draft | None = None
        self._is_kept = False  # in a list of the bus

    @property
    def model_context(self) -> ChatCompletionContext:
        """What it remembers of its conversation."""
        return self._model_context

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The types of what it says."""
        output = self._setup.output_type
        types: list[type[BaseChatMessage]] = [TextMessage, ToolCallSummaryMessage, HandoffMessage]
        return types if output is None else [*types, StructuredMessage[output]]  # type: ignore[valid-type]

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer to what is new; see `BaseChatAgent.on_messages`."""
        async with aclosing(self.on_messages_stream(messages, cancellation_token)) as items:
            async for item in items:
                if isinstance(item, Response):
                    return item
        raise NoResponseError(self.name)

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """The same; yields what happens as it happens, and at last the Response."""
        if self._draft is not None:
            await self._draft.give_up()  # a turn whose reader has left without closing it
        self._draft = Draft(self.name, self._model_context)
        async with self._draft as draft:
            turn = Turn(self._setup, draft, messages, cancellation_token)
            async with aclosing(turn.run()) as items:
                async for item in items:
                    yield item

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Forget the conversation, also what its context began with."""
        await self._model_context.clear()

    async def save_state(self) -> Mapping[str, Any]:
        """Its whole conversation, in AutoGen's shape."""
        return AssistantAgentState(llm_context=await self._model_context.save_state()).model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned, or AutoGen's.

        Raises:
            ValueError: It is no such state.
        """
        await self._model_context.load_state(AssistantAgentState.model_validate(state).llm_context)
