from .base import (
    BaseAgentEvent as BaseAgentEvent,
    BaseChatMessage as BaseChatMessage,
    BaseMessage as BaseMessage,
    BaseTextChatMessage as BaseTextChatMessage,
)
from .chat import (
    HandoffMessage as HandoffMessage,
    MultiModalMessage as MultiModalMessage,
    StopMessage as StopMessage,
    TextMessage as TextMessage,
    ToolCallSummaryMessage as ToolCallSummaryMessage,
)
from .errors import (
    MessageError as MessageError,
    MessageTypeError as MessageTypeError,
    UnknownMessageTypeError as UnknownMessageTypeError,
)
from .events import (
    AttemptEndedEvent as AttemptEndedEvent,
    CodeExecutionEvent as CodeExecutionEvent,
    CodeGenerationEvent as CodeGenerationEvent,
    HandoffChangeEvent as HandoffChangeEvent,
    InputAnsweredEvent as InputAnsweredEvent,
    InputRequestedEvent as InputRequestedEvent,
    MemoryQueryEvent as MemoryQueryEvent,
    ModelClientStreamingChunkEvent as ModelClientStreamingChunkEvent,
    SelectorEvent as SelectorEvent,
    SelectSpeakerEvent as SelectSpeakerEvent,
    ThoughtEvent as ThoughtEvent,
    ToolCallExecutionEvent as ToolCallExecutionEvent,
    ToolCallRequestEvent as ToolCallRequestEvent,
    UserInputRequestedEvent as UserInputRequestedEvent,
)
from .factory import MessageFactory as MessageFactory
from .structured import (
    StructuredContentType as StructuredContentType,
    StructuredMessage as StructuredMessage,
)
from .structured_factory import (
    StructuredMessageConfig as StructuredMessageConfig,
    StructuredMessageFactory as StructuredMessageFactory,
)
from .unions import AgentEvent as AgentEvent, AnyMessage as AnyMessage, ChatMessage as ChatMessage

__all__: list[str]
