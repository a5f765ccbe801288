from .agent import Agent as Agent
from .context_variables import ContextVariables as ContextVariables
from .conversable import ConversableAgent as ConversableAgent
from .errors import (
    AgentNameConflictError as AgentNameConflictError,
    ClearHistoryError as ClearHistoryError,
    GroupChatDeclarationError as GroupChatDeclarationError,
    GroupChatError as GroupChatError,
    MessageError as MessageError,
    ModelClientClassError as ModelClientClassError,
    NoEligibleSpeakerError as NoEligibleSpeakerError,
    ResumeError as ResumeError,
    SpeakerSelectionError as SpeakerSelectionError,
    TransitionError as TransitionError,
    UndefinedNextAgentError as UndefinedNextAgentError,
)
from .events import (
    ChatEvent as ChatEvent,
    ClearAgentsHistoryEvent as ClearAgentsHistoryEvent,
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
from .manager import GroupChatManager as GroupChatManager
from .message import ConversationMessage as ConversationMessage
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

__all__: list[str]
