import callboard.groupchat

from .conditions import (
    AvailableCondition as AvailableCondition,
    ContextCondition as ContextCondition,
    ContextExpression as ContextExpression,
    ContextStrLLMCondition as ContextStrLLMCondition,
    ExpressionAvailableCondition as ExpressionAvailableCondition,
    ExpressionContextCondition as ExpressionContextCondition,
    ExpressionError as ExpressionError,
    LLMCondition as LLMCondition,
    StringAvailableCondition as StringAvailableCondition,
    StringContextCondition as StringContextCondition,
    StringLLMCondition as StringLLMCondition,
)
from .handoffs import (
    ConditionNotMetEvent as ConditionNotMetEvent,
    Handoffs as Handoffs,
    OnCondition as OnCondition,
    OnContextCondition as OnContextCondition,
    SpeakerSelectionResult as SpeakerSelectionResult,
    TransitionTarget as TransitionTarget,
    Whereabouts as Whereabouts,
)
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

AgentNameConflictError = callboard.groupchat.AgentNameConflictError
AssistantAgent = callboard.groupchat.AssistantAgent
ChatResult = callboard.groupchat.ChatResult
ContextStr = callboard.groupchat.ContextStr
ContextVariables = callboard.groupchat.ContextVariables
ConversableAgent = callboard.groupchat.ConversableAgent
GroupChat = callboard.groupchat.GroupChat
GroupChatDeclarationError = callboard.groupchat.GroupChatDeclarationError
GroupChatManager = callboard.groupchat.GroupChatManager
IOStream = callboard.groupchat.IOStream
MessageHistoryLimiter = callboard.groupchat.MessageHistoryLimiter
NoEligibleSpeakerError = callboard.groupchat.NoEligibleSpeakerError
TransformMessages = callboard.groupchat.TransformMessages
UndefinedNextAgentError = callboard.groupchat.UndefinedNextAgentError
UpdateSystemMessage = callboard.groupchat.UpdateSystemMessage
UserProxyAgent = callboard.groupchat.UserProxyAgent

__all__: list[str]
