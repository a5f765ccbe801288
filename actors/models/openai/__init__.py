"""The client for OpenAI's chat API, and for every server that speaks it.

The only place that imports the package `openai`, and not before a client makes its first request.
"""

from __future__ import annotations

from .client import AzureOpenAIChatCompletionClient, OpenAIChatCompletionClient
from .settings import CreateArguments, OpenAIOptions
from .tokens import Tokenizer

__all__ = [
    "AzureOpenAIChatCompletionClient",
    "CreateArguments",
    "OpenAIChatCompletionClient",
    "OpenAIOptions",
    "Tokenizer",
]
