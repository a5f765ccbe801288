from .agent import Agent as Agent
from .assistant import AssistantAgent as AssistantAgent
from .context_variables import ContextVariables as ContextVariables
from .conversable import ConversableAgent as ConversableAgent
from .errors import (
    AgentNameConflictError as AgentNameConflictError,
    ClearHistoryError as ClearHistoryError,
    ExpressionError as ExpressionError,
    ExpressionSyntaxError as ExpressionSyntaxError,
    GroupChatDeclarationError as GroupChatDeclarationError,
    GroupChatError as GroupChatError,
    HandoffError as HandoffError,
    MessageError as MessageError,
    MissingVariableError as MissingVariableError,
    ModelClientClassError as ModelClientClassError,
    NoEligibleSpeakerError as NoEligibleSpeakerError,
    ResumeError as ResumeError,
    SharedVariableError as SharedVariableError,
    SpeakerSelectionError as SpeakerSelectionError,
    TransitionError as TransitionError,
    UndefinedNextAgentError as UndefinedNextAgentError,
)
from .events import (
    ChatEvent as ChatEvent,
    ClearAgentsHistoryEvent as ClearAgentsHistoryEvent,
    ConditionNotMetEvent as ConditionNotMetEvent,
    GroupChatResumeEvent as GroupChatResumeEvent,
    GroupChatRunChatEvent as GroupChatRunChatEvent,
    HistoryNotClearedEvent as HistoryNotClearedEvent,
    SelectSpeakerEvent as SelectSpeakerEvent,
    SelectSpeakerInvalidInputEvent as SelectSpeakerInvalidInputEvent,
    SelectSpeakerTryCountExceededEvent as SelectSpeakerTryCountExceededEvent,
    SpeakerAttemptEvent as SpeakerAttemptEvent,
    TerminationEvent as TerminationEvent,
    TextEvent as TextEvent,
)
from .group_chat import GroupChat as GroupChat
from .handoffs.agent_targets import (
    AgentNameTarget as AgentNameTarget,
    AgentTarget as AgentTarget,
    RandomAgentTarget as RandomAgentTarget,
)
from .handoffs.chat_targets import (
    GroupChatConfig as GroupChatConfig,
    GroupChatTarget as GroupChatTarget,
    NestedChatTarget as NestedChatTarget,
)
from .handoffs.conditions import (
    AvailableCondition as AvailableCondition,
    ContextCondition as ContextCondition,
    ContextStrLLMCondition as ContextStrLLMCondition,
    ExpressionAvailableCondition as ExpressionAvailableCondition,
    ExpressionContextCondition as ExpressionContextCondition,
    LLMCondition as LLMCondition,
    StringAvailableCondition as StringAvailableCondition,
    StringContextCondition as StringContextCondition,
    StringLLMCondition as StringLLMCondition,
)
from .handoffs.context_text import ContextStr as ContextStr
from .handoffs.expression import ContextExpression as ContextExpression
from .handoffs.function_target import (
    FunctionTarget as FunctionTarget,
    FunctionTargetMessage as FunctionTargetMessage,
    FunctionTargetResult as FunctionTargetResult,
)
from .handoffs.handoffs import Handoffs as Handoffs
from .handoffs.manager_target import (
    GroupManagerSelectionMessage as GroupManagerSelectionMessage,
    GroupManagerSelectionMessageContextStr as GroupManagerSelectionMessageContextStr,
    GroupManagerSelectionMessageString as GroupManagerSelectionMessageString,
    GroupManagerTarget as GroupManagerTarget,
)
from .handoffs.on_condition import OnCondition as OnCondition, OnContextCondition as OnContextCondition
from .handoffs.other_targets import (
    AskUserTarget as AskUserTarget,
    RevertToUserTarget as RevertToUserTarget,
    StayTarget as StayTarget,
    TerminateTarget as TerminateTarget,
)
from .handoffs.reply_result import ReplyResult as ReplyResult
from .handoffs.target import (
    SpeakerSelectionResult as SpeakerSelectionResult,
    TransitionTarget as TransitionTarget,
    Whereabouts as Whereabouts,
)
from .llm_config import LLMConfig as LLMConfig
from .manager import GroupChatManager as GroupChatManager
from .message import ConversationMessage as ConversationMessage
from .patterns.auto import AutoPattern as AutoPattern
from .patterns.initiating import (
    a_initiate_group_chat as a_initiate_group_chat,
    initiate_group_chat as initiate_group_chat,
)
from .patterns.manual import ManualPattern as ManualPattern
from .patterns.pattern import DefaultPattern as DefaultPattern, Pattern as Pattern
from .patterns.random import RandomPattern as RandomPattern
from .patterns.round_robin import RoundRobinPattern as RoundRobinPattern
from .policies import (
    AgentEligibilityPolicy as AgentEligibilityPolicy,
    SelectionContext as SelectionContext,
)
from .result import ChatResult as ChatResult
from .stream import IOStream as IOStream
from .team import GroupChatTeam as GroupChatTeam
from .transforms import (
    MessageHistoryLimiter as MessageHistoryLimiter,
    MessageTransform as MessageTransform,
    TransformMessages as TransformMessages,
)
from .updating import UpdateSystemMessage as UpdateSystemMessage
from .user_proxy import UserProxyAgent as UserProxyAgent

__all__: list[str]
