"""The agent that answers with a model and tools."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Self

from pydantic import BaseModel

from callboard.agents.base import BaseChatAgent
from callboard.agents.chat_agent import Response
from callboard.agents.errors import AssistantSettingError
from callboard.agents.guardrails.chain import GuardrailChain
from callboard.agents.guardrails.deciding import decided_by_person
from callboard.agents.guardrails.guardrail import Guardrail
from callboard.agents.guardrails.verdicts import Asks, Decision
from callboard.agents.handoff import Handoff
from callboard.agents.responding import response_of
from callboard.agents.task import Said
from callboard.asking import OnInput, asking_by
from callboard.cancellation import CancellationToken
from callboard.foundation.component import Component
from callboard.memory.base import Memory
from callboard.memory.contexts.base import ChatCompletionContext
from callboard.memory.contexts.conversation import Conversation
from callboard.memory.llm_messages import SystemMessage
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import HandoffMessage, StopMessage, TextMessage, ToolCallSummaryMessage
from callboard.messages.structured import StructuredMessage
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import recorded
from callboard.tools.approval import NeedsApproval
from callboard.tools.base import Tool
from callboard.tools.unknown import IfUnknown
from callboard.tools.workbench import Workbench

from . import parts
from .config import AssistantAgentConfig, arguments_of, config_of
from .draft import Draft
from .setup import Setup
from .state import AssistantAgentState
from .summary import ToolCallSummaryFormatter, by_format
from .turn import Turn

DESCRIPTION: Final = "An agent that provides assistance with ability to use tools."
MAX_ANSWER_REFUSALS: Final = 2
SYSTEM_MESSAGE: Final = (
    "You are a helpful AI assistant. Solve tasks using your tools. "
    "Reply with TERMINATE when the task has been completed."
)


class AssistantAgent(BaseChatAgent, Component[AssistantAgentConfig]):
    """An agent that answers with a model, which may call tools and hand the conversation over.

    It takes what is new, asks its memories what they know about it, and asks its model. A text is its answer. Calls of
    tools are run, all at the same time; then the model is asked again, up to `max_tool_iterations` times, and at last the
    results are its answer: as they are, or put into words by the model. A handoff ends the turn at once.

    It remembers its conversation: give it only what is new. A turn that fails or is cancelled leaves no half turn behind:
    as long as no tool was called, its context is as it was before; afterwards every call has a result, which says so where
    the call was cut off. AutoGen's leaves calls without results, and servers refuse every later request.

    In a handler of the bus every answer of its model and every result of a tool is recorded before it is used: when the
    process dies in the middle of a turn, the next one goes on there and pays nothing twice.

    Dumps have AutoGen's shape, and AutoGen's are loaded. With guardrails or input filters it can't be dumped: they are
    functions.

    The parameters and their texts are AutoGen's; the last five are ours.

    Args:
        name: A Python identifier.
        model_client: Its model.
        tools: Tools, and functions that become tools. Not beside `workbench`.
        workbench: One or several workbenches with its tools; start and stop them yourself.
        handoffs: To whom it may hand over; a text is the name of an agent.
        model_context: What its model gets to see of the conversation; None: everything.
        description: What it can do, for those who choose who speaks.
        system_message: What every prompt begins with; None: nothing.
        model_client_stream: Whether the pieces of its texts are shown as they come.
        reflect_on_tool_use: Whether the model puts the results of the last calls into words; None: where there is an
            `output_content_type`.
        max_tool_iterations: How often the model may ask for tools in one turn.
        tool_call_summary_format: One line of an answer that is made of results; knows tool_name, arguments, result and
            is_error.
        tool_call_summary_formatter: A function for the same, of a call and its result; it is not dumped.
        output_content_type: The model of its answers, which are `StructuredMessage`s of it then; None: texts.
        output_content_type_format: How such an answer looks as a text; None: as JSON.
        memory: What is asked for what belongs to a task, in this order.
        metadata: Anything about it, as text.
        guardrails: What checks its tasks, its calls and its answers, in this order.
        max_answer_refusals: How often in a turn the model may write another answer in place of a refused one.
        if_unknown: By name of a tool, what to do when a crash left it unknown whether the tool did its work; see
            `IfUnknown`. Else it is as the tool's own `if_unknown` says.
        needs_approval: By name of a tool, also of one of a workbench, which of its calls a person has to allow before they
            are made; see `NeedsApproval`. Else it is as the tool itself says.
        on_input: Asks a person: for approvals, for guardrails that ask, and where a tool's outcome is unknown. None: on the
            bus the question waits for its answer without a process; elsewhere it is as the team says.

    Raises:
        AgentNameError: The name is no identifier (a ValueError).
        AssistantSettingError: Something does not fit together, or the model can't do it (a ValueError).
        DuplicateToolError: Two tools have one name (a ValueError).
        NotAMemoryError: `memory` is no list of memories (a TypeError).
        NotAModelClientError: `model_client` is none (a TypeError).
    """

    component_config_schema = AssistantAgentConfig
    component_version = 2
    component_provider_override = "callboard.agents.AssistantAgent"

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
        guardrails: Sequence[Guardrail] = (),
        max_answer_refusals: int = MAX_ANSWER_REFUSALS,
        if_unknown: Mapping[str, IfUnknown] | None = None,
        needs_approval: Mapping[str, NeedsApproval] | None = None,
        on_input: OnInput | None = None,
    ) -> None:
        super().__init__(name, description)
        if max_tool_iterations < 1:
            raise AssistantSettingError(
                f"Maximum number of tool iterations must be greater than or equal to 1, got {max_tool_iterations}"
            )
        client = recorded(model_client)
        own_tools = parts.tools_of(tools, client)
        own_handoffs = parts.handoffs_of(handoffs, own_tools, client)
        self._setup = Setup(
            name=name,
            client=client,
            is_streamed=model_client_stream,
            system=() if system_message is None else (SystemMessage(content=system_message),),
            workbenches=parts.workbenches_of(workbench, own_tools, own_handoffs),
            handoffs=own_handoffs,
            memory=parts.memories_of(memory),
            reflects=output_content_type is not None if reflect_on_tool_use is None else reflect_on_tool_use,
            max_tool_iterations=max_tool_iterations,
            summary_format=tool_call_summary_format,
            formatter=tool_call_summary_formatter or by_format(tool_call_summary_format),
            output_type=output_content_type,
            output_format=output_content_type_format,
            guardrails=parts.guardrails_of(guardrails),
            max_answer_refusals=max_answer_refusals,
            if_unknown=parts.outcomes_of(own_tools, if_unknown),
            needs_approval=parts.approvals_of(
                [*(tool.name for tool in own_tools), *own_handoffs], needs_approval, is_all=workbench is None
            ),
            on_input=on_input,
            metadata=dict(metadata or {}),
        )
        self._model_context = parts.context_of(model_context)
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
        if self._setup.guardrails:
            types.append(StopMessage)
        return types if output is None else [*types, StructuredMessage[output]]  # type: ignore[valid-type]

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Answer to what is new; see `BaseChatAgent.on_messages`."""
        return await response_of(self.on_messages_stream(messages, cancellation_token), self.name)

    def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """The same; yields what happens as it happens, and at last the Response."""
        return self._take_turn(self._setup, messages, cancellation_token)

    async def _take_turn(
        self, setup: Setup, messages: Sequence[BaseChatMessage], token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """Take a turn with settings that may be made for it."""
        if self._draft is not None:
            await self._draft.give_up()  # a turn whose reader has left without closing it
        self._draft = draft = Draft(self.name, self._model_context)
        async with draft:
            guardrails = GuardrailChain(setup.guardrails, self.on_guardrail_asks)
            turn = Turn(setup, guardrails, draft, messages, token)
            async with aclosing(turn.run()) as items:
                async for item in items:
                    yield item
        if self._draft is draft:
            self._draft = None

    async def on_guardrail_asks(self, asks: Asks) -> Decision:
        """Have a person decide where a guardrail asks: here as `on_input`, or the bus, asks people.

        Args:
            asks: The question.

        Returns:
            Passed, or Refused with the person's reason.

        Raises:
            NobodyToAskError: Nobody can be asked (a RuntimeError).
        """
        with asking_by(self._setup.on_input):
            return await decided_by_person(self.name, asks)

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

    # For teams on the bus

    def keep_context_in(self, messages: Conversation) -> None:
        """Keep the messages of its context in a list; see `BaseChatAgent.keep_context_in`.

        A context of your own that saves more than its messages stays where it is, and is saved as a whole.
        """
        self._is_kept = self._model_context.is_only_messages
        if self._is_kept:
            self._model_context.keep_in(messages)

    async def save_beside_context(self) -> Mapping[str, Any] | None:
        """Nothing where its context is kept in a list; else all of it."""
        return None if self._is_kept else await self.save_state()

    # As a component

    def _to_config(self) -> AssistantAgentConfig:
        return config_of(self._setup, self._model_context, self)

    @classmethod
    def _from_config(cls, config: AssistantAgentConfig) -> Self:
        return cls(**arguments_of(config))
