"""The list of all providers that a config may name. One line for each; nothing is imported before it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

PROVIDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "callboard": ("InMemoryStore",),
    "callboard.agents": (
        "AssistantAgent",
        "CodeExecutorAgent",
        "MessageFilterAgent",
        "SocietyOfMindAgent",
        "UserProxyAgent",
    ),
    "callboard.base": (
        "AndTerminationCondition",
        "OrTerminationCondition",
    ),
    "callboard.code": (
        "LocalCommandLineCodeExecutor",
        "PythonCodeExecutionTool",
    ),
    "callboard.conditions": (
        "ExternalTermination",
        "FunctionCallTermination",
        "FunctionalTermination",
        "HandoffTermination",
        "MaxMessageTermination",
        "SourceMatchTermination",
        "StopMessageTermination",
        "TextMentionTermination",
        "TextMessageTermination",
        "TimeoutTermination",
        "TokenUsageTermination",
    ),
    "callboard.memory": (
        "ChromaDBVectorMemory",
        "ListMemory",
    ),
    "callboard.memory.contexts": (
        "BufferedChatCompletionContext",
        "HeadAndTailChatCompletionContext",
        "SummarisingChatCompletionContext",
        "TokenLimitedChatCompletionContext",
        "UnboundedChatCompletionContext",
    ),
    "callboard.messages": ("StructuredMessageFactory",),
    "callboard.models": (
        "CachedChatCompletionClient",
        "FallbackChatCompletionClient",
        "RecordedChatCompletionClient",
        "ReplayChatCompletionClient",
        "RetryingChatCompletionClient",
        "RuntimeStore",
    ),
    "callboard.models.anthropic": ("AnthropicChatCompletionClient",),
    "callboard.models.gemini": ("GeminiChatCompletionClient",),
    "callboard.models.ollama": ("OllamaChatCompletionClient",),
    "callboard.models.openai": (
        "AzureOpenAIChatCompletionClient",
        "OpenAIChatCompletionClient",
    ),
    "callboard.models.openai_responses": ("OpenAIResponsesChatCompletionClient",),
    "callboard.teams": (
        "ConcurrentGroupChat",
        "GraphFlow",
        "MagenticOneGroupChat",
        "RoundRobinGroupChat",
        "SelectorGroupChat",
        "Swarm",
    ),
    "callboard.tools": (
        "AgentTool",
        "FunctionTool",
        "HttpTool",
        "McpWorkbench",
        "StaticStreamWorkbench",
        "StaticWorkbench",
        "TeamTool",
    ),
}

# AutoGen's packages, and where we have what is in them by the same name.
AUTOGEN_PACKAGES: Final[Mapping[str, str]] = {
    "autogen_agentchat.agents": "callboard.agents",
    "autogen_agentchat.base": "callboard.base",
    "autogen_agentchat.conditions": "callboard.conditions",
    "autogen_agentchat.messages": "callboard.messages",
    "autogen_agentchat.teams": "callboard.teams",
    "autogen_agentchat.tools": "callboard.tools",
    "autogen_core": "callboard",
    "autogen_core.memory": "callboard.memory",
    "autogen_core.model_context": "callboard.memory.contexts",
    "autogen_core.tools": "callboard.tools",
    "autogen_ext.code_executors.local": "callboard.code",
    "autogen_ext.memory.chromadb": "callboard.memory",
    "autogen_ext.models.ollama": "callboard.models.ollama",
    "autogen_ext.models.openai": "callboard.models.openai",
    "autogen_ext.models.replay": "callboard.models",
    "autogen_ext.tools.code_execution": "callboard.code",
    "autogen_ext.tools.http": "callboard.tools",
    "autogen_ext.tools.mcp": "callboard.tools",
}

# AutoGen's providers that have another name here, and its short names.
AUTOGEN: Final[Mapping[str, str]] = {
    "AzureOpenAIChatCompletionClient": "callboard.models.openai.AzureOpenAIChatCompletionClient",
    "OllamaChatCompletionClient": "callboard.models.ollama.OllamaChatCompletionClient",
    "OpenAIChatCompletionClient": "callboard.models.openai.OpenAIChatCompletionClient",
    "autogen_ext.models.cache.ChatCompletionCache": "callboard.models.CachedChatCompletionClient",
    "azure_openai_chat_completion_client": "callboard.models.openai.AzureOpenAIChatCompletionClient",
    "openai_chat_completion_client": "callboard.models.openai.OpenAIChatCompletionClient",
}

_ANTHROPIC: Final = (
    "Anthropic has an address that speaks OpenAI's API: use callboard.models.openai.OpenAIChatCompletionClient "
    "with a model claude-..."
)

# AutoGen's providers that we do not have, and what to use in their place.
ELSEWHERE: Final[Mapping[str, str]] = {
    "autogen_ext.models.anthropic.AnthropicChatCompletionClient": _ANTHROPIC,
    "autogen_ext.tools.mcp.SseMcpToolAdapter": "use callboard.tools.McpWorkbench over streamable HTTP",
    "autogen_ext.tools.mcp.StdioMcpToolAdapter": "use callboard.tools.McpWorkbench",
    "autogen_ext.tools.mcp.StreamableHttpMcpToolAdapter": "use callboard.tools.McpWorkbench",
}
