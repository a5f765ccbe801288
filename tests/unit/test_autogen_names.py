"""Public names of AutoGen 0.7.5 are where docs/from-autogen.md says, or on that page with the reason why they are not.

AutoGen is not installed where this runs, so its names are written down here: each module's ``__all__``.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Final

import pytest

PAGE: Final = Path(__file__).parents[2] / "docs" / "from-autogen.md"

# Module of AutoGen -> our module, and the names that both have.
PLACES: Final[dict[str, tuple[str, str]]] = {
    "autogen_agentchat.agents": (
        "callboard.agents",
        """
        ApprovalFuncType ApprovalRequest ApprovalResponse AssistantAgent BaseChatAgent CodeExecutorAgent
        MessageFilterAgent MessageFilterConfig PerSourceFilter SocietyOfMindAgent UserProxyAgent
    """,
    ),
    "autogen_agentchat.base": (
        "callboard.base",
        """
        AndTerminationCondition ChatAgent Handoff OrTerminationCondition Response TaskResult TaskRunner Team
        TerminatedException TerminationCondition
    """,
    ),
    "autogen_agentchat.conditions": (
        "callboard.conditions",
        """
        ExternalTermination FunctionCallTermination FunctionalTermination HandoffTermination
        MaxMessageTermination SourceMatchTermination StopMessageTermination TextMentionTermination
        TextMessageTermination TimeoutTermination TokenUsageTermination
    """,
    ),
    "autogen_agentchat.messages": (
        "callboard.messages",
        """
        AgentEvent BaseAgentEvent BaseChatMessage BaseMessage BaseTextChatMessage ChatMessage
        CodeExecutionEvent CodeGenerationEvent HandoffMessage MemoryQueryEvent MessageFactory
        ModelClientStreamingChunkEvent MultiModalMessage SelectSpeakerEvent StopMessage
        StructuredContentType StructuredMessage StructuredMessageFactory TextMessage ThoughtEvent
        ToolCallExecutionEvent ToolCallRequestEvent ToolCallSummaryMessage UserInputRequestedEvent
    """,
    ),
    "autogen_agentchat.teams": (
        "callboard.teams",
        """
        BaseGroupChat DiGraph DiGraphBuilder DiGraphEdge DiGraphNode GraphFlow MagenticOneGroupChat
        RoundRobinGroupChat SelectorGroupChat Swarm
    """,
    ),
    "autogen_agentchat.tools": (
        "callboard.tools",
        """
        AgentTool TeamTool
    """,
    ),
    "autogen_agentchat.ui": (
        "callboard.ui",
        """
        Console UserInputManager
    """,
    ),
    "autogen_agentchat": (
        "callboard",
        """
        EVENT_LOGGER_NAME TRACE_LOGGER_NAME
    """,
    ),
    "autogen_core": (
        "callboard",
        """
        Agent AgentId AgentInstantiationContext AgentMetadata AgentProxy AgentRuntime AgentType BaseAgent
        CacheStore CancellationToken ClosureAgent ClosureContext Component ComponentBase ComponentFromConfig
        ComponentLoader ComponentModel ComponentSchemaType ComponentToConfig ComponentType
        DefaultInterventionHandler DefaultSubscription DefaultTopicId DropMessage EVENT_LOGGER_NAME
        FunctionCall Image InMemoryStore InterventionHandler MessageContext MessageHandlerContext
        ROOT_LOGGER_NAME RoutedAgent Subscription SubscriptionInstantiationContext TRACE_LOGGER_NAME TopicId
        TypePrefixSubscription TypeSubscription default_subscription event is_component_class
        is_component_instance message_handler rpc trace_create_agent_span trace_invoke_agent_span
        trace_tool_span type_subscription
    """,
    ),
    "autogen_core.models": (
        "callboard.models",
        """
        AssistantMessage ChatCompletionClient ChatCompletionTokenLogprob CreateResult FinishReasons
        FunctionExecutionResult FunctionExecutionResultMessage LLMMessage ModelCapabilities ModelFamily
        ModelInfo RequestUsage SystemMessage TopLogprob UserMessage validate_model_info
    """,
    ),
    "autogen_core.tools": (
        "callboard.tools",
        """
        BaseStreamTool BaseTool BaseToolWithState FunctionTool ImageResultContent ParametersSchema
        StaticStreamWorkbench StaticWorkbench StreamTool TextResultContent Tool ToolOverride ToolResult
        ToolSchema Workbench
    """,
    ),
    "autogen_core.memory": (
        "callboard.memory",
        """
        ListMemory Memory MemoryContent MemoryMimeType MemoryQueryResult UpdateContextResult
    """,
    ),
    "autogen_core.model_context": (
        "callboard.memory.contexts",
        """
        BufferedChatCompletionContext ChatCompletionContext ChatCompletionContextState
        HeadAndTailChatCompletionContext TokenLimitedChatCompletionContext UnboundedChatCompletionContext
    """,
    ),
    "autogen_core.tool_agent": (
        "callboard.tools",
        """
        ToolAgent tool_agent_caller_loop
    """,
    ),
    "autogen_core.code_executor": (
        "callboard.code",
        """
        Alias CodeBlock CodeExecutor CodeResult FunctionWithRequirements FunctionWithRequirementsStr Import
        ImportFromModule with_requirements
    """,
    ),
    "autogen_core.exceptions": (
        "callboard",
        """
        CantHandleException MessageDroppedException NotAccessibleError UndeliverableException
    """,
    ),
}
# Names that have no place here.
GONE: Final = """
    AssistantAgentState BaseGroupChatManagerState BaseState ChatAgentContainerState
    InvalidToolArgumentsException JSON_DATA_CONTENT_TYPE MagenticOneOrchestratorState MessageSerializer
    PROTOBUF_DATA_CONTENT_TYPE RoundRobinManagerState SelectorManagerState SingleThreadedAgentRuntime
    SocietyOfMindAgentState SwarmManagerState TeamState ToolException ToolExecutionException
    ToolNotFoundException UnknownPayload content_to_str remove_images try_get_known_serializers_for_type
"""

NAMES: Final = [(theirs, ours, name) for theirs, (ours, names) in PLACES.items() for name in names.split()]


def page() -> str:
    return PAGE.read_text("utf-8")


@pytest.mark.parametrize(("theirs", "ours", "name"), NAMES, ids=lambda value: value)
def test_a_name_of_autogen_is_where_the_table_says(theirs: str, ours: str, name: str) -> None:
    module = importlib.import_module(ours)
    assert getattr(module, name, None) is not None, f"{theirs}.{name} is not in {ours}"
    assert name in getattr(module, "__all__", [name]), f"{name} is not a public name of {ours}"


@pytest.mark.parametrize(("theirs", "ours"), [(theirs, ours) for theirs, (ours, _) in PLACES.items()])
def test_the_table_says_where_a_module_is(theirs: str, ours: str) -> None:
    rows = [row.split("|")[1:3] for row in page().splitlines() if row.startswith("| `autogen_")]
    assert any(f"`{theirs}`" in left and f"`{ours}`" in right for left, right in rows)


@pytest.mark.parametrize("name", GONE.split())
def test_what_has_no_place_here_is_on_the_page(name: str) -> None:
    assert re.search(rf"\b{name}\b", page()), f"{name} is not on the page"
