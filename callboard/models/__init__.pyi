from .base import (
    ChatCompletionClient as ChatCompletionClient,
    CreateOptions as CreateOptions,
    ModelRequest as ModelRequest,
)
from .budget import (
    Budget as Budget,
    MeteredChatCompletionClient as MeteredChatCompletionClient,
    UsageLedger as UsageLedger,
    usage_run as usage_run,
)
from .cache import CachedChatCompletionClient as CachedChatCompletionClient
from .errors import ModelError as ModelError
from .info import (
    ModelCapabilities as ModelCapabilities,
    ModelInfo as ModelInfo,
    ModelSettings as ModelSettings,
    Price as Price,
    validate_model_info as validate_model_info,
)
from .recorded import RecordedChatCompletionClient as RecordedChatCompletionClient
from .replay import (
    Delayed as Delayed,
    ReplayChatCompletionClient as ReplayChatCompletionClient,
    Streamed as Streamed,
)
from .retries import (
    ModelRetries as ModelRetries,
    RetryingChatCompletionClient as RetryingChatCompletionClient,
)
from .several import (
    FallbackChatCompletionClient as FallbackChatCompletionClient,
    RoutingChatCompletionClient as RoutingChatCompletionClient,
)
from .stores import LocalStore as LocalStore, RuntimeStore as RuntimeStore
from .types import (
    AssistantMessage as AssistantMessage,
    ChatCompletionTokenLogprob as ChatCompletionTokenLogprob,
    CreateResult as CreateResult,
    FinishReasons as FinishReasons,
    FunctionCall as FunctionCall,
    FunctionExecutionResult as FunctionExecutionResult,
    FunctionExecutionResultMessage as FunctionExecutionResultMessage,
    Image as Image,
    LLMMessage as LLMMessage,
    ModelFamily as ModelFamily,
    RequestUsage as RequestUsage,
    RunUsage as RunUsage,
    Spent as Spent,
    SystemMessage as SystemMessage,
    TopLogprob as TopLogprob,
    UsagePart as UsagePart,
    UserMessage as UserMessage,
    extract_json_from_str as extract_json_from_str,
)

__all__: list[str]
