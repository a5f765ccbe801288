from .conditions import (
    AvailableCondition as AvailableCondition,
    ContextCondition as ContextCondition,
    ContextExpression as ContextExpression,
    ContextStr as ContextStr,
    ContextStrLLMCondition as ContextStrLLMCondition,
    ExpressionAvailableCondition as ExpressionAvailableCondition,
    ExpressionContextCondition as ExpressionContextCondition,
    LLMCondition as LLMCondition,
    StringAvailableCondition as StringAvailableCondition,
    StringContextCondition as StringContextCondition,
    StringLLMCondition as StringLLMCondition,
)
from .context_variables import ContextVariables as ContextVariables
from .conversable import (
    AssistantAgent as AssistantAgent,
    ConversableAgent as ConversableAgent,
    UserProxyAgent as UserProxyAgent,
)
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
    GroupChatResumeEvent as GroupChatResumeEvent,
    GroupChatRunChatEvent as GroupChatRunChatEvent,
    IOStream as IOStream,
    SelectSpeakerEvent as SelectSpeakerEvent,
    SelectSpeakerInvalidInputEvent as SelectSpeakerInvalidInputEvent,
    SelectSpeakerTryCountExceededEvent as SelectSpeakerTryCountExceededEvent,
    SpeakerAttemptEvent as SpeakerAttemptEvent,
    TerminationEvent as TerminationEvent,
    TextEvent as TextEvent,
)
from .group import AgentEligibilityPolicy as AgentEligibilityPolicy, SelectionContext as SelectionContext
from .group_chat import GroupChat as GroupChat
from .handoffs import (
    Handoffs as Handoffs,
    OnCondition as OnCondition,
    OnContextCondition as OnContextCondition,
    SpeakerSelectionResult as SpeakerSelectionResult,
    TransitionTarget as TransitionTarget,
    Whereabouts as Whereabouts,
)
from .manager import GroupChatManager as GroupChatManager
from .messages import Agent as Agent, ConversationMessage as ConversationMessage
from .model import (
    MessageHistoryLimiter as MessageHistoryLimiter,
    MessageTransform as MessageTransform,
    TransformMessages as TransformMessages,
)
from .peer import ChatResult as ChatResult
from .replies import UpdateSystemMessage as UpdateSystemMessage
from .selection import GroupChatTeam as GroupChatTeam

__all__: list[str]
