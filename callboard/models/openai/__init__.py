"""The client for OpenAI's chat API, and for every server that speaks it.

The only place that imports the package `openai`, and not before a client makes its first request.
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
