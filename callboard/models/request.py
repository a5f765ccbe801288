"""One request to a model as a value, and the base of clients that pass requests on."""

from __future__ import annotations

import hashlib
import json
from abc import abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Unpack

from pydantic_core import to_jsonable_python

from callboard.cancellation import CancellationToken
from callboard.memory.llm_messages import LLMMessage

from .base import ChatCompletionClient, CreateOptions, JsonOutput, ToolChoice, Tools
from .info import ModelInfo
from .types import CreateResult, RequestUsage


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

    def most_answers(self, **options: Unpack[CreateOptions]) -> int:
        return self.client.most_answers(**options)

    def fingerprint(self) -> Mapping[str, Any]:
        return self.client.fingerprint()
