"""What is public: the packages that users import, and the names of each that come first.

Everything that a page or an example tells users to import is listed here; tests/docs/test_reference.py looks.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
# Packages whose `__all__` is public.
MODULES: Final = (
    "callboard",
    "callboard.agents",
    "callboard.teams",
    "callboard.groupchat",
    "callboard.ag2",
    "callboard.runs",
    "callboard.conditions",
    "callboard.dispatch",
    "callboard.roles",
    "callboard.messages",
    "callboard.ui",
    "callboard.base",
    "callboard.models",
    "callboard.models.openai",
    "callboard.models.ollama",
    "callboard.models.anthropic",
    "callboard.models.gemini",
    "callboard.models.openai_responses",
    "callboard.tools",
    "callboard.code",
    "callboard.memory",
    "callboard.memory_service",
    "callboard.broker",
    "callboard.testing",
    "callboard.web",
    "callboard.hooks",
)
# Modules of which some names are public, for special purposes; an empty tuple stands for every class that is defined there.
SPECIAL: Final[Mapping[str, tuple[str, ...]]] = {
    "callboard.models.errors": (),
    "callboard.models.info": ("KnownModel", "known_model"),
    "callboard.models.replay": ("Answer",),
    "callboard.memory.contexts": (
        "BufferedChatCompletionContext",
        "ChatCompletionContext",
        "ChatCompletionContextState",
        "Conversation",
        "HeadAndTailChatCompletionContext",
        "SummarisingChatCompletionContext",
        "TokenLimitedChatCompletionContext",
        "UnboundedChatCompletionContext",
    ),
    "callboard.memory.embedders": ("limit_of",),
    "callboard.memory.local_embedders": ("LocalEmbedder",),
    "callboard.memory.stores": ("Filter", "Record", "content_of", "record_of"),
    "callboard.logging": (),
    "callboard.broker.retry": ("Buried",),
    "callboard.broker.redis.store": ("RedisStore",),
    "callboard.broker.redis.client.transport": ("RedisTransport",),
    "callboard.broker.redis.operations.agents": ("agent", "hottest"),
    "callboard.broker.redis.operations.deadletters": ("discard", "list_letters", "replay", "show"),
    "callboard.broker.redis.operations.doctor": ("examine",),
    "callboard.broker.redis.operations.glance": ("glance",),
    "callboard.broker.redis.operations.inspect": ("held_by", "overview"),
    "callboard.broker.telemetry": (
        "attach",
        "Event",
        "Published",
        "Started",
        "Handled",
        "Retried",
        "DeadLettered",
        "Released",
        "WaitsForAnswer",
        "Dropped",
        "Fenced",
        "Connected",
        "Disconnected",
        "Beat",
        "ModelAsked",
        "ToolCalled",
    ),
}
# Modules that can't be imported without an extra that the tests lack: their names are looked up in their text.
UNLOADED: Final[Mapping[str, tuple[str, ...]]] = {
    "callboard.interop.autogen": ("CallboardRuntime", "SharedTeam")
}

# What a newcomer to each package needs; the other names are for later.
FIRST: Final[Mapping[str, tuple[str, ...]]] = {
    "callboard": (
        "App",
        "RoutedAgent",
        "event",
        "rpc",
        "Request",
        "MessageContext",
        "AgentId",
        "TopicId",
        "Log",
        "RedisAgentRuntime",
    ),
    "callboard.agents": (
        "AssistantAgent",
        "UserProxyAgent",
        "CodeExecutorAgent",
        "Handoff",
        "AgentTool",
        "TeamTool",
        "Guardrail",
        "BaseChatAgent",
        "Response",
        "TaskResult",
    ),
    "callboard.teams": (
        "RoundRobinGroupChat",
        "SelectorGroupChat",
        "Swarm",
        "GraphFlow",
        "DiGraphBuilder",
        "MagenticOneGroupChat",
        "ConcurrentGroupChat",
        "RunBudget",
        "TeamClient",
        "list_runs",
    ),
    "callboard.groupchat": (
        "ConversableAgent",
        "UserProxyAgent",
        "GroupChat",
        "GroupChatManager",
        "ContextVariables",
    ),
    "callboard.ag2": (
        "LLMConfig",
        "AutoPattern",
        "DefaultPattern",
        "initiate_group_chat",
        "a_initiate_group_chat",
        "run_group_chat",
        "a_run_group_chat",
        "AgentTarget",
        "OnCondition",
        "ReplyResult",
    ),
    "callboard.runs": (
        "run",
        "a_run",
        "a_attach",
        "RunResponse",
        "AsyncRunResponse",
        "ConsoleProcessor",
        "RoundRobinChatManager",
        "SelectorChatManager",
        "InputRequestEvent",
        "is_agent_message",
    ),
    "callboard.conditions": (
        "MaxMessageTermination",
        "TextMentionTermination",
        "HandoffTermination",
        "TokenUsageTermination",
        "TimeoutTermination",
        "ExternalTermination",
        "FunctionalTermination",
    ),
    "callboard.dispatch": (
        "DynamicDispatcher",
        "DynamicDispatcherAgent",
        "Dispatcher",
        "TypedHandoff",
        "WorkbenchSearchAgent",
    ),
    "callboard.roles": (
        "Role",
        "Action",
        "Message",
        "Environment",
        "Context",
        "Team",
        "UserRequirement",
    ),
    "callboard.messages": (
        "TextMessage",
        "MultiModalMessage",
        "StructuredMessage",
        "HandoffMessage",
        "StopMessage",
        "BaseChatMessage",
        "BaseAgentEvent",
        "ToolCallRequestEvent",
        "ToolCallExecutionEvent",
        "ModelClientStreamingChunkEvent",
    ),
    "callboard.ui": ("Console",),
    "callboard.base": ("TaskResult", "Response", "Handoff", "TerminationCondition", "Team"),
    "callboard.models": (
        "ChatCompletionClient",
        "ReplayChatCompletionClient",
        "RecordedChatCompletionClient",
        "CachedChatCompletionClient",
        "MeteredChatCompletionClient",
        "UserMessage",
        "AssistantMessage",
        "SystemMessage",
        "FunctionCall",
        "ModelInfo",
    ),
    "callboard.models.openai": (
        "OpenAIChatCompletionClient",
        "AzureOpenAIChatCompletionClient",
        "OpenAIEmbedder",
    ),
    "callboard.models.ollama": ("OllamaChatCompletionClient",),
    "callboard.models.anthropic": ("AnthropicChatCompletionClient",),
    "callboard.models.gemini": ("GeminiChatCompletionClient",),
    "callboard.models.openai_responses": ("OpenAIResponsesChatCompletionClient",),
    "callboard.tools": (
        "tool",
        "FunctionTool",
        "StaticWorkbench",
        "DynamicWorkbench",
        "McpWorkbench",
        "StdioServerParams",
        "HttpTool",
        "RemoteTool",
        "run_tools",
        "ToolResult",
    ),
    "callboard.code": ("LocalCommandLineCodeExecutor", "PythonCodeExecutionTool", "CodeBlock", "CodeLimits"),
    "callboard.memory": (
        "ListMemory",
        "ChromaDBVectorMemory",
        "PersistentChromaDBVectorMemoryConfig",
        "MemoryContent",
        "MemoryMimeType",
        "default_embedder",
        "quick_embedder",
        "MemoryStore",
    ),
    "callboard.memory_service": ("memory_service", "MemoryServiceClient"),
    "callboard.broker": ("BrokerSettings", "RetryPolicy", "Subscription"),
    "callboard.web": ("asgi", "Identity", "Tokens"),
    "callboard.hooks": ("webhook", "incoming_webhook", "new_secret"),
    "callboard.testing": ("eventually", "published", "dead_letters", "replay", "Cassette"),
}


def public_names(module: str) -> list[str]:
    """The public names of one module of MODULES, SPECIAL or UNLOADED."""
    if module in UNLOADED:
        return list(UNLOADED[module])
    loaded = importlib.import_module(module)
    if module in MODULES:
        return list(loaded.__all__)
    return list(SPECIAL[module]) or [
        name
        for name, value in vars(loaded).items()
        if isinstance(value, type) and value.__module__ == module and not name.startswith("_")
    ]


def about_unloaded(module: str) -> tuple[str, Mapping[str, str]]:
    """The docstrings of a module of UNLOADED: its own, and that of each public name."""
    text = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text("utf-8")
    tree = ast.parse(text)
    defined: list[Any] = list(tree.body)
    docs = {
        one.name: ast.get_docstring(one) or ""
        for one in defined
        if getattr(one, "name", None) in UNLOADED[module]
    }
    return ast.get_docstring(tree) or "", docs
