"""The interface of model clients, one request as a value, and the base of clients that pass requests on."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import TracebackType
from typing import Any, ClassVar, Literal, Protocol, Self, TypeAlias, TypedDict, Unpack, runtime_checkable

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from callboard.core.cancellation import CancellationToken
from callboard.foundation.component import ComponentBase
from callboard.memory.llm_messages import LLMMessage

from .info import ModelInfo
from .types import CreateResult, RequestUsage


@runtime_checkable
class ToolLike(Protocol):
    """A tool, as far as a model client needs it; every tool of `callboard.tools` is one."""

    @property
    def name(self) -> str:
        """Its name for the model."""
        ...

    @property
    def schema(self) -> Mapping[str, Any]:
        """Its ToolSchema: name, description, parameters as JSON schema, strict."""
        ...


Tools: TypeAlias = Sequence[ToolLike | Mapping[str, Any]]
"""Tools, or their ToolSchemas."""

ToolChoice: TypeAlias = ToolLike | Literal["auto", "required", "none"]
JsonOutput: TypeAlias = bool | type[BaseModel] | None


class CreateOptions(TypedDict, total=False):
    """The keyword arguments of `create` and `create_stream`, for every client; `ModelRequest` has their defaults.

    Keys:
        tools: tools that the model may call, or their ToolSchemas.
        tool_choice: "auto", "required" (some tool), "none", or the one tool that it has to call.
        json_output: True: the answer is a JSON object; a pydantic model: it is an object of that class;
            False: it is text; None: as the client was set up.
        extra_create_args: further arguments for the API; they win over those of the client.
        cancellation_token: ends the request when it is cancelled.
    """

    tools: Tools
    tool_choice: ToolChoice
    json_output: JsonOutput
    extra_create_args: Mapping[str, Any]
    cancellation_token: CancellationToken | None


class ChatCompletionClient(ComponentBase[BaseModel], ABC):
    """A client of a model behind some API.

    Every error is one of `callboard.models.errors`, or asyncio.CancelledError when the token was cancelled.
    """

    component_type = "model"

    @abstractmethod
    async def create(self, messages: Sequence[LLMMessage], **options: Unpack[CreateOptions]) -> CreateResult:
        """Ask the model once.

        Args:
            messages: the conversation, oldest first.
            **options: see CreateOptions.

        Raises:
            ModelError: one of its subclasses.
        """

    @abstractmethod
    def create_stream(
        self, messages: Sequence[LLMMessage], **options: Unpack[CreateOptions]
    ) -> AsyncGenerator[str | CreateResult, None]:
        """Ask the model and get its text piece by piece; the last item is the whole CreateResult.

        The arguments and errors are those of `create`.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close connections. The client can't be used afterwards."""

    @abstractmethod
    def actual_usage(self) -> RequestUsage:
        """Tokens that were paid for: answers from a cache are not among them."""

    @abstractmethod
    def total_usage(self) -> RequestUsage:
        """Tokens of all answers, cached ones included."""

    @abstractmethod
    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        """About how many tokens a request has."""

    @abstractmethod
    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        """About how many tokens the model's context has left beyond a request. Negative: it does not fit."""

    @property
    @abstractmethod
    def model_info(self) -> ModelInfo:
        """The abilities of the model."""

    @property
    def model(self) -> str:
        """Name of the model, as prices, errors and usage name it."""
        return self.model_info["family"]

    @property
    def max_completion_tokens(self) -> int | None:
        """Tokens that an answer may have as this client was set up; None: only the model's own limit."""
        return None

    meters_itself: ClassVar[bool] = False
    """Whether it meters in a run whatever it asks, so that nothing around it has to."""

    @property
    def template_tokens(self) -> int:
        """Tokens that a server's template may add to a prompt beyond those that are counted, as long as no answer tells."""
        return 0

    def most_answers(self, **options: Unpack[CreateOptions]) -> int:
        """How many answers one request may make it ask for, one after the other, when those before can't be used."""
        return 1

    def fingerprint(self) -> Mapping[str, Any]:
        """All that decides the answer besides the request: class, model, address, create arguments.

        A part of every cache key, so plain data and no secrets.
        """
        return {"client": type(self).__qualname__, "model": self.model}

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()


@dataclass(frozen=True)
class ModelRequest:
    """A request to a model: the messages, and the options that CreateOptions explains."""

    messages: Sequence[LLMMessage]
    tools: Tools = ()
    tool_choice: ToolChoice = "auto"
    json_output: JsonOutput = None
    extra_create_args: Mapping[str, Any] = field(default_factory=dict)
    cancellation_token: CancellationToken | None = field(default=None, compare=False)

    async def create(self, client: ChatCompletionClient) -> CreateResult:
        """The answer of a client."""
        return await client.create(self.messages, **self.options)

    def create_stream(self, client: ChatCompletionClient) -> AsyncGenerator[str | CreateResult, None]:
        """The stream of a client."""
        return client.create_stream(self.messages, **self.options)

    @property
    def options(self) -> CreateOptions:
        """The keyword arguments of the request."""
        given: Any = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        del given["messages"]
        options: CreateOptions = given
        return options

    def digest(self, client: ChatCompletionClient) -> str:
        """64 hexadecimal digits that are the same for the same request to the same model, in every process."""
        described = {
            "client": client.fingerprint(),
            "messages": list(self.messages),
            "tools": [tool if isinstance(tool, Mapping) else tool.schema for tool in self.tools],
            "tool_choice": self.tool_choice if isinstance(self.tool_choice, str) else self.tool_choice.name,
            "json_output": self.json_output,
            "extra": self.extra_create_args,
        }
        plain = to_jsonable_python(described, fallback=_shown)
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _shown(value: Any) -> Any:
    """Plain data for a value that JSON does not have: for a class its name and its schema."""
    schema = getattr(value, "model_json_schema", None)
    if isinstance(value, type):
        name = f"{value.__module__}.{value.__qualname__}"
        return [name, schema()] if schema is not None else name
    return repr(value)


class RequestClient(ChatCompletionClient):
    """A client that works on ModelRequests: a subclass adds `_create` and `_create_stream`."""

    async def create(self, messages: Sequence[LLMMessage], **options: Unpack[CreateOptions]) -> CreateResult:
        return await self._create(ModelRequest(messages, **options))

    def create_stream(
        self, messages: Sequence[LLMMessage], **options: Unpack[CreateOptions]
    ) -> AsyncGenerator[str | CreateResult, None]:
        return self._create_stream(ModelRequest(messages, **options))

    @abstractmethod
    async def _create(self, request: ModelRequest) -> CreateResult: ...

    @abstractmethod
    def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]: ...


class WrappedChatCompletionClient(RequestClient):
    """A client around another: everything that a subclass does not change is the inner client's.

    Attributes:
        client: the inner one.
    """

    def __init__(self, client: ChatCompletionClient) -> None:
        self.client = client

    async def close(self) -> None:
        await self.client.close()

    def actual_usage(self) -> RequestUsage:
        return self.client.actual_usage()

    def total_usage(self) -> RequestUsage:
        return self.client.total_usage()

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        return self.client.count_tokens(messages, tools=tools)

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        return self.client.remaining_tokens(messages, tools=tools)

    @property
    def model_info(self) -> ModelInfo:
        return self.client.model_info

    @property
    def model(self) -> str:
        return self.client.model

    @property
    def max_completion_tokens(self) -> int | None:
        return self.client.max_completion_tokens

    @property
    def template_tokens(self) -> int:
        return self.client.template_tokens

    def most_answers(self, **options: Unpack[CreateOptions]) -> int:
        return self.client.most_answers(**options)

    def fingerprint(self) -> Mapping[str, Any]:
        return self.client.fingerprint()
