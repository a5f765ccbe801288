"""Asks a model until its answer can be used, and counts what that takes, whichever way requests get to a server.

A client gives two functions that know the way: one asks for a whole answer, one for the chunks of a stream.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from callboard.core.cancellation import CancellationToken
from callboard.logging import EVENT_LOGGER_NAME, LLMCallEvent, LLMStreamEndEvent, LLMStreamStartEvent
from callboard.memory.cancelling import cancellable
from callboard.memory.llm_messages import LLMMessage
from callboard.models.base import ModelRequest, Tools
from callboard.models.errors import (
    BadRequestError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    charge,
    was_never_sent,
)
from callboard.models.info import known_model
from callboard.models.retries import ModelRetries
from callboard.models.types import CreateResult, RequestUsage

from .answer import NOTHING_USED, Assembler, ServerAnswer, WireAnswer, WireError, charged_in, whole_answer
from .chat_request import ChatRequest, Transformer
from .settings import OpenAISettings, Tokenizer, cached_tokenizer, count_request, count_text
from .tool_calls import HeldPieces, tool_schemas

events: Final = logging.getLogger(EVENT_LOGGER_NAME)
T = TypeVar("T")


class TokenCounter:
    """Counts the tokens of requests to one model.

    Args:
        settings: of the client.
        tokenizer: makes counts exact; None: tiktoken's when its data are in its cache, else an estimate.
        limit: tokens of the model's context; None: as `callboard.models.info` has it.

    Attributes:
        tokenizer: the one that counts, as far as it is known yet.
    """

    def __init__(self, settings: OpenAISettings, tokenizer: Tokenizer | None, limit: int | None) -> None:
        self.tokenizer = tokenizer
        self._settings = settings
        self._limit = limit

    def count(self, messages: Sequence[LLMMessage], tools: Tools) -> int:
        """Tokens of a request."""
        if self.tokenizer is None:
            self.tokenizer = cached_tokenizer(self._settings.info["family"])
        wire = Transformer(self._settings).messages(messages)
        return count_request(wire, tool_schemas(tools, self._settings.model), self.tokenizer)

    def remaining(self, messages: Sequence[LLMMessage], tools: Tools) -> int:
        """Tokens that the context has left beyond a request.

        Raises:
            BadRequestError: how long the model's context is, is not known.
        """
        limit = self._limit
        if limit is None:
            known = known_model(self._settings.model)
            if known is None:
                reason = "the length of its context is not known: give the client token_limit"
                raise BadRequestError(self._settings.model, reason)
            limit = known.context
        return limit - self.count(messages, tools)


class Tally:
    """Adds up tokens: as the server counts them, and by an estimate where it was asked and its answer never came.

    Args:
        tokenizer: makes estimates exact; None: there is none.

    Attributes:
        used: all so far.
    """

    def __init__(self, tokenizer: Tokenizer | None) -> None:
        self.used = NOTHING_USED
        self._tokenizer = tokenizer

    def add(self, answer: ServerAnswer) -> None:
        """Count an answer, whatever becomes of it."""
        self.used += answer.usage

    def read(self, body: bytes) -> ServerAnswer | WireError | None:
        """The answer in a body, counted also when it can't be read; see `whole_answer`."""
        self.used += charged_in(body)
        return whole_answer(body)

    @contextmanager
    def asking(self, arguments: Mapping[str, Any]) -> Iterator[None]:
        """Wait for an answer. A server that was left before all of it came has read the prompt, and may charge it."""
        try:
            yield
        except (asyncio.CancelledError, ModelTimeoutError, ModelConnectionError) as error:
            if not was_never_sent(error):
                self.used += RequestUsage(self._prompt(arguments["messages"]), 0)
            raise

    def add_unfinished(self, assembler: Assembler, arguments: Mapping[str, Any]) -> None:
        """Count a stream that did not come to its end; nothing of it if nothing came."""
        usage = assembler.usage
        # Some makers count the prompt at the beginning, and the rest at the end.
        if assembler.has_begun and not usage.completion_tokens:
            prompt = usage.prompt_tokens or self._prompt(arguments["messages"])
            written = count_text(assembler.everything, self._tokenizer)
            usage = replace(usage, prompt_tokens=prompt, completion_tokens=written)
        self.used += usage

    def charge(self, error: BaseException) -> None:
        """Say in an error what the request used."""
        if isinstance(error, ModelError | asyncio.CancelledError):
            charge(error, self.used)

    def _prompt(self, messages: Sequence[Mapping[str, Any]]) -> int:
        return count_request(messages, (), self._tokenizer)


def log_call(arguments: Mapping[str, Any], result: CreateResult) -> None:
    """A request was answered."""
    if events.isEnabledFor(logging.DEBUG):
        usage = result.usage
        events.debug(
            LLMCallEvent(
                messages=arguments["messages"],
                tools=arguments.get("tools", []),
                response=result.model_dump(mode="json"),
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
            )
        )


def log_stream_start(arguments: Mapping[str, Any]) -> None:
    """A stream was asked for."""
    if events.isEnabledFor(logging.DEBUG):
        events.debug(LLMStreamStartEvent(messages=arguments["messages"], tools=arguments.get("tools", [])))


def log_stream_end(result: CreateResult) -> None:
    """A stream came to its end."""
    if events.isEnabledFor(logging.DEBUG):
        usage = result.usage
        events.debug(
            LLMStreamEndEvent(
                response=result.model_dump(mode="json"),
                prompt_tokens=usage.prompt_tokens,
                completion_tokens=usage.completion_tokens,
            )
        )


Ask: TypeAlias = Callable[[ChatRequest, Tally], Coroutine[Any, Any, ServerAnswer | None]]
Chunks: TypeAlias = Callable[
    [Mapping[str, Any], Tally, CancellationToken | None], AsyncGenerator[WireAnswer, None]
]


class Asker:
    """Asks, again where that is worth it, and reads the answers.

    Requests are made again as `retries` has it, and with what was wrong where an answer can't be used.

    Args:
        settings: by which requests are made and answers read.
        retries: when and how requests are made again.
        counter: has the tokenizer for estimates.
        ask: sends a request, and gives the answer; None where there is none.
        chunks: the same for a stream.

    Attributes:
        usage: tokens of all requests so far.
    """

    def __init__(
        self,
        settings: OpenAISettings,
        retries: ModelRetries,
        counter: TokenCounter,
        ask: Ask,
        chunks: Chunks,
    ) -> None:
        self.usage = NOTHING_USED
        self._settings = settings
        self._retries = retries
        self._counter = counter
        self._ask = ask
        self._chunks = chunks

    async def create(self, request: ModelRequest) -> CreateResult:
        """The answer to a request.

        Raises:
            ModelError: one of its subclasses.
        """
        chat, token = ChatRequest.of(request, self._settings), request.cancellation_token
        left = self._retries.settings.max_corrections
        asked = 0
        with self._tallied() as tally:
            while True:
                asked += 1
                ask = partial(self._ask, chat, tally)
                answer = await self._retries.call(partial(_ended_by, token, ask), token)
                reading = chat.read(answer)
                if answer is None or reading.objection is None or not left:
                    break
                left -= 1
                chat = chat.corrected(answer, reading.objection)
            result = reading.settled().model_copy(update={"usage": tally.used, "requests": asked})
            log_call(chat.arguments, result)
            return result

    async def create_stream(
        self, request: ModelRequest, include_usage: bool | None = None
    ) -> AsyncGenerator[str | CreateResult, None]:
        """The pieces of an answer's text, then the answer.

        Args:
            request: what is asked.
            include_usage: whether to ask for the usage; None: as the settings have it.

        Raises:
            ModelError: one of its subclasses.
        """
        chat, token = ChatRequest.of(request, self._settings), request.cancellation_token
        left = self._retries.settings.max_corrections
        asked = 0
        with self._tallied() as tally:
            while True:
                asked += 1
                assembler, held = Assembler(), HeldPieces(may_call=chat.text_may_be_call)
                arguments = chat.stream_arguments(include_usage)
                log_stream_start(arguments)
                chunks = self._whole_stream(arguments, assembler, tally, token)
                async with aclosing(_pieces(chunks, assembler, chat.streams_text)) as pieces:
                    async for piece in pieces:
                        if shown := held.add(piece):
                            yield shown
                answer = assembler.answer()
                tally.add(answer)
                reading = chat.read(answer)
                if reading.objection is None or not left:
                    break
                # What was passed on can't be unsaid; words beside a call are no answer.
                if held.has_said and not reading.objection.ends_calls:
                    break
                left -= 1
                chat = chat.corrected(answer, reading.objection)
            result = reading.settled().model_copy(update={"usage": tally.used, "requests": asked})
            log_stream_end(result)
            if isinstance(result.content, str) and not held.has_said and result.content:
                yield result.content
        yield result

    async def _whole_stream(
        self,
        arguments: Mapping[str, Any],
        assembler: Assembler,
        tally: Tally,
        token: CancellationToken | None,
    ) -> AsyncGenerator[WireAnswer, None]:
        """The chunks of one answer, to its end; of one that breaks off it counts what the assembler got."""
        is_whole = False
        try:
            chunks = self._retries.stream(lambda: self._chunks(arguments, tally, token), token)
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk
            if not assembler.is_complete:
                raise ModelConnectionError(
                    self._settings.model, "the stream ended before the answer was complete"
                )
            is_whole = True
        finally:
            if not is_whole:
                tally.add_unfinished(assembler, arguments)

    @contextmanager
    def _tallied(self) -> Iterator[Tally]:
        """Count what a request uses, however it ends."""
        tally = Tally(self._counter.tokenizer)
        try:
            yield tally
        except BaseException as error:
            tally.charge(error)
            raise
        finally:
            self.usage += tally.used


async def _ended_by(token: CancellationToken | None, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """The result of `ask()`, which ends when the token is cancelled."""
    return await cancellable(ask(), token)


async def _pieces(
    chunks: AsyncGenerator[WireAnswer, None], assembler: Assembler, are_shown: bool
) -> AsyncGenerator[str, None]:
    """Put the chunks of an answer together, and pass its text on meanwhile if it is to be shown."""
    async with aclosing(chunks):
        async for chunk in chunks:
            for piece in assembler.add(chunk):
                if are_shown:
                    yield piece
