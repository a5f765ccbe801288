"""The client for OpenAI's chat API and servers that speak it: its config, its log, and what its requests use."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, TypeVar, Unpack, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, JsonValue, SecretStr

from callboard.core.cancellation import CancellationToken
from callboard.errors import SettingValueError
from callboard.foundation.addresses import has_to_be_public
from callboard.foundation.component import (
    Component,
    ComponentLoader,
    ComponentModel,
    ComponentNotAllowedError,
    NotDumpableError,
    dumped,
    harmless,
    permissions,
    revealed,
)
from callboard.logging import EVENT_LOGGER_NAME
from callboard.memory.cancelling import cancellable, cancellable_items
from callboard.memory.llm_messages import LLMMessage
from callboard.models.base import CreateOptions, ModelRequest, RequestClient, Tools
from callboard.models.errors import (
    BadResponseError,
)
from callboard.models.info import ModelCapabilities, ModelInfo
from callboard.models.types import CreateResult, ModelFamily, RequestUsage

from .answer import ServerAnswer, WireAnswer, WireError
from .asking import Asker, Tally, TokenCounter
from .chat_request import ChatRequest
from .connection import NO_KEY, OPENAI_ADDRESS, VENDORS, Session, connection_of
from .refusals import AcceptedArguments
from .settings import (
    OpenAIOptions,
    OpenAISettings,
    ToolMode,
    retries_of,
)

if TYPE_CHECKING:
    from openai import AsyncStream
    from openai.types.chat import ChatCompletionChunk

events: Final = logging.getLogger(EVENT_LOGGER_NAME)


# Objects of the program, which JSON does not have.
ONLY_HERE: Final = ("http_client", "retries", "tokenizer")


class OpenAIClientConfigurationConfigModel(BaseModel):
    """The options of an `OpenAIChatCompletionClient`, which explains them.

    Further arguments of the API, such as temperature, stand beside them. Keys, tokens and headers with a secret are in
    no dump. `model_capabilities` is read because older programs of AutoGen wrote it.
    """

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    __pydantic_extra__: dict[str, JsonValue]  # pyright: ignore[reportIncompatibleVariableOverride]
    secret_fields: ClassVar = ("api_key", "azure_ad_token")

    model: str
    api_key: SecretStr | None = None
    base_url: str | None = None
    organization: str | None = None
    timeout: float | None = None
    max_retries: int | None = None
    max_corrections: int | None = None
    default_headers: dict[str, str] | None = None
    model_info: ModelInfo | None = None
    model_capabilities: ModelCapabilities | None = None
    token_limit: int | None = None
    parallel_tool_calls: bool | None = None
    tool_mode: ToolMode | None = None
    include_name_in_message: bool | None = None
    add_name_prefixes: bool | None = None
    include_stream_usage: bool | None = None
    azure_endpoint: str | None = None
    azure_deployment: str | None = None
    api_version: str | None = None
    azure_ad_token: SecretStr | None = None
    azure_ad_token_provider: ComponentModel | None = None


class AzureOpenAIClientConfigurationConfigModel(OpenAIClientConfigurationConfigModel):
    """The same, by AutoGen's name for a deployment in Azure."""


def config_of(
    client: object, model: str, options: OpenAIOptions
) -> AzureOpenAIClientConfigurationConfigModel:
    """The options of a client as plain data, without its secrets.

    Args:
        client: The client, for errors.
        model: Its model.
        options: As it was made with.

    Raises:
        NotDumpableError: An option is an object of this program (a TypeError).
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    unwritable: list[str] = [name for name in ONLY_HERE if name in given]
    if isinstance(given.get("response_format"), type):
        unwritable.append("response_format")
    if unwritable:
        reason = (
            f"{', '.join(unwritable)} can't be written down: leave it out, or set it where the dump is loaded"
        )
        raise NotDumpableError(type(client).__qualname__, reason)
    for name in AzureOpenAIClientConfigurationConfigModel.secret_fields:
        given.pop(name, None)
    for name in ("default_headers", "extra_headers", "extra_query"):
        if name in given:
            given[name] = harmless(given[name])
    if "azure_ad_token_provider" in given:
        given["azure_ad_token_provider"] = dumped(given["azure_ad_token_provider"], client)
    return AzureOpenAIClientConfigurationConfigModel(model=model, **given)


def options_of(config: OpenAIClientConfigurationConfigModel) -> dict[str, Any]:
    """The arguments of the client that a config describes.

    Keys that it does not have come from the environment, but go only to OpenAI, the vendor of the model, the addresses
    that the environment names, and the `hosts` of `load_component`: a config from elsewhere could name any address.

    Raises:
        ComponentNotAllowedError: It is of a deployment in Azure that neither the environment nor `hosts` names.
    """
    given = {**config.model_dump(exclude_none=True), **(config.__pydantic_extra__ or {})}
    options = {name: value for name, value in given.items() if value is not None}
    for name in config.secret_fields:
        options.pop(name, None)
        if secret := revealed(getattr(config, name)):
            options[name] = secret
    if capabilities := options.pop("model_capabilities", None):
        options.setdefault("model_info", _info_of(capabilities))
    if config.azure_ad_token_provider is not None:
        provider = ComponentLoader.load_component(config.azure_ad_token_provider)
        options["azure_ad_token_provider"] = provider
    return _with_key(config.model, options)


def _info_of(capabilities: ModelCapabilities) -> ModelInfo:
    return cast(
        "ModelInfo",
        {"family": ModelFamily.UNKNOWN, "structured_output": False, **capabilities},
    )


def _with_key(model: str, options: dict[str, Any]) -> dict[str, Any]:
    endpoint, address = options.get("azure_endpoint"), options.get("base_url")
    if endpoint and not is_trusted(endpoint, os.environ.get("AZURE_OPENAI_ENDPOINT")):
        host = urlsplit(endpoint).hostname or endpoint
        raise ComponentNotAllowedError(f"sending the keys of this environment to {host}", "hosts", host)
    if not address or options.get("api_key"):
        return options
    vendor = next((there for prefix, (there, _) in VENDORS.items() if model.startswith(prefix)), None)
    if address == vendor:
        return {name: value for name, value in options.items() if name != "base_url"}
    if is_trusted(address, OPENAI_ADDRESS, os.environ.get("OPENAI_BASE_URL")):
        return options
    return {**options, "api_key": NO_KEY}


def names_stranger(config: OpenAIClientConfigurationConfigModel) -> bool:
    """Whether the server of a config may have public addresses only: neither the caller nor the environment names it.

    Raises:
        ComponentNotAllowedError: so it is, and its address is a private one (a ValueError).
    """
    address, vendors = config.base_url, [there for there, _ in VENDORS.values()]
    if not address or is_trusted(address, OPENAI_ADDRESS, os.environ.get("OPENAI_BASE_URL"), *vendors):
        return False
    return has_to_be_public(urlsplit(address).hostname or "")


def is_trusted(address: str, *known: str | None) -> bool:
    """Whether the caller of `load_component`, or one of these, names an address that a config has."""
    if address.rstrip("/") in {one.rstrip("/") for one in known if one}:
        return True
    return urlsplit(address).hostname in permissions().hosts


T = TypeVar("T")

EVENT_STREAM: Final = "text/event-stream"
TEMPLATE_TOKENS: Final = 32  # of a server's own words around a prompt: llama.cpp with Qwen adds about 20


class OpenAIChatCompletionClient(RequestClient, Component[OpenAIClientConfigurationConfigModel]):
    """A client for a model of OpenAI, Azure, or any server with OpenAI's chat API, such as vLLM, Ollama and llama.cpp.

    Names and behaviour are those of AutoGen's client. Ours differs where that one is broken or silent: an unknown
    argument is refused and not dropped, reasoning is cut out exactly, a stream that breaks off is an error, and every
    error is one of `callboard.models.errors`.

    A dump (`dump_component`) has no keys: where it is loaded, they come from the environment, and go only to servers that
    are trusted, see `config.options_of`.

    The package `openai` is loaded in a thread, with the first request. Requests are made again on rate limits,
    overload, timeouts and broken connections as `ModelRetries` has it; the retries of the openai package are off.

    Args:
        model: its name, at OpenAI, at another vendor or on the server.
        api_key: default: OPENAI_API_KEY; GEMINI_API_KEY and ANTHROPIC_API_KEY for models called gemini-... and
            claude-...; not needed with a base_url whose server asks for none. May be an async function.
        base_url: address of the API, mostly ending in /v1; default: OPENAI_BASE_URL, else the vendor's own.
        organization: sent along for OpenAI's billing.
        timeout: seconds without a byte from the server.
        max_retries: further attempts after the first; default: as `retries` or ModelSettings has it.
        retries: when and how requests are made again.
        max_corrections: how often a request is made again with what was wrong with its answer, see ModelSettings; default:
            as `retries` or ModelSettings has it.
        default_headers: sent with every request.
        http_client: an `httpx2.AsyncClient`, for proxies or certificates of one's own.
        model_info: the abilities of the model; needed for models that `callboard.models.info` does not know.
        token_limit: tokens of the model's context, for `remaining_tokens`; default: as `callboard.models.info` has it.
        tokenizer: makes counts of tokens exact; default: tiktoken's when its data are in its cache, else an estimate.
        parallel_tool_calls: whether one answer may have several calls; None: as the server has it.
        tool_mode: how tools are used. "native": the API's way. "lenient": calls that the model writes as JSON into
            its text count, too, and where model_info has no function_calling the tools are described in words.
            "schema": tools are described in words, and every answer is held to a JSON schema that is either a call or
            an answer; for models without tool support. Its streams have the text in one piece.
        include_name_in_message: whether the source of a message is sent as `name`.
        add_name_prefixes: whether texts of users begin with "<source> said:".
        include_stream_usage: whether streams ask for their usage; False for a server that refuses that.
        azure_endpoint: makes it a client of Azure; then `api_version` (or OPENAI_API_VERSION), and a key
            (AZURE_OPENAI_API_KEY), a token (AZURE_OPENAI_AD_TOKEN) or a provider of tokens are needed.
        azure_deployment: name of the deployment; default: the model.
        options: all of these, and any argument of the API, such as temperature, for every request.

    Raises:
        AuthenticationError: there is no key for a server that needs one.
        BadRequestError: an option or argument that there is not.
        SettingValueError: a value that can't work.
        ModelNotFoundError: nothing is known of the model, and there is no model_info.
    """

    component_config_schema = OpenAIClientConfigurationConfigModel
    component_provider_override = "callboard.models.openai.OpenAIChatCompletionClient"

    def __init__(self, model: str, **options: Unpack[OpenAIOptions]) -> None:
        self._options = options
        self._connection = connection_of(model, options)
        settings = OpenAISettings.of(model, options)
        self._settings = replace(settings, maker=f"{self._connection.base_url} {model}")
        self._retries = retries_of(options)
        self._counter = TokenCounter(self._settings, options.get("tokenizer"), options.get("token_limit"))
        self._session = Session(model, self._connection)
        self._accepted = AcceptedArguments(model, self._connection.base_url)
        self._asker = Asker(self._settings, self._retries, self._counter, self._ask, self._chunks)

    # Asking

    async def _create(self, request: ModelRequest) -> CreateResult:
        return await self._asker.create(request)

    async def _ask(self, chat: ChatRequest, tally: Tally) -> ServerAnswer | None:
        return await self._accepted.send(chat.arguments, partial(self._answer, tally))

    async def _answer(self, tally: Tally, arguments: Mapping[str, Any]) -> ServerAnswer | None:
        client = await self._session.opened()
        with tally.asking(arguments), self._session.typed_errors():
            response = await client.chat.completions.with_raw_response.create(**arguments)
            answer = tally.read(response.content)
            if isinstance(answer, WireError):
                raise self._session.reported(answer)
            return answer

    # Pyright takes CreateOptions for the type of any further keyword of the base's method.
    def create_stream(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        messages: Sequence[LLMMessage],
        *,
        include_usage: bool | None = None,
        **options: Unpack[CreateOptions],
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Ask the model for a stream, as every client does.

        Reasoning that the server sends apart from the text comes between `<think>` and `</think>`.

        Args:
            messages: the conversation.
            include_usage: whether to ask for the usage; None: as the client has it.
            **options: see CreateOptions.
        """
        return self._create_stream(ModelRequest(messages, **options), include_usage)

    async def _create_stream(
        self, request: ModelRequest, include_usage: bool | None = None
    ) -> AsyncGenerator[str | CreateResult, None]:
        async with aclosing(self._asker.create_stream(request, include_usage)) as items:
            async for item in items:
                yield item

    async def _chunks(
        self, arguments: Mapping[str, Any], tally: Tally, token: CancellationToken | None
    ) -> AsyncGenerator[WireAnswer, None]:
        stream = await cancellable(
            self._accepted.send(arguments, partial(self._ask_for_stream, tally)), token
        )
        try:
            items = cancellable_items(stream, token)
            with tally.asking(arguments):
                chunk = await self._next_chunk(items)
            while chunk is not None:
                yield chunk
                chunk = await self._next_chunk(items)
        finally:
            await stream.close()

    async def _ask_for_stream(
        self, tally: Tally, arguments: Mapping[str, Any]
    ) -> AsyncStream[ChatCompletionChunk]:
        client = await self._session.opened()
        with tally.asking(arguments), self._session.typed_errors():
            stream: AsyncStream[ChatCompletionChunk] = await client.chat.completions.create(**arguments)
        kind = stream.response.headers.get("content-type", EVENT_STREAM)
        if not kind.startswith(EVENT_STREAM):
            await stream.close()
            raise BadResponseError(self.model, f"{self._connection.base_url} sent {kind}, which is no stream")
        return stream

    async def _next_chunk(self, items: AsyncIterator[ChatCompletionChunk]) -> WireAnswer | None:
        with self._session.typed_errors():
            chunk: object = await anext(items, None)
            # The openai package validates nothing: a chunk may be any JSON value.
            plain = chunk.model_dump(warnings=False) if isinstance(chunk, BaseModel) else chunk
            return None if plain is None else WireAnswer.model_validate(plain)

    async def close(self) -> None:
        await self._session.close()

    # Counting

    def actual_usage(self) -> RequestUsage:
        return self._asker.usage

    def total_usage(self) -> RequestUsage:
        return self._asker.usage

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        """How many tokens a request has: exactly with a tokenizer, else an estimate, see `tokens.count_request`."""
        return self._counter.count(messages, tools)

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        """Tokens that the context has left beyond a request.

        Raises:
            BadRequestError: how long the model's context is, is not known.
        """
        return self._counter.remaining(messages, tools)

    # The model

    @property
    def model_info(self) -> ModelInfo:
        return self._settings.info

    @property
    def model(self) -> str:
        return self._settings.model

    @property
    def max_completion_tokens(self) -> int | None:
        arguments = self._settings.create_arguments
        limit: int | None = arguments.get("max_completion_tokens") or arguments.get("max_tokens")
        return limit

    @property
    def template_tokens(self) -> int:
        return TEMPLATE_TOKENS

    def most_answers(self, **options: Unpack[CreateOptions]) -> int:
        """One, and those that `max_corrections` allows: of a request for JSON, or with tools in lenient or schema mode."""
        request, settings = ModelRequest((), **options), self._settings
        formats = (request.json_output, request.extra_create_args.get("response_format"))
        wants_json = any(formats) or bool(settings.create_arguments.get("response_format"))
        can_object = wants_json or settings.tool_mode != "native"
        return 1 + self._retries.settings.max_corrections if can_object else 1

    def fingerprint(self) -> Mapping[str, Any]:
        settings = self._settings
        return {
            **super().fingerprint(),
            "address": self._connection.base_url,
            "tool_mode": settings.tool_mode,
            "parallel_tool_calls": settings.parallel_tool_calls,
            "names": (settings.include_name_in_message, settings.add_name_prefixes),
            # Headers may hold keys, and decide nothing.
            "arguments": {
                name: value for name, value in settings.create_arguments.items() if name != "extra_headers"
            },
        }

    def _to_config(self) -> OpenAIClientConfigurationConfigModel:
        return config_of(self, self.model, self._options)

    @classmethod
    def _from_config(cls, config: OpenAIClientConfigurationConfigModel) -> Self:
        made = cls(**options_of(config))
        if names_stranger(config):
            made._connection = replace(made._connection, public=True)
            made._session = Session(made.model, made._connection)
        return made

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self._connection.base_url!r})"


class AzureOpenAIChatCompletionClient(OpenAIChatCompletionClient):
    """AutoGen's name for an OpenAIChatCompletionClient with `azure_endpoint`.

    Args:
        model: the model of the deployment.
        options: see there; azure_endpoint may also be set by AZURE_OPENAI_ENDPOINT.

    Raises:
        SettingValueError: no endpoint.
    """

    component_config_schema = AzureOpenAIClientConfigurationConfigModel
    component_provider_override = "callboard.models.openai.AzureOpenAIChatCompletionClient"

    def __init__(self, model: str, **options: Unpack[OpenAIOptions]) -> None:
        endpoint = options.get("azure_endpoint") or os.environ.get("AZURE_OPENAI_ENDPOINT")
        if not endpoint:
            rule = 'given, such as "https://<resource>.openai.azure.com", or set by AZURE_OPENAI_ENDPOINT'
            raise SettingValueError("azure_endpoint", "None", rule)
        options["azure_endpoint"] = endpoint
        super().__init__(model, **options)
