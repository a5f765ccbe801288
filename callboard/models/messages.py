"""The messages to models and from them, whose home is `callboard.memory.llm_messages`."""

# ruff: noqa: PLC0414 - every name is passed on

from __future__ import annotations

from callboard.memory.llm_messages import (
    AssistantMessage as AssistantMessage,
    FunctionCall as FunctionCall,
    FunctionExecutionResult as FunctionExecutionResult,
    FunctionExecutionResultMessage as FunctionExecutionResultMessage,
    Image as Image,
    LLMMessage as LLMMessage,
    SystemMessage as SystemMessage,
    UserMessage as UserMessage,
)
