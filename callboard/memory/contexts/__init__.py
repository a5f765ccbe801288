"""Model contexts: a conversation, and the part of it that a model gets to see.

The names are those of `autogen_core.model_context`. Every context keeps the whole conversation and shows a part of it,
except the summarising one, which replaces old messages. None of them shows a tool's result without the call that asked
for it, nor cuts between the two: servers refuse both.
"""

from __future__ import annotations

from .base import (
    ChatCompletionContext as ChatCompletionContext,
    ChatCompletionContextState as ChatCompletionContextState,
)
from .conversation import Conversation as Conversation
from .summarising import SummarisingChatCompletionContext as SummarisingChatCompletionContext
from .windows import (
    BufferedChatCompletionContext as BufferedChatCompletionContext,
    HeadAndTailChatCompletionContext as HeadAndTailChatCompletionContext,
    TokenLimitedChatCompletionContext as TokenLimitedChatCompletionContext,
    UnboundedChatCompletionContext as UnboundedChatCompletionContext,
)
