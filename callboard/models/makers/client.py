"""The client for makers' own APIs: its options and config, and the way of its requests."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self, cast
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, JsonValue, SecretStr

from callboard.core.cancellation import CancellationToken
from callboard.foundation.component import (
    Component,
    ComponentNotAllowedError,
    NotDumpableError,
    harmless,
    permissions,
    revealed,
)
from callboard.memory.cancelling import cancellable, cancellable_items
from callboard.memory.llm_messages import LLMMessage
from callboard.models.base import ModelRequest, RequestClient, Tools
from callboard.models.errors import ModelConnectionError
from callboard.models.info import ModelCapabilities, ModelInfo, get_info, validate_model_info
from callboard.models.openai.answer import ServerAnswer, WireAnswer
from callboard.models.openai.asking import Asker, Tally, TokenCounter
from callboard.models.openai.chat_request import ChatRequest
from callboard.models.openai.settings import (
    REQUEST_TIMEOUT,
    OpenAIOptions,
    OpenAISettings,
    check_arguments,
    retries_of,
)
from callboard.models.sessions import LoopSession
from callboard.models.types import CreateResult, ModelFamily, RequestUsage

from .answers import ChunkWriter, answer_of
from .failures import typed_errors
from .maker import Maker, MakerConnection, OpenModel
from .streams import OpenStream
from .translation import MakerRequest

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponseStreamEvent

OPTIONS: Final = frozenset(
    {
        "api_key",
        "base_url",
        "timeout",
        "max_retries",
        "retries",
        "max_corrections",
        "default_headers",
        "http_client",
        "model_info",
        "token_limit",
        "tokenizer",
        "add_name_prefixes",
        "response_format",
    }
)
"""What every client of a maker takes, beside the arguments of its requests."""
ONLY_HERE: Final = ("http_client", "retries", "tokenizer")  # objects of the program, which JSON does not have


class MakerClientConfig(BaseModel):
    """The options of a client of a maker. Arguments of its requests stand beside them; keys are in no dump."""

    model_config = ConfigDict(extra="allow", protected_namespaces=())
    __pydantic_extra__: dict[str, JsonValue]  # pyright: ignore[reportIncompatibleVariableOverride]

    model: str
    api_key: SecretStr | None = None
    base_url: str | None = None
    timeout: float | None = None
    max_retries: int | None = None
    max_corrections: int | None = None
    default_headers: dict[str, str] | None = None
    model_info: ModelInfo | None = None
    model_capabilities: ModelCapabilities | None = None
    token_limit: int | None = None
    add_name_prefixes: bool | None = None


class MakerChatCompletionClient(RequestClient, Component[MakerClientConfig]):
    """What the clients of all makers have in common; each of them says which maker's it is.

    Args:
        model: its name, as the maker has it.
        api_key: default: as the maker's variable in the environment has it; not needed with a base_url of one's own.
        base_url: address of the API.
        timeout: seconds without a byte from the server.
        max_retries: further attempts after the first; default: as `retries` or ModelSettings has it.
        retries: when and how requests are made again.
        max_corrections: how often a request is made again with what was wrong with its answer, see ModelSettings.
        default_headers: sent with every request.
        http_client: an `httpx2.AsyncClient`, for proxies or certificates of one's own.
        model_info: the abilities of the model; needed for models that `callboard.models.info` does not know.
        token_limit: tokens of the model's context, for `remaining_tokens`.
        tokenizer: makes counts of tokens exact; default: an estimate.
        add_name_prefixes: whether texts of users begin with "<source> said:".
        response_format: the form of every answer, as in OpenAI's API.
        arguments: of every request, such as temperature: `extra_create_args` of one request has the same.

    Raises:
        AuthenticationError: there is no key.
        BadRequestError: an option or argument that there is not.
        MissingPackageError: the extra is not installed.
        SettingValueError: a value that can't work.
        ModelNotFoundError: nothing is known of the model, and there is no model_info.
    """

    maker: ClassVar[Maker]
    component_config_schema = MakerClientConfig

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float | None = None,
        **options: Any,
    ) -> None:
        maker = self.maker
        given = {name: value for name, value in options.items() if value is not None}
        check_arguments(model, given, OPTIONS | maker.settings.keys() | maker.more)
        self._options = {**given, "api_key": api_key, "base_url": base_url, "timeout": timeout}
        address = maker.address_of(base_url)
        self._connection = MakerConnection(
            maker=maker,
            model=model,
            base_url=address,
            api_key=maker.key_of(model, api_key, address),
            timeout=REQUEST_TIMEOUT if timeout is None else timeout,
            default_headers=given.get("default_headers") or {},
            http_client=given.get("http_client"),
            more={name: given[name] for name in maker.more if name in given},
        )
        self._info: ModelInfo = given.get("model_info") or _known(model)
        validate_model_info(self._info)
        self._arguments = {
            name: value
            for name, value in given.items()
            if name in maker.settings or name == "response_format"
        }
        self._settings = self._settings_for(model, address)
        self._counter = TokenCounter(self._settings, given.get("tokenizer"), given.get("token_limit"))
        self._retries = retries_of(cast("OpenAIOptions", given))
        self._session: LoopSession[OpenModel] = LoopSession(model, self._connection)
        self._asker = Asker(self._settings, self._retries, self._counter, self._ask, self._chunks)

    def _settings_for(self, model: str, address: str) -> OpenAISettings:
        return OpenAISettings(
            model=model,
            # Makers take instructions at the start only; what comes later is part of a user's message.
            info={**self._info, "multiple_system_messages": False},
            include_name_in_message=False,
            add_name_prefixes=bool(self._options.get("add_name_prefixes")),
            include_stream_usage=False,
            marks_errors=True,
            create_arguments=self._arguments,
            request_arguments=frozenset({*self.maker.settings, "response_format"}),
            maker=f"{address} {model}",
        )

    # Asking

    async def _create(self, request: ModelRequest) -> CreateResult:
        return await self._asker.create(request)

    async def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]:
        async with aclosing(self._asker.create_stream(request)) as items:
            async for item in items:
                yield item

    async def _ask(self, chat: ChatRequest, tally: Tally) -> ServerAnswer | None:
        opened = await self._session.opened()
        asked = MakerRequest.of(chat.arguments, self.maker, opened.model)
        with tally.asking(chat.arguments), typed_errors(self._connection):
            response = await opened.model.request(asked.messages, asked.settings, asked.parameters)
            answer = answer_of(response)
        tally.add(answer)
        if answer.finish is None:
            # What may become long is streamed behind the scenes.
            raise ModelConnectionError(self.model, "the answer ended before it was complete")
        return answer

    async def _chunks(
        self, arguments: Mapping[str, Any], tally: Tally, token: CancellationToken | None
    ) -> AsyncGenerator[WireAnswer, None]:
        opened = await self._session.opened()
        asked = MakerRequest.of(arguments, self.maker, opened.model)
        stream = OpenStream(opened.model.request_stream(asked.messages, asked.settings, asked.parameters))
        with tally.asking(arguments), typed_errors(self._connection):
            response = await cancellable(stream.open(), token)
        try:
            writer, events = ChunkWriter(), cancellable_items(aiter(response), token)
            with tally.asking(arguments):
                event = await self._next(events)
            while event is not None:
                for chunk in writer.chunks(event, response.usage):
                    yield chunk
                event = await self._next(events)
            yield writer.last(response.get())
        finally:
            await stream.close()

    async def _next(self, events: AsyncIterator[ModelResponseStreamEvent]) -> ModelResponseStreamEvent | None:
        with typed_errors(self._connection):
            return await anext(events, None)

    async def close(self) -> None:
        await self._session.close()

    # Counting

    def actual_usage(self) -> RequestUsage:
        return self._asker.usage

    def total_usage(self) -> RequestUsage:
        return self._asker.usage

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        """How many tokens a request has: exactly with a tokenizer, else an estimate."""
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
        return self._info

    @property
    def model(self) -> str:
        return self._settings.model

    @property
    def max_completion_tokens(self) -> int | None:
        limit: int | None = self._arguments.get("max_completion_tokens") or self._arguments.get("max_tokens")
        return limit

    def most_answers(self, **options: Any) -> int:
        """One, and those that `max_corrections` allows of a request for JSON."""
        request = ModelRequest((), **options)
        formats = (request.json_output, request.extra_create_args.get("response_format"))
        wants_json = any(formats) or bool(self._arguments.get("response_format"))
        return 1 + self._retries.settings.max_corrections if wants_json else 1

    def fingerprint(self) -> Mapping[str, Any]:
        # Headers may hold keys, and decide nothing.
        arguments = {name: value for name, value in self._arguments.items() if name != "extra_headers"}
        return {
            **super().fingerprint(),
            "address": self._connection.base_url,
            "names": self._settings.add_name_prefixes,
            "arguments": arguments,
        }

    def _to_config(self) -> MakerClientConfig:
        given = {name: value for name, value in self._options.items() if value is not None}
        unwritable: list[str] = [name for name in ONLY_HERE if name in given]
        if isinstance(given.get("response_format"), type):
            unwritable.append("response_format")
        if unwritable:
            reason = f"{', '.join(unwritable)} can't be written down: leave it out, or set it where the dump is loaded"
            raise NotDumpableError(type(self).__qualname__, reason)
        for name in ("api_key", *self.maker.secrets):
            given.pop(name, None)
        for name in ("default_headers", "extra_headers"):
            if name in given:
                given[name] = harmless(given[name])
        return MakerClientConfig(model=self.model, **given)

    @classmethod
    def _from_config(cls, config: MakerClientConfig) -> Self:
        given = {**config.model_dump(exclude_none=True), **(config.__pydantic_extra__ or {})}
        given.pop("api_key", None)
        if key := revealed(config.api_key):
            given["api_key"] = key
        if capabilities := given.pop("model_capabilities", None):
            info = {"family": ModelFamily.UNKNOWN, "structured_output": False, **capabilities}
            given.setdefault("model_info", info)
        cls._refuse_stranger(config.base_url)
        return cls(**given)

    @classmethod
    def _refuse_stranger(cls, address: str | None) -> None:
        """Refuse an address that neither the environment nor who loads the config names: our keys would go there.

        Raises:
            ComponentNotAllowedError: so it is (a ValueError).
        """
        maker = cls.maker
        known = {maker.address, os.environ.get(maker.address_variable or "", "")}
        if address is None or address.rstrip("/") in {one.rstrip("/") for one in known}:
            return
        host = urlsplit(address).hostname or address
        # guard: a config from elsewhere sends neither keys nor conversations to an address of its own
        if host not in permissions().hosts:
            raise ComponentNotAllowedError(f"sending requests to {host}", "hosts", host)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r}, base_url={self._connection.base_url!r})"


def _known(model: str) -> ModelInfo:
    """The abilities of a well-known model. Where its API has no JSON, that is told in words, and the answer checked."""
    return {**get_info(model), "json_output": True, "structured_output": True}
