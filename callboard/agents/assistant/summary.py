"""What an assistant says when its tools have run and no model is asked what to make of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult
from callboard.messages.chat import ToolCallSummaryMessage

ToolCallSummaryFormatter: TypeAlias = Callable[[FunctionCall, FunctionExecutionResult], str]
"""The text for one call and its result."""


def by_format(format_string: str) -> ToolCallSummaryFormatter:
    """A formatter that fills in tool_name, arguments, result and is_error."""

    def formatted(call: FunctionCall, result: FunctionExecutionResult) -> str:
        return format_string.format(
            tool_name=call.name, arguments=call.arguments, result=result.content, is_error=result.is_error
        )

    return formatted


def summary_of(
    calls: Sequence[FunctionCall],
    results: Sequence[FunctionExecutionResult],
    formatter: ToolCallSummaryFormatter,
    source: str,
) -> ToolCallSummaryMessage:
    """The texts of calls and results, one below the other."""
    content = "\n".join(map(formatter, calls, results))
    return ToolCallSummaryMessage(
        content=content, source=source, tool_calls=list(calls), results=list(results)
    )
