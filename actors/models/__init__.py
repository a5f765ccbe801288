"""Clients of language models, with the names of `autogen_core.models` and what is ours beyond them.

The client for OpenAI-compatible servers is `actors.models.openai`. Every name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from .budget import Budget, MeteredChatCompletionClient
    from .cache import CachedChatCompletionClient
    from .errors import ModelError
    from .family import ModelFamily
    from .info import ModelInfo, validate_model_info
    from .prices import Price
    from .recorded import RecordedChatCompletionClient
    from .replay import Delayed, ReplayChatCompletionClient, Streamed
    from .retries import ModelRetries, RetryingChatCompletionClient
    from .settings import ModelSettings
    from .stores import MemoryStore, RuntimeStore
    from .types import ChatCompletionTokenLogprob, CreateResult, FinishReasons, RequestUsage, TopLogprob
    from .usage import Spent, UsageLedger, usage_run

__all__ = [
    "AssistantMessage",
    "Budget",
    "CachedChatCompletionClient",
    "ChatCompletionClient",
    "ChatCompletionTokenLogprob",
    "CreateResult",
    "Delayed",
    "FinishReasons",
    "FunctionCall",
    "FunctionExecutionResult",
    "FunctionExecutionResultMessage",
    "Image",
    "LLMMessage",
    "MemoryStore",
    "MeteredChatCompletionClient",
    "ModelError",
    "ModelFamily",
    "ModelInfo",
    "ModelRetries",
    "ModelSettings",
    "Price",
    "RecordedChatCompletionClient",
    "ReplayChatCompletionClient",
    "RequestUsage",
    "RetryingChatCompletionClient",
    "RuntimeStore",
    "Spent",
    "Streamed",
    "SystemMessage",
    "TopLogprob",
    "UsageLedger",
    "UserMessage",
    "usage_run",
    "validate_model_info",
]

_NAMES = {
    "memory.llm_messages": "AssistantMessage FunctionCall FunctionExecutionResult FunctionExecutionResultMessage "
    "Image LLMMessage SystemMessage UserMessage",
    ".base": "ChatCompletionClient",
    ".budget": "Budget MeteredChatCompletionClient",
    ".cache": "CachedChatCompletionClient",
    ".errors": "ModelError",
    ".family": "ModelFamily",
    ".info": "ModelInfo validate_model_info",
    ".prices": "Price",
    ".recorded": "RecordedChatCompletionClient",
    ".replay": "Delayed ReplayChatCompletionClient Streamed",
    ".retries": "ModelRetries RetryingChatCompletionClient",
    ".settings": "ModelSettings",
    ".stores": "MemoryStore RuntimeStore",
    ".types": "ChatCompletionTokenLogprob CreateResult FinishReasons RequestUsage TopLogprob",
    ".usage": "Spent UsageLedger usage_run",
}
_HOME = {name: home for home, names in _NAMES.items() for name in names.split()}


if not TYPE_CHECKING:
    # Hidden from type checkers, which would take any misspelt name for one of these.

    def __getattr__(name: str) -> object:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home, __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
