"""A model and a ToolAgent in turns, until the model asks for no more tools."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from callboard.broker.ids import AgentId
from callboard.cancellation import CancellationToken
from callboard.memory.llm_messages import (
    AssistantMessage,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    LLMMessage,
)
from callboard.messaging import Messaging
from callboard.models.base import ChatCompletionClient
from callboard.models.types import CreateResult
from callboard.protocol import AgentRuntime

from .base import Tool
from .schema import ToolSchema


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
        new.append(AssistantMessage(content=answer.content, source=caller_source, thought=answer.thought))
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
    requests = [
        caller.send_message(call, tool_agent, cancellation_token=token)
        for call in answer.content
        if not isinstance(call, str)
    ]
    # All of them end before an error goes on: none is left running.
    answers = await asyncio.gather(*requests, return_exceptions=True)
    results: list[FunctionExecutionResult] = []
    for result in answers:
        if isinstance(result, BaseException):
            raise result
        results.append(result)
    return results
