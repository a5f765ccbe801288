from .base import ChatCompletionClient as ChatCompletionClient, CreateOptions as CreateOptions
from .budget import Budget as Budget, MeteredChatCompletionClient as MeteredChatCompletionClient
from .cache import CachedChatCompletionClient as CachedChatCompletionClient
from .errors import ModelError as ModelError
from .family import ModelFamily as ModelFamily
from .info import (
    ModelCapabilities as ModelCapabilities,
    ModelInfo as ModelInfo,
    Price as Price,
    validate_model_info as validate_model_info,
)
from .json_text import extract_json_from_str as extract_json_from_str
from .messages import (
    AssistantMessage as AssistantMessage,
    FunctionCall as FunctionCall,
    FunctionExecutionResult as FunctionExecutionResult,
    FunctionExecutionResultMessage as FunctionExecutionResultMessage,
    Image as Image,
    LLMMessage as LLMMessage,
    SystemMessage as SystemMessage,
    UserMessage as UserMessage,
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
from .run_usage import RunUsage as RunUsage, UsagePart as UsagePart
from .settings import ModelSettings as ModelSettings
from .stores import InMemoryStore as InMemoryStore, RuntimeStore as RuntimeStore
from .types import (
    ChatCompletionTokenLogprob as ChatCompletionTokenLogprob,
    CreateResult as CreateResult,
    FinishReasons as FinishReasons,
    RequestUsage as RequestUsage,
    TopLogprob as TopLogprob,
)
from .usage import Spent as Spent, UsageLedger as UsageLedger, usage_run as usage_run

__all__: list[str]
