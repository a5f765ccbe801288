from .assistants import (
    AssistantAgent as AssistantAgent,
    UpdateSystemMessage as UpdateSystemMessage,
    UserProxyAgent as UserProxyAgent,
    register_function as register_function,
)
from .chats import (
    ChatResult as ChatResult,
    a_initiate_chats as a_initiate_chats,
    initiate_chats as initiate_chats,
)
from .context_variables import ContextStr as ContextStr, ContextVariables as ContextVariables
from .conversable import ConversableAgent as ConversableAgent
from .errors import (
    AgentNameConflictError as AgentNameConflictError,
    GroupChatDeclarationError as GroupChatDeclarationError,
    GroupChatError as GroupChatError,
    NoEligibleSpeakerError as NoEligibleSpeakerError,
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
from .group_chat import GroupChat as GroupChat
from .manager import GroupChatManager as GroupChatManager
from .messages import Agent as Agent, ConversationMessage as ConversationMessage
from .model import (
    MessageHistoryLimiter as MessageHistoryLimiter,
    MessageTransform as MessageTransform,
    TransformMessages as TransformMessages,
)
from .selection import GroupChatTeam as GroupChatTeam
from .transitions import (
    AgentEligibilityPolicy as AgentEligibilityPolicy,
    SelectionContext as SelectionContext,
)

__all__: list[str]
