"""Clients of language models, with the names of `autogen_core.models`.

The client for OpenAI-compatible servers is `actors.models.openai`; importing this package loads nothing of it.
"""

from __future__ import annotations

from memory.llm_messages import (
    AssistantMessage,
    FunctionCall,
    FunctionExecutionResult,
    FunctionExecutionResultMessage,
    Image,
    LLMMessage,
    SystemMessage,
    UserMessage,
)

from .base import ChatCompletionClient
from .errors import ModelError
from .family import ModelFamily
from .info import ModelInfo, validate_model_info
from .types import ChatCompletionTokenLogprob, CreateResult, FinishReasons, RequestUsage, TopLogprob

__all__ = [
    "AssistantMessage",
    "ChatCompletionClient",
    "ChatCompletionTokenLogprob",
    "CreateResult",
    "FinishReasons",
    "FunctionCall",
    "FunctionExecutionResult",
    "FunctionExecutionResultMessage",
    "Image",
    "LLMMessage",
    "ModelError",
    "ModelFamily",
    "ModelInfo",
    "RequestUsage",
    "SystemMessage",
    "TopLogprob",
    "UserMessage",
    "validate_model_info",
]
