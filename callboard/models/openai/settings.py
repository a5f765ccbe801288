"""Options of a client, checked once, and counts of tokens.

The sizes around a text are those of OpenAI's cookbook on counting tokens.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol, TypeAlias, TypedDict

from pydantic import BaseModel

from callboard.errors import SettingValueError, did_you_mean
from callboard.models.errors import BadRequestError
from callboard.models.info import ModelInfo, get_info, validate_model_info
from callboard.models.retries import ModelRetries
from callboard.models.types import ModelFamily

TOKENS_PER_MESSAGE: Final = 3  # role and separators
TOKENS_FOR_REPLY: Final = 3  # every answer begins with them
TOKENS_PER_TOOL: Final = 8  # around the schema of a tool
TOKENS_PER_IMAGE: Final = 765  # 1024 x 1024 pixels in high detail: 85, and 170 for each of 4 tiles

# Tokens of a text are estimated from the lengths of its parts.
LETTERS_PER_TOKEN: Final = 7
DIGITS_PER_TOKEN: Final = 3
SIGNS_PER_TOKEN: Final = 3
FIRST_BROAD: Final = "\u0800"  # from here on a character is about a token, before it half of one
PARTS: Final = re.compile(r"[A-Za-z]+|[0-9]+|[^\x00-\x7f]|\n+|[ \t]{2,}|[!-/:-@\[-`{-~]+")

# Files in tiktoken's cache are named by the SHA-1 of the address that they come from.
CACHED_AS: Final = {
    "o200k_base": "fb374d419588a4632f3f557e76b4b70aebbca790",
    "cl100k_base": "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
}
CACHE_FOLDERS: Final = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")  # environment variables


class Tokenizer(Protocol):
    """A tokenizer, which makes counts exact: an Encoding of tiktoken, a Tokenizer of tokenizers, or anything like them."""

    def encode(self, text: str, /) -> Sized:
        """The tokens of a text."""
        ...


def cached_tokenizer(family: str) -> Tokenizer | None:
    """The tokenizer of tiktoken for a family of OpenAI's; None: not installed, or its data would be downloaded."""
    if not ModelFamily.is_openai(family) or importlib.util.find_spec("tiktoken") is None:
        return None
    name = "cl100k_base" if family in (ModelFamily.GPT_4, ModelFamily.GPT_35) else "o200k_base"
    if not (_cache_folder() / CACHED_AS[name]).is_file():
        return None
    # Not an import statement: tiktoken is optional, and type checkers may not find it.
    tokenizer: Tokenizer = importlib.import_module("tiktoken").get_encoding(name)
    return tokenizer


def _cache_folder() -> Path:
    for variable in CACHE_FOLDERS:
        if variable in os.environ:
            return Path(os.environ[variable])
    return Path(tempfile.gettempdir(), "data-gym-cache")


def count_request(
    messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]], tokenizer: Tokenizer | None
) -> int:
    """Tokens of a request.

    Args:
        messages: as they go over the wire.
        tools: their schemas.
        tokenizer: None: an estimate, about a tenth off for English prose and for code, more for other languages.
    """
    count = sum(_of_message(message, tokenizer) + TOKENS_PER_MESSAGE for message in messages)
    count += sum(count_text(json.dumps(tool), tokenizer) + TOKENS_PER_TOOL for tool in tools)
    return count + TOKENS_FOR_REPLY


def _of_message(message: Mapping[str, Any], tokenizer: Tokenizer | None) -> int:
    content = message.get("content") or ""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
    count = 0
    for part in parts:
        count += count_text(part["text"], tokenizer) if part["type"] == "text" else TOKENS_PER_IMAGE
    if "name" in message:
        count += count_text(message["name"], tokenizer)
    for call in message.get("tool_calls", ()):
        count += count_text(json.dumps(call["function"]), tokenizer) + TOKENS_PER_MESSAGE
    return count


def count_text(text: str, tokenizer: Tokenizer | None) -> int:
    """Tokens of a text."""
    if tokenizer is None:
        return math.ceil(sum(_estimate(part[0]) for part in PARTS.finditer(text)))
    # tiktoken's `encode` refuses texts that contain its special tokens.
    encode = getattr(tokenizer, "encode_ordinary", tokenizer.encode)
    return len(encode(text))


def _estimate(part: str) -> float:
    first = part[0]
    if not first.isascii():
        return 1.0 if first >= FIRST_BROAD else 0.5
    if first.isspace():
        return 1.0
    per_token = LETTERS_PER_TOKEN if first.isalpha() else SIGNS_PER_TOKEN
    return math.ceil(len(part) / (DIGITS_PER_TOKEN if first.isdigit() else per_token))


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
REQUEST_ARGUMENTS: Final = CREATE_ARGUMENTS | {"parallel_tool_calls", "timeout"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAISettings:
    """The settings by which requests are made and answers read.

    Attributes:
        info: the abilities of the model.
        create_arguments: arguments of the API for every request.
        request_arguments: names that extra_create_args of one request may have.
        marks_errors: whether a tool's message says that the tool failed, which OpenAI's API has no field for.
        maker: address and model, to which goes back what they put beside their answers.
    """

    model: str
    info: ModelInfo
    parallel_tool_calls: bool | None = None
    tool_mode: ToolMode = "native"
    include_name_in_message: bool = True
    add_name_prefixes: bool = False
    include_stream_usage: bool = True
    create_arguments: Mapping[str, Any] = field(default_factory=dict)
    request_arguments: frozenset[str] = REQUEST_ARGUMENTS
    marks_errors: bool = False
    maker: str = ""

    @classmethod
    def of(cls, model: str, options: OpenAIOptions) -> OpenAISettings:
        """The settings in the options of a client.

        Raises:
            BadRequestError: there is no such option or argument.
            SettingValueError: a value that can't work.
            ModelNotFoundError: nothing is known of the model, and there is no model_info.
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
        refuse_audio(model, arguments)
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


def refuse_audio(model: str, arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that ask for speech, which messages between agents do not carry.

    Raises:
        BadRequestError: one of them.
    """
    if arguments.get("audio") is not None or "audio" in (arguments.get("modalities") or ()):
        raise BadRequestError(
            model, "messages carry no speech: leave audio and modalities out, then the answer is a text"
        )
