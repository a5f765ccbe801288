"""Retries of requests: backoff with full jitter, and never before the server's Retry-After has passed."""

from __future__ import annotations

import asyncio
import logging
import random as random_module
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Self, TypeAlias, TypeVar

from pydantic import BaseModel

from callboard.broker.outcome import DeadLetter
from callboard.broker.retry import RetryPolicy
from callboard.core.cancellation import CancellationToken
from callboard.foundation.component import Component, ComponentModel, dumped
from callboard.memory.cancelling import cancellable
from callboard.runtime.steps import note_failed_request, running_context

from .base import ChatCompletionClient, ModelRequest, WrappedChatCompletionClient
from .errors import Charges, ModelError, ModelTimeoutError, ModelUnansweredError, was_never_sent
from .info import DEFAULTS, ModelSettings
from .types import CreateResult

T = TypeVar("T")

logger = logging.getLogger("callboard.models")

# The settings that a dump has.
NUMBERS: Final = ("max_attempts", "retry_base", "retry_cap", "longest_retry_after")
FULL_JITTER: Final = 1.0  # a pause is anything from 0 to its upper bound

MayAsk: TypeAlias = Callable[[], Awaitable[bool]]
may_ask_again: ContextVar[MayAsk | None] = ContextVar("callboard_may_ask_again", default=None)
"""Whether one more attempt may be made now: each is a request to the model, and somebody around may limit these."""


@dataclass(frozen=True, slots=True)
class ModelRetries:
    """The rule by which a request is made again: on rate limits, overload, timeouts and broken connections.

    The pauses are exponential with full jitter (Brooker, "Exponential Backoff And Jitter", AWS 2015), after
    the time that the server's Retry-After asks for.

    Attributes:
        settings: `max_attempts`, `retry_base`, `retry_cap` and `longest_retry_after` count here.
        sleep: waits so many seconds.
        random: a number from 0 to 1.
    """

    settings: ModelSettings = DEFAULTS
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    random: Callable[[], float] = random_module.random

    def pause(self, attempt: int, error: ModelError, timeouts: int = 0) -> float | None:
        """Seconds to wait after attempt number `attempt` (from 1) ended with `error`; None: give up.

        Args:
            attempt: its number.
            error: its end.
            timeouts: how many attempts were sent and not answered in time, this one included.
        """
        settings = self.settings
        if timeouts >= settings.max_timeouts and _is_unanswered(error):
            return None
        if not error.is_outage or (error.retry_after or 0.0) > settings.longest_retry_after:
            return None
        on_bus = running_context() is not None
        most = min(settings.max_attempts, settings.max_attempts_on_bus) if on_bus else settings.max_attempts
        policy = RetryPolicy(most, settings.retry_base, settings.retry_cap, FULL_JITTER)
        outcome = policy.decide(attempt, error, random=self.random)
        return None if isinstance(outcome, DeadLetter) else outcome.delay

    async def wait(
        self, attempt: int, error: ModelError, token: CancellationToken | None = None, timeouts: int = 0
    ) -> None:
        """Wait until the next attempt; raise the error when there is none."""
        note_failed_request()
        seconds = self.pause(attempt, error, timeouts)
        if seconds is None:
            raise error
        logger.warning(
            "%s: %s (attempt %d); trying again in %.1f s", error.model, type(error).__name__, attempt, seconds
        )
        await cancellable(self._sleep(seconds), token)
        may = may_ask_again.get()
        # guard: an attempt that is made again is a request like the first
        if may is not None and not await may():
            raise error

    async def _sleep(self, seconds: float) -> None:
        await self.sleep(seconds)

    async def call(self, function: Callable[[], Awaitable[T]], token: CancellationToken | None = None) -> T:
        """The result of `function()`, called again as long as it is worth it.

        Raises:
            ModelError: the last one.
        """
        attempt, unanswered = 1, Unanswered()
        while True:
            try:
                return await function()
            except ModelError as error:
                unanswered.add(error)
                with unanswered.raised():
                    await self.wait(attempt, error, token, unanswered.timeouts)
            attempt += 1

    async def stream(
        self, function: Callable[[], AsyncGenerator[T, None]], token: CancellationToken | None = None
    ) -> AsyncGenerator[T, None]:
        """The items of `function()`, called again until there is a first one.

        Not later: pieces that were passed on can't be taken back.

        Raises:
            ModelError: the last one.
        """
        attempt, unanswered = 1, Unanswered()
        while True:
            has_begun = False
            try:
                async with aclosing(function()) as items:
                    async for item in items:
                        has_begun = True
                        yield item
                return
            except ModelError as error:
                unanswered.add(error, has_begun=has_begun)
                with unanswered.raised():
                    if has_begun:
                        note_failed_request()
                        raise
                    await self.wait(attempt, error, token, unanswered.timeouts)
            attempt += 1


class Unanswered:
    """The attempts at one request that were sent, and whose answer did not come, or not to its end.

    Attributes:
        timeouts: how many were not answered in time.
    """

    def __init__(self) -> None:
        self.timeouts = 0
        self._last: ModelError | None = None

    def add(self, error: ModelError, *, has_begun: bool = False) -> None:
        """An attempt has ended with `error`, perhaps after the first piece of its answer."""
        is_late = _is_unanswered(error)
        self.timeouts += is_late
        if is_late or (has_begun and error.is_outage):
            self._last = error

    @contextmanager
    def raised(self) -> Iterator[None]:
        """In a handler: an outage that is raised here says that the request was sent, if one of its attempts was.

        The bus would try the message again and again as if the server had been away, and the server charge each time.
        """
        try:
            yield
        except ModelError as error:
            # guard: what a server may have worked on uses up an attempt of the message
            if self._last is None or running_context() is None or not error.is_outage:
                raise
            raise ModelUnansweredError.of(self._last, error.retry_after) from error


def _is_unanswered(error: ModelError) -> bool:
    """Whether a request was sent, and its answer did not come in time: the server may have worked on it."""
    return isinstance(error, ModelTimeoutError) and not was_never_sent(error)


class RetryingChatCompletionClientConfig(BaseModel):
    """A client that makes requests again, as plain data; the numbers are those of ModelSettings."""

    client: ComponentModel
    max_attempts: int = DEFAULTS.max_attempts
    retry_base: float = DEFAULTS.retry_base
    retry_cap: float = DEFAULTS.retry_cap
    longest_retry_after: float = DEFAULTS.longest_retry_after


class RetryingChatCompletionClient(
    WrappedChatCompletionClient, Component[RetryingChatCompletionClientConfig]
):
    """A client that makes requests again, see ModelRetries.

    Args:
        client: asked, perhaps several times.
        retries: when and how often. A dump has its numbers.
    """

    component_config_schema = RetryingChatCompletionClientConfig
    component_provider_override = "callboard.models.RetryingChatCompletionClient"

    def __init__(self, client: ChatCompletionClient, retries: ModelRetries | None = None) -> None:
        super().__init__(client)
        self.retries = retries or ModelRetries()

    async def _create(self, request: ModelRequest) -> CreateResult:
        charges = Charges()
        return await self.retries.call(
            lambda: charges.of(request.create(self.client)), request.cancellation_token
        )

    async def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]:
        charges = Charges()
        items = self.retries.stream(
            lambda: charges.of_stream(request.create_stream(self.client)), request.cancellation_token
        )
        async with aclosing(items):
            async for item in items:
                yield item

    def _to_config(self) -> RetryingChatCompletionClientConfig:
        settings = self.retries.settings
        numbers = {name: getattr(settings, name) for name in NUMBERS}
        return RetryingChatCompletionClientConfig(client=dumped(self.client, self), **numbers)

    @classmethod
    def _from_config(cls, config: RetryingChatCompletionClientConfig) -> Self:
        settings = ModelSettings(**{name: getattr(config, name) for name in NUMBERS})
        return cls(ChatCompletionClient.load_component(config.client), ModelRetries(settings))
