"""Errors of models, which can cross processes, and the tokens that are paid for although there is no answer.

```
ModelError(model, reason, status, retry_after)
├── RateLimitError                   too many requests; try again after a pause
├── ModelOverloadedError             the server has too much to do, or fails at the moment
├── ModelConnectionError             no connection, or it broke before the answer was complete
├── ModelTimeoutError (TimeoutError) no answer in time
│   └── ModelUnansweredError         in a handler: sent, perhaps worked on, and not answered
├── BadResponseError                 the answer can't be understood
├── QuotaExceededError               nothing left to pay with                                  permanent
├── ContextLengthError               the request is longer than the model's context            permanent
├── ContentFilterError               refused by a content filter                               permanent
├── AuthenticationError              the key is missing, wrong, or not allowed to do this      permanent
├── BadRequestError (ValueError, TypeError)  the client or the request can't work like this    permanent
│   └── UnsupportedParameterError    the model takes no such argument, or not its value        permanent
├── ModelNotFoundError (ValueError)  the server has no such model, or nothing is known of it   permanent
└── BudgetExceededError              it would cost more than is allowed                        permanent
    └── BudgetHeldError              until requests end that are under way, or a window moves on
```

`permanent`: another attempt would end the same way, so a message that fails with it becomes a dead letter at once.
`is_outage`: the server, or the way to it, does not work at the moment; the first four of them, and BudgetHeldError. It says
nothing about the request, which may work once the outage is over. A ModelUnansweredError is none: the server may have
worked on the request, and charge it, each time that it is sent.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import ClassVar, Final, Self

from callboard.foundation import ActorError

from .types import CreateResult, RequestUsage

MINUTE: Final = 60
PAYS_AGAIN: Final = (
    "What the handler asked before is paid again: put a RecordedChatCompletionClient around the client"
)


class ModelError(ActorError):
    """A request to a model failed.

    Attributes:
        model: name of the model.
        reason: what the server said, or what is wrong.
        status: HTTP status; None when there was no answer.
        retry_after: seconds that the server asks to wait; None when it does not say.
        prompt_tokens: tokens that the server read for it and may charge, as far as is known.
        completion_tokens: tokens that it wrote before the request failed, as far as is known.
        hint: what to do about it.
        is_outage: the server, or the way to it, does not work at the moment.
    """

    template = "{model}: {reason}{ending}"
    hint = ""
    is_outage: ClassVar[bool] = False

    model: str
    reason: str
    status: int | None = None
    retry_after: float | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def usage(self) -> RequestUsage:
        """Tokens that are paid for although there is no answer."""
        from .types import RequestUsage

        return RequestUsage(self.prompt_tokens, self.completion_tokens)

    def charge(self, usage: RequestUsage) -> None:
        """Say that the request used these tokens, too."""
        self.prompt_tokens += usage.prompt_tokens
        self.completion_tokens += usage.completion_tokens
        # Kept in `args` as well, so that a process that gets the error as a reply knows it.
        self.args = tuple(getattr(self, name) for name in self.field_names)

    @property
    def ending(self) -> str:
        """The end of the sentence: the status, and what to do."""
        status = "" if self.status is None else f" (HTTP {self.status})"
        return f"{status}. {self.hint}" if self.hint else status


class RateLimitError(ModelError):
    """Too many requests or tokens in a while."""

    is_outage = True
    hint = "Send less at once, or give the client more attempts"


class ModelOverloadedError(ModelError):
    """The server has too much to do, or fails at the moment (HTTP 5xx)."""

    is_outage = True


class ModelConnectionError(ModelError):
    """There is no connection, or it broke before the answer was complete."""

    is_outage = True
    hint = "Check the base_url and that the server runs"


class ModelTimeoutError(ModelError, TimeoutError):
    """No answer came in time. The server may have worked, and charged, nevertheless."""

    is_outage = True
    hint = "A longer time is the client's timeout"


class ModelUnansweredError(ModelTimeoutError):
    """In a handler: the model was asked, and its answer did not come in time, or broke off after its first piece.

    The server may have worked on the request, and charge it. On the bus it is no outage, for which a message is tried again
    for minutes: it uses up an attempt of the message, so that the number of its attempts limits how often it is asked.
    """

    is_outage = False
    hint = "The server may have worked on it, and charge it; a longer time is the client's timeout"

    @classmethod
    def of(cls, error: ModelError, retry_after: float | None) -> Self:
        """The error for one of a request that was sent.

        Args:
            error: its end.
            retry_after: seconds that the server asked to wait, when it answered last.
        """
        return cls(
            error.model, error.reason, error.status, retry_after, error.prompt_tokens, error.completion_tokens
        )


class BadResponseError(ModelError):
    """The answer can't be understood, or does not fit what was asked for."""


class QuotaExceededError(ModelError):
    """There is nothing left to pay with; waiting does not help."""

    permanent = True
    hint = "Look at the plan and the billing of the account"


class ContextLengthError(ModelError):
    """The request is longer than the context of the model."""

    permanent = True
    hint = "Use a TokenLimitedChatCompletionContext, or a model with a larger context"


class ContentFilterError(ModelError):
    """A content filter refused the request or the answer."""

    permanent = True


class AuthenticationError(ModelError):
    """The key is missing or wrong, or may not do this."""

    permanent = True
    hint = "Check api_key, or the variable that it comes from, such as OPENAI_API_KEY"

    @property
    def ending(self) -> str:
        """The hint, unless it was not the server that refused: then the reason says what to do."""
        return "" if self.status is None else super().ending


class BadRequestError(ModelError, ValueError, TypeError):
    """The client or the request can't work like this: the server does not accept it, or it is not sent at all."""

    permanent = True


class UnsupportedParameterError(BadRequestError):
    """The server does not take an argument for this model, or not its value.

    Attributes:
        parameter: name of the argument.
        is_value: other values of it may be taken.
    """

    hint = "Leave it out, or choose another model"

    parameter: str = ""
    is_value: bool = False


class ModelNotFoundError(ModelError, ValueError):
    """The server has no such model, or nothing is known of it here."""

    permanent = True
    hint = "Check the model's name and the base_url"

    @property
    def ending(self) -> str:
        """The hint, unless it was not the server that did not know it: then the reason says what to do."""
        return "" if self.status is None else super().ending


class BudgetExceededError(ModelError):
    """The next request might cost more than is left; it was not made.

    Attributes:
        unit: "USD", "tokens" or "requests".
        limit: what may be spent.
        spent: what is spent or set aside for requests under way.
        needed: what the request might cost at most.
        scope: what is limited, such as "total" or "run:42".
        every: seconds of the window that the limit is for; 0: it is for all time.
        retry_after: seconds until the window has room, and those who were refused just before have had theirs, where it is
            waited for; None: never, since the request needs more than the limit.
        room_at: when the window has room, in seconds of UTC, by the clock of the process that asked.
        pays_again: the handler has asked a model before, and nothing has recorded the answer.
    """

    template = (
        "{model}: {room}the request may need {needed:,.6g} {units}, and of {limit:,.6g} for {scope}{window} "
        "{spent:,.6g} are spent or set aside{advice}"
    )
    permanent = True

    reason: str = "over budget"
    unit: str = "tokens"
    limit: float = 0.0
    spent: float = 0.0
    needed: float = 0.0
    scope: str = "total"
    every: float = 0.0
    room_at: float = 0.0
    pays_again: bool = False

    @property
    def units(self) -> str:
        """What is needed, in words."""
        return "request" if self.unit == "requests" and self.needed == 1 else self.unit

    @property
    def window(self) -> str:
        """The time that the limit is for, in words."""
        return f" in {in_words(self.every)}" if self.every else ""

    @property
    def room(self) -> str:
        """When there is room, in words: first, as what shows errors may cut their ends."""
        if not self.every or self.retry_after is None:
            return ""
        return f"there is room at {datetime.fromtimestamp(self.room_at, UTC):%Y-%m-%d %H:%M:%S} UTC; "

    @property
    def advice(self) -> str:
        """What to do."""
        if not self.every:
            return ". Raise the budget, or ask for less (max_tokens)"
        if self.retry_after is None:
            less = "max_corrections" if self.unit == "requests" else "max_tokens"
            return f". It never fits: raise the limit, or ask for less ({less})"
        return f". {PAYS_AGAIN}" if self.pays_again else ""


class BudgetHeldError(BudgetExceededError):
    """A budget will have room for the request: when what others set aside is settled, or the limit's window has moved on.

    It counts as an outage: on the bus the message is tried again, without using up attempts.
    """

    permanent = False
    is_outage = True

    @property
    def has_sure_end(self) -> bool:
        """Whether it ends by itself, so that a message waits for it however long it takes: windows move on.

        Not where each attempt asks and pays for what the one before it had: it might do so for ever.
        """
        # guard: what each attempt would pay for again is not waited for without end
        return self.every > 0 and not self.pays_again


def in_words(seconds: float) -> str:
    """A time, such as "1 minute" or "2 h 5 min"."""
    if seconds == MINUTE:
        return "1 minute"
    if seconds < 2 * MINUTE:
        return f"{seconds:g} s"
    minutes = math.ceil(seconds / MINUTE)
    hours, rest = divmod(minutes, 60)
    return " ".join(part for part in (f"{hours} h" * bool(hours), f"{rest} min" * bool(rest)) if part)


def charged(error: BaseException) -> RequestUsage:
    """The tokens that a request used which ended with an error or was cancelled, as far as is known."""
    usage = getattr(error, "usage", None)
    return usage if isinstance(usage, RequestUsage) else RequestUsage(0, 0)


# Errors of the HTTP client before there is a connection, by name: the client may be one of two packages.
NEVER_SENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"})


def was_never_sent(error: BaseException) -> bool:
    """Whether the server got nothing of the request: one of the causes of its error is an error of HTTP that says so."""
    cause = error.__cause__
    while cause is not None and type(cause).__name__ not in NEVER_SENT:
        cause = cause.__cause__
    return cause is not None


def charge(error: BaseException, usage: RequestUsage) -> None:
    """Say in an error that the request used these tokens, too."""
    if isinstance(error, ModelError):
        error.charge(usage)
    elif usage.total_tokens:
        setattr(error, "usage", charged(error) + usage)  # noqa: B010 - of asyncio.CancelledError, which has no such field


class Charges:
    """Adds up what the tries of one request used before the one that counts."""

    def __init__(self) -> None:
        self._tried = RequestUsage(0, 0)

    async def of(self, work: Awaitable[CreateResult]) -> CreateResult:
        """The result of one try, with the usage of those before it; an error says the usage of all of them."""
        try:
            result = await work
        except (ModelError, asyncio.CancelledError) as error:
            self._add_to(error)
            raise
        return self._added_to(result)

    async def of_stream(
        self, items: AsyncGenerator[str | CreateResult, None]
    ) -> AsyncGenerator[str | CreateResult, None]:
        """The items of one try, as `of` has it."""
        try:
            async with aclosing(items):
                async for item in items:
                    yield self._added_to(item) if isinstance(item, CreateResult) else item
        except (ModelError, asyncio.CancelledError) as error:
            self._add_to(error)
            raise

    def _add_to(self, error: BaseException) -> None:
        charge(error, self._tried)
        self._tried = charged(error)

    def _added_to(self, result: CreateResult) -> CreateResult:
        if not self._tried.total_tokens:
            return result
        return result.model_copy(update={"usage": result.usage + self._tried})
