"""The options of a client, checked once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal, TypeAlias, TypedDict

from pydantic import BaseModel

from callboard.errors import SettingValueError, did_you_mean
from callboard.models.errors import BadRequestError
from callboard.models.info import ModelInfo, get_info, validate_model_info
from callboard.models.retries import ModelRetries

from .tokens import Tokenizer

ToolMode: TypeAlias = Literal["native", "lenient", "schema"]
ApiKey: TypeAlias = str | Callable[[], Awaitable[str]]
TokenProvider: TypeAlias = Callable[[], str] | Callable[[], Awaitable[str]]

TOOL_MODES: Final = ("native", "lenient", "schema")
REQUEST_TIMEOUT: Final = 600.0  # seconds without a byte from the server; the default of the openai package


class CreateArguments(TypedDict, total=False):
    """Arguments of the API for every request of a client; OpenAI's reference says what they mean.

    Arguments that only another server knows go into `extra_body`.
    """

    audio: Mapping[str, Any]
    extra_body: Mapping[str, Any]
    extra_headers: Mapping[str, str]
    extra_query: Mapping[str, Any]
    frequency_penalty: float
    logit_bias: Mapping[str, int]
    logprobs: bool
    max_completion_tokens: int
    max_tokens: int
    metadata: Mapping[str, str]
    modalities: Iterable[str]
    prediction: Mapping[str, Any]
    presence_penalty: float
    prompt_cache_key: str
    reasoning_effort: str
    response_format: type[BaseModel] | Mapping[str, Any]
    safety_identifier: str
    seed: int
    service_tier: str
    stop: str | list[str]
    store: bool
    stream_options: Mapping[str, Any]
    temperature: float
    top_logprobs: int
    top_p: float
    user: str
    verbosity: str
    web_search_options: Mapping[str, Any]


class OpenAIOptions(CreateArguments, total=False):
    """The options of an `OpenAIChatCompletionClient`, which explains them."""

    api_key: ApiKey | None
    base_url: str | None
    organization: str | None
    timeout: float
    max_retries: int
    retries: ModelRetries
    max_corrections: int
    default_headers: Mapping[str, str]
    http_client: Any
    model_info: ModelInfo | None
    token_limit: int | None
    tokenizer: Tokenizer | None
    parallel_tool_calls: bool | None
    tool_mode: ToolMode
    include_name_in_message: bool
    add_name_prefixes: bool
    include_stream_usage: bool
    azure_endpoint: str | None
    azure_deployment: str | None
    api_version: str | None
    azure_ad_token: str | None
    azure_ad_token_provider: TokenProvider | None


CREATE_ARGUMENTS: Final = frozenset(CreateArguments.__annotations__)
# Names that extra_create_args of one request may have.
REQUEST_ARGUMENTS: Final = CREATE_ARGUMENTS | {"parallel_tool_calls", "timeout"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings:
    """The settings by which requests are made and answers read.

    Attributes:
        info: the abilities of the model.
        create_arguments: arguments of the API for every request.
    """

    model: str
    info: ModelInfo
    parallel_tool_calls: bool | None = None
    tool_mode: ToolMode = "native"
    include_name_in_message: bool = True
    add_name_prefixes: bool = False
    include_stream_usage: bool = True
    create_arguments: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model: str, options: OpenAIOptions) -> OpenAISettings:
        """The settings in the options of a client.

        Raises:
            BadRequestError: there is no such option or argument.
            SettingValueError: a value that can't work.
            UnknownModelError: nothing is known of the model, and there is no model_info.
            ValueError: the model_info is not complete.
        """
        check_arguments(model, options, OpenAIOptions.__annotations__)
        info = options.get("model_info") or get_info(model)
        validate_model_info(info)
        mode = options.get("tool_mode", "native")
        if mode not in TOOL_MODES:
            raise SettingValueError("tool_mode", repr(mode), f"one of {', '.join(TOOL_MODES)}")
        own = {spec.name for spec in fields(cls)}
        given: dict[str, Any] = {name: value for name, value in options.items() if name in own}
        arguments = {name: value for name, value in options.items() if name in CREATE_ARGUMENTS}
        return cls(model=model, info=info, create_arguments=arguments, **given)

    @property
    def tells_tools_in_text(self) -> bool:
        """Whether tools are described to the model in words, because its server takes none."""
        if self.tool_mode == "lenient":
            return not self.info["function_calling"]
        return self.tool_mode == "schema"


def retries_of(options: OpenAIOptions) -> ModelRetries:
    """The rule by which requests are made again: as `retries` says, with the numbers that are given beside it.

    Raises:
        SettingValueError: one of them is negative.
    """
    retries = options.get("retries") or ModelRetries()
    settings = retries.settings
    further, corrections = options.get("max_retries"), options.get("max_corrections")
    for name, number in (("max_retries", further), ("max_corrections", corrections)):
        if number is not None and number < 0:
            raise SettingValueError(name, repr(number), "0 or more")
    if further is not None:
        settings = replace(settings, max_attempts=further + 1)
    if corrections is not None:
        settings = replace(settings, max_corrections=corrections)
    return replace(retries, settings=settings)


def check_arguments(model: str, arguments: Iterable[str], known: Iterable[str]) -> None:
    """Refuse arguments that the API does not have, before a request is made.

    Raises:
        BadRequestError: one of them.
    """
    names = set(known)
    for name in arguments:
        if name not in names:
            reason = f"there is no argument {name!r}. {did_you_mean(name, names)}"
            hint = "What only your server knows goes into extra_body"
            raise BadRequestError(model, f"{reason} {hint}")
