from .chat_managers import (
    ChatManagerProtocol as ChatManagerProtocol,
    HandoffChatManager as HandoffChatManager,
    ManualChatManager as ManualChatManager,
    RandomChatManager as RandomChatManager,
    RoundRobinChatManager as RoundRobinChatManager,
    SelectorChatManager as SelectorChatManager,
)
from .console import ConsoleProcessor as ConsoleProcessor
from .events import (
    AgentMessageEvent as AgentMessageEvent,
    AnyEvent as AnyEvent,
    AsyncEventProcessorProtocol as AsyncEventProcessorProtocol,
    AsyncInputRequestEvent as AsyncInputRequestEvent,
    CompletedEvent as CompletedEvent,
    ErrorEvent as ErrorEvent,
    Event as Event,
    EventProcessorProtocol as EventProcessorProtocol,
    EventType as EventType,
    HandoffEvent as HandoffEvent,
    InputRequestEvent as InputRequestEvent,
    InputResponseEvent as InputResponseEvent,
    InterruptedEvent as InterruptedEvent,
    Message as Message,
    OutputEvent as OutputEvent,
    SpeakerSelectedEvent as SpeakerSelectedEvent,
    StreamEvent as StreamEvent,
    SystemEvent as SystemEvent,
    ToolCallEvent as ToolCallEvent,
    ToolResultEvent as ToolResultEvent,
    UsageEvent as UsageEvent,
    is_agent_message as is_agent_message,
    is_async_input_request as is_async_input_request,
    is_completed as is_completed,
    is_error as is_error,
    is_handoff as is_handoff,
    is_input_request as is_input_request,
    is_input_response as is_input_response,
    is_interrupted as is_interrupted,
    is_output as is_output,
    is_speaker_selected as is_speaker_selected,
    is_stream as is_stream,
    is_system_event as is_system_event,
    is_tool_call as is_tool_call,
    is_tool_result as is_tool_result,
    is_usage as is_usage,
    load_event as load_event,
)
from .launch import (
    RunUnknownError as RunUnknownError,
    a_attach as a_attach,
    a_run as a_run,
    attach as attach,
    run as run,
)
from .local import RunCancelledError as RunCancelledError, ask_user as ask_user
from .projection import SoFar as SoFar, context_variables as context_variables
from .response import (
    AsyncRunResponse as AsyncRunResponse,
    AsyncRunResponseProtocol as AsyncRunResponseProtocol,
    RunResponse as RunResponse,
    RunResponseProtocol as RunResponseProtocol,
    RunState as RunState,
    a_process_run_response as a_process_run_response,
    process_run_response as process_run_response,
)
from .team import run_team as run_team

__all__: list[str]
