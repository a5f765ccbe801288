"""The client for OpenAI's chat API, and for every server that speaks it.

No other package imports `openai`, and this one not before a client makes its first request.
"""

from __future__ import annotations

from .client import (
    AzureOpenAIChatCompletionClient,
    AzureOpenAIClientConfigurationConfigModel,
    OpenAIChatCompletionClient,
    OpenAIClientConfigurationConfigModel,
)
from .embedder import OpenAIEmbedder
from .settings import OpenAIOptions, Tokenizer

__all__ = [
    "AzureOpenAIChatCompletionClient",
    "AzureOpenAIClientConfigurationConfigModel",
    "OpenAIChatCompletionClient",
    "OpenAIClientConfigurationConfigModel",
    "OpenAIEmbedder",
    "OpenAIOptions",
    "Tokenizer",
]
