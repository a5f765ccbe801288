"""A model client without a model: it answers from a script, for tests, demos and work without a key."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Self, TypeAlias

from pydantic import BaseModel, ConfigDict

from callboard.foundation.component import Component, NotDumpableError
from callboard.memory.cancelling import cancellable
from callboard.memory.llm_messages import (
    FunctionCall,
    FunctionExecutionResultMessage,
    Image,
    LLMMessage,
    UserMessage,
)

from .base import ModelRequest, RequestClient, Tools
from .errors import BadRequestError
from .info import ModelInfo, validate_model_info
from .types import CreateResult, ModelFamily, RequestUsage

TOTAL_TOKENS: Final = 10_000  # the context of AutoGen's client
TOKENS_OF_IMAGE: Final = 1
PIECES: Final = re.compile(r"\s*\S+\s*|\s+")  # the words of a stream; together they are the text again
EVERYTHING: Final = ModelInfo(
    vision=True,
    function_calling=True,
    json_output=True,
    family=ModelFamily.UNKNOWN,
    structured_output=True,
    multiple_system_messages=True,
)


@dataclass(frozen=True)
class Delayed:
    """An answer that takes a while.

    Attributes:
        seconds: how long.
        answer: any other answer.
    """

    seconds: float
    answer: Answer


@dataclass(frozen=True)
class Streamed:
    """An answer in pieces of one's own choice.

    Attributes:
        pieces: texts; one that is an error is raised in its place, so that a stream breaks in the middle.
        thought: the reasoning that comes with the result.
    """

    pieces: Sequence[str | Exception]
    thought: str | None = None


Answer: TypeAlias = (
    str
    | Sequence[FunctionCall]
    | CreateResult
    | Exception
    | Delayed
    | Streamed
    | Callable[[Sequence[LLMMessage]], "Answer | Awaitable[Answer]"]
)
"""A text, function calls, a whole result, an error to raise, or a function of the messages that returns one of them."""
Resolved: TypeAlias = str | list[FunctionCall] | CreateResult | Streamed
"""An answer after its delays and functions."""


class ReplayChatCompletionClientConfig(BaseModel):
    """A script as plain data; its fields are the arguments of ReplayChatCompletionClient.

    Only texts, function calls and whole results can be written down: no functions, errors and delays.
    """

    model_config = ConfigDict(protected_namespaces=())

    chat_completions: list[CreateResult | str | list[FunctionCall]]
    model_info: ModelInfo | None = None
    default: CreateResult | str | list[FunctionCall] | None = None
    model: str = "replay"


class ReplayChatCompletionClient(RequestClient, Component[ReplayChatCompletionClientConfig]):
    """A client that answers from a script, one answer for each request, with the names of AutoGen's client of this name.

    Tokens are words. The script's position belongs to the client, so each process has its own: where several processes
    or repeated attempts have to agree, use a function of the messages.

    Args:
        chat_completions: the answers, see Answer.
        model_info: the abilities of the model; default: all.
        default: the answer when the script is at its end; None: BadRequestError, which is a ValueError as in AutoGen.
        model: the model's name.
    """

    component_config_schema = ReplayChatCompletionClientConfig
    component_provider_override = "callboard.models.ReplayChatCompletionClient"

    def __init__(
        self,
        chat_completions: Sequence[Answer] = (),
        model_info: ModelInfo | None = None,
        *,
        default: Answer | None = None,
        model: str = "replay",
    ) -> None:
        info = EVERYTHING if model_info is None else model_info
        validate_model_info(info)
        self.chat_completions = list(chat_completions)
        self._default = default
        self._model_info = info
        self._model = model
        self._position = 0
        self._cached = True
        self._usage = RequestUsage(0, 0)
        self._calls: list[dict[str, Any]] = []

    @property
    def create_calls(self) -> list[dict[str, Any]]:
        """The arguments of every call since the beginning or `reset`, oldest first."""
        return self._calls

    def set_cached_bool_value(self, value: bool) -> None:
        """Set `cached` of the results; True unless it is set, for nothing was paid."""
        self._cached = value

    def set_default(self, answer: Answer | None) -> None:
        """Set the answer for the time when the script is at its end; None: an error."""
        self._default = answer

    def reset(self) -> None:
        """Begin again with the first answer, with nothing used."""
        self._position = 0
        self._usage = RequestUsage(0, 0)
        self._calls = []

    async def save_state(self) -> Mapping[str, Any]:
        """The position in the script."""
        return {"position": self._position}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Go on at the position of `save_state`."""
        self._position = int(state["position"])

    # Answering

    async def _create(self, request: ModelRequest) -> CreateResult:
        items = self._create_stream(request)
        (result,) = [item async for item in items if isinstance(item, CreateResult)]
        return result

    async def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]:
        answer = await self._next(request)
        text = ""
        for piece in _pieces(answer):
            if isinstance(piece, Exception):
                raise piece
            text += piece
            yield piece
        yield self._result(request, answer, text)

    async def _next(self, request: ModelRequest) -> Resolved:
        """The next answer of the script, after its delays and functions."""
        self._calls.append({"messages": request.messages, **request.options})
        answer = self._take()
        return await cancellable(_resolved(answer, request.messages), request.cancellation_token)

    def _take(self) -> Answer:
        if self._position < len(self.chat_completions):
            self._position += 1
            return self.chat_completions[self._position - 1]
        if self._default is None:
            number = len(self.chat_completions)
            raise BadRequestError(self._model, f"No more mock responses available: all {number} were given")
        return self._default

    def _result(self, request: ModelRequest, answer: Resolved, text: str) -> CreateResult:
        if isinstance(answer, CreateResult):
            self._usage += answer.usage
            return answer
        content = text if isinstance(answer, Streamed) else answer
        usage = RequestUsage(self.count_tokens(request.messages, tools=request.tools), _words(content))
        self._usage += usage
        return CreateResult(
            finish_reason="stop" if isinstance(content, str) else "function_calls",
            content=content,
            usage=usage,
            cached=self._cached,
            thought=answer.thought if isinstance(answer, Streamed) else None,
        )

    # The rest of a client

    async def close(self) -> None:
        """Nothing to close."""

    def actual_usage(self) -> RequestUsage:
        return self._usage

    def total_usage(self) -> RequestUsage:
        return self._usage

    def count_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        return sum(_words_of(message) for message in messages)

    def remaining_tokens(self, messages: Sequence[LLMMessage], *, tools: Tools = ()) -> int:
        return TOTAL_TOKENS - self.count_tokens(messages, tools=tools)

    @property
    def model_info(self) -> ModelInfo:
        return self._model_info

    @property
    def model(self) -> str:
        return self._model

    def _to_config(self) -> ReplayChatCompletionClientConfig:
        script = [_written(answer) for answer in self.chat_completions]
        default = None if self._default is None else _written(self._default)
        return ReplayChatCompletionClientConfig(
            chat_completions=script, model_info=self._model_info, default=default, model=self._model
        )

    @classmethod
    def _from_config(cls, config: ReplayChatCompletionClientConfig) -> Self:
        return cls(config.chat_completions, config.model_info, default=config.default, model=config.model)


async def _resolved(answer: Answer, messages: Sequence[LLMMessage]) -> Resolved:
    """The answer after its delays and functions. An error is raised."""
    while True:
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str | CreateResult | Streamed):
            return answer
        if isinstance(answer, Delayed):
            await asyncio.sleep(answer.seconds)
            answer = answer.answer
        elif callable(answer):
            made = answer(messages)
            answer = await made if inspect.isawaitable(made) else made
        else:
            return list(answer)


def _written(answer: Answer) -> CreateResult | str | list[FunctionCall]:
    """An answer that can be written down.

    Raises:
        NotDumpableError: it can't.
    """
    if isinstance(answer, str):
        return answer
    if isinstance(answer, CreateResult):
        return answer
    if not isinstance(answer, Exception | Streamed | Delayed) and not callable(answer):
        return list(answer)
    name = "ReplayChatCompletionClient"
    raise NotDumpableError(
        name, f"its script has a {type(answer).__name__}, and only texts, calls and results go"
    )


def _pieces(answer: Resolved) -> Sequence[str | Exception]:
    if isinstance(answer, Streamed):
        return answer.pieces
    content = answer.content if isinstance(answer, CreateResult) else answer
    return PIECES.findall(content) if isinstance(content, str) else []


def _words_of(message: LLMMessage) -> int:
    if isinstance(message, FunctionExecutionResultMessage):
        return sum(_words(result.content) for result in message.content)
    if not isinstance(message, UserMessage):
        return _words(message.content)
    parts = [message.content] if isinstance(message.content, str) else message.content
    return sum(TOKENS_OF_IMAGE if isinstance(part, Image) else _words(part) for part in parts)


@lru_cache(maxsize=4096)
def _words_in(text: str) -> int:
    """The words of a text, which a conversation brings again and again."""
    return len(text.split())


def _words(content: str | list[FunctionCall]) -> int:
    if isinstance(content, str):
        return _words_in(content)
    return sum(1 + len(call.arguments.split()) for call in content)
