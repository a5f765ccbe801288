"""Assistants with scripted models, and what they say in a short form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from callboard.agents import AssistantAgent, TaskResult
from callboard.agents.base import Said, Task
from callboard.core.cancellation import CancellationToken
from callboard.memory.llm_messages import FunctionCall, LLMMessage
from callboard.messages import (
    ModelClientStreamingChunkEvent,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from callboard.models import CreateResult, ReplayChatCompletionClient, RequestUsage
from callboard.models.replay import Answer


def call(name: str, arguments: str = "{}", id: str = "1") -> FunctionCall:
    return FunctionCall(id=id, arguments=arguments, name=name)


def calls(*names: str, thought: str | None = None) -> CreateResult:
    """An answer that asks for tools without arguments; their ids are 1, 2, and so on."""
    content = [call(name, id=str(number)) for number, name in enumerate(names, 1)]
    return CreateResult(
        finish_reason="function_calls",
        content=content,
        usage=RequestUsage(5, 3),
        cached=False,
        thought=thought,
    )


def says(text: str, thought: str | None = None) -> CreateResult:
    return CreateResult(
        finish_reason="stop", content=text, usage=RequestUsage(7, 2), cached=False, thought=thought
    )


def assistant(*answers: Answer, **settings: Any) -> tuple[AssistantAgent, ReplayChatCompletionClient]:
    """An assistant called "ada", and its model."""
    model = ReplayChatCompletionClient(answers)
    return AssistantAgent("ada", model, **settings), model


def short(item: Said | TaskResult) -> tuple[Any, ...]:
    """Something that was said, as a tuple."""
    if isinstance(item, TaskResult):
        return ("result", len(item.messages))
    if isinstance(item, ToolCallRequestEvent):
        return ("calls", *(call.name for call in item.content))
    if isinstance(item, ToolCallExecutionEvent):
        return ("results", *(("!" if one.is_error else "") + one.content for one in item.content))
    kinds = {ThoughtEvent: "thought", ModelClientStreamingChunkEvent: "piece"}
    return (kinds.get(type(item), type(item).__name__), item.to_text())


async def said(agent: AssistantAgent, task: Task = "go", token: CancellationToken | None = None) -> list[Any]:
    """All that it says to a task, the task left out."""
    stream = agent.run_stream(task=task, cancellation_token=token, output_task_messages=False)
    return [short(item) async for item in stream]


async def remembered(agent: AssistantAgent) -> list[tuple[str, Any]]:
    """Its context as types and contents."""
    return brief(await agent.model_context.get_messages())


def brief(messages: Sequence[LLMMessage]) -> list[tuple[str, Any]]:
    return [(message.type, _content(message.content)) for message in messages]


def _content(content: Any) -> Any:
    if not isinstance(content, list):
        return content
    return [getattr(part, "name", part) for part in content]


def prompts(model: ReplayChatCompletionClient) -> list[list[tuple[str, Any]]]:
    """What the model was asked, call by call."""
    return [brief(one["messages"]) for one in model.create_calls]
