"""The agent type that runs tools for others, and the loop of a model that calls it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from callboard.broker.ids import AgentId
from callboard.core.agent import Messaging
from callboard.core.cancellation import CancellationToken
from callboard.core.context import MessageContext
from callboard.core.declaration import AgentDeclaration, AgentOptions, AgentSettings
from callboard.core.handlers import RoutedAgent, rpc
from callboard.core.protocol import AgentRuntime
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
)
from callboard.models.base import ChatCompletionClient
from callboard.models.types import CreateResult

from .base import Tool
from .call import read_call, tool_context
from .errors import ToolArgumentsError, ToolError
from .remote import ToolCallRequest
from .schema import ToolSchema
from .static import StaticWorkbench
from .workbench import ToolResult, Workbench, error_result

if TYPE_CHECKING:
    from callboard.app import App


class ToolAgent(RoutedAgent):
    """Runs tools for others: a ToolCallRequest gets a ToolResult, a FunctionCall a FunctionExecutionResult.

    Every answer of a tool, errors included, is a result that a model can read. AutoGen's ToolAgent raises instead, and
    across processes its callers can't tell the errors apart.

    Args:
        description: Its purpose.
        tools: The tools, or a workbench that has them.
        timeout: Seconds until a call is given up; None: no limit but the `max_runtime` of the agent type.
    """

    def __init__(
        self, description: str, tools: Sequence[Tool] | Workbench, *, timeout: float | None = None
    ) -> None:
        super().__init__(description)
        self._workbench = tools if isinstance(tools, Workbench) else StaticWorkbench(tools, timeout=timeout)

    @property
    def workbench(self) -> Workbench:
        """The workbench through which it calls the tools."""
        return self._workbench

    @classmethod
    def declare(
        cls,
        app: App,
        type: str,
        tools: Sequence[Tool] | Workbench,
        *,
        description: str = "Runs tools for other agents.",
        processes: int = 1,
        timeout: float | None = None,
        **settings: Unpack[AgentOptions],
    ) -> AgentDeclaration:
        """Declare an agent type of an App that runs these tools.

        Args:
            app: The App.
            type: The agent type, which is what ``on=`` of a workbench names.
            tools: The tools, or a workbench. All agents of a process share them.
            description: Its purpose.
            processes: The number of processes that `callboard up` runs for it.
            timeout: Seconds until a call is given up; None: no limit but `max_runtime`.
            **settings: The fields of AgentSettings: `max_runtime`, `concurrency` and so on.

        Raises:
            DuplicateAgentTypeError: The type is declared already (a ValueError).
            ToolDeclarationError: See StaticWorkbench.
            DeclarationError, SettingValueError: A setting does not exist, or has a value that can't work.
        """
        workbench = tools if isinstance(tools, Workbench) else StaticWorkbench(tools, timeout=timeout)
        return app.register(
            type,
            lambda: cls(description, workbench),
            expected_class=cls,
            processes=processes,
            settings=AgentSettings.of(settings),
        )

    @rpc
    async def on_request(self, message: ToolCallRequest, ctx: MessageContext) -> ToolResult:
        """Run a tool."""
        allowed = message.name if message.is_allowed else ""
        return await self._call(
            message.name, message.arguments, message.call_id, ctx, message.idempotency_key, allowed
        )

    @rpc
    async def on_function_call(self, message: FunctionCall, ctx: MessageContext) -> FunctionExecutionResult:
        """Run a tool for a model's call; images in the result become the text "[image]"."""
        try:
            asked = read_call(message)
        except ToolArgumentsError as error:
            result = error_result(message.name, error)
        else:
            result = await self._call(asked.name, asked.arguments, asked.call_id, ctx)
        text = result.to_text(replace_image="[image]")
        return FunctionExecutionResult(
            content=text, name=message.name, call_id=message.id, is_error=result.is_error
        )

    async def _call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None,
        call_id: str | None,
        ctx: MessageContext,
        key: str | None = None,
        allowed: str = "",
    ) -> ToolResult:
        key = key or ctx.idempotency_key("tool")
        with tool_context(ctx, runtime=self.runtime, idempotency_key=key, allowed=allowed):
            return await self._workbench.call_tool(name, arguments, ctx.cancellation_token, call_id)


async def tool_agent_caller_loop(
    caller: Messaging | AgentRuntime,
    tool_agent_id: AgentId,
    model_client: ChatCompletionClient,
    input_messages: Sequence[LLMMessage],
    tool_schema: Sequence[ToolSchema] | Sequence[Tool],
    cancellation_token: CancellationToken | None = None,
    caller_source: str = "assistant",
) -> list[LLMMessage]:
    """Ask a model, have a ToolAgent run the tools that it asks for, and ask again, until it asks for none.

    The calls of one answer run at the same time. What a tool raises is a result that the model reads, in other processes,
    too, where AutoGen's loop gives up.

    Args:
        caller: The agent, or the runtime, that asks.
        tool_agent_id: A ToolAgent.
        model_client: The model.
        input_messages: The conversation so far.
        tool_schema: The tools that the model is offered.
        cancellation_token: Ends it.
        caller_source: The source of the model's messages.

    Returns:
        The new messages, the last of which is the model's answer.

    Raises:
        UndeliverableException: There is no such agent.
        ModelError: The model can't be asked.
        asyncio.CancelledError: The token was cancelled.
    """
    new: list[LLMMessage] = []
    while True:
        asked = [*input_messages, *new]
        answer = await model_client.create(asked, tools=tool_schema, cancellation_token=cancellation_token)
        said = AssistantMessage(
            content=answer.content, source=caller_source, thought=answer.thought, vendor=answer.vendor
        )
        new.append(said)
        if isinstance(answer.content, str) or not answer.content:
            return new
        results = await _results(caller, tool_agent_id, answer, cancellation_token)
        new.append(FunctionExecutionResultMessage(content=results))


async def _results(
    caller: Messaging | AgentRuntime,
    tool_agent: AgentId,
    answer: CreateResult,
    token: CancellationToken | None,
) -> list[FunctionExecutionResult]:
    calls = [call for call in answer.content if not isinstance(call, str)]
    requests = [caller.send_message(call, tool_agent, cancellation_token=token) for call in calls]
    # All of them end before an error goes on: none is left running.
    answers = await asyncio.gather(*requests, return_exceptions=True)
    results: list[FunctionExecutionResult] = []
    for call, result in zip(calls, answers, strict=True):
        if isinstance(result, ToolError):
            # An intervention handler has refused the call, where AutoGen's would raise a ToolException.
            results.append(
                FunctionExecutionResult(content=str(result), name=call.name, call_id=call.id, is_error=True)
            )
        elif isinstance(result, BaseException):
            raise result
        else:
            results.append(result)
    return results
