from .llm_config import LLMConfig as LLMConfig
from .pattern import (
    AutoPattern as AutoPattern,
    DefaultPattern as DefaultPattern,
    ManualPattern as ManualPattern,
    Pattern as Pattern,
    RandomPattern as RandomPattern,
    RoundRobinPattern as RoundRobinPattern,
    a_initiate_group_chat as a_initiate_group_chat,
    initiate_group_chat as initiate_group_chat,
)
from .run import a_run_group_chat as a_run_group_chat, run_group_chat as run_group_chat
from .targets import (
    AgentNameTarget as AgentNameTarget,
    AgentTarget as AgentTarget,
    AskUserTarget as AskUserTarget,
    FunctionTarget as FunctionTarget,
    FunctionTargetMessage as FunctionTargetMessage,
    FunctionTargetResult as FunctionTargetResult,
    GroupChatConfig as GroupChatConfig,
    GroupChatTarget as GroupChatTarget,
    GroupManagerSelectionMessage as GroupManagerSelectionMessage,
    GroupManagerSelectionMessageContextStr as GroupManagerSelectionMessageContextStr,
    GroupManagerSelectionMessageString as GroupManagerSelectionMessageString,
    GroupManagerTarget as GroupManagerTarget,
    NestedChatTarget as NestedChatTarget,
    RandomAgentTarget as RandomAgentTarget,
    ReplyResult as ReplyResult,
    RevertToUserTarget as RevertToUserTarget,
    StayTarget as StayTarget,
    TerminateTarget as TerminateTarget,
)

__all__: list[str]
