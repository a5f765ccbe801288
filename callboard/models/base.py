"""The interface of model clients, with the names of `autogen_core.models`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeAlias, TypedDict, Unpack, runtime_checkable

from pydantic import BaseModel

from callboard.cancellation import CancellationToken
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
