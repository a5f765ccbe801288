"""Errors of models. All can cross processes: their data are plain values, kept in `args`.

```
ModelError(model, reason, status, retry_after)
├── RateLimitError                   too many requests; try again after a pause
├── ModelOverloadedError             the server has too much to do, or fails at the moment
├── ModelConnectionError             no connection, or it broke before the answer was complete
├── ModelTimeoutError (TimeoutError) no answer in time
├── BadResponseError                 the answer can't be understood
├── QuotaExceededError               nothing left to pay with                                  permanent
├── ContextLengthError               the request is longer than the model's context            permanent
├── ContentFilterError               refused by a content filter                               permanent
├── AuthenticationError              the key is missing, wrong, or not allowed to do this      permanent
├── BadRequestError                  the server does not accept the request                    permanent
├── UnsupportedFeatureError (ValueError)  the model can't do what is asked of it               permanent
├── UnknownModelError (ValueError)   nothing is known of this model                            permanent
├── ModelNotFoundError               the server has no such model                              permanent
├── BudgetExceededError              it would cost more than is allowed                        permanent
├── UnknownPriceError (LookupError)  a limit in money, and no price for the model              permanent
└── ReplayExhaustedError (ValueError) a ReplayChatCompletionClient has nothing more to say     permanent
```

`permanent`: another attempt would end the same way, so a message that fails with it becomes a dead letter at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..errors import ActorError, did_you_mean


class ModelError(ActorError):
    """A request to a model failed.

    Attributes:
        permanent: whether another attempt would end the same way.
        model: name of the model.
        reason: what the server said, or what is wrong.
        status: HTTP status; None when there was no answer.
        retry_after: seconds that the server asks to wait; None when it does not say.
    """

    permanent = False
    hint = ""

    def __init__(
        self, model: str, reason: str, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(model, reason)
        # Not through the constructor: OSError, the base of TimeoutError, takes a third argument for a file's name.
        self.args = (model, reason, status, retry_after)
        self.model = model
        self.reason = reason
        self.status = status
        self.retry_after = retry_after

    def __str__(self) -> str:
        status = "" if self.status is None else f" (HTTP {self.status})"
        return f"{self.model}: {self.reason}{status}" + (f". {self.hint}" if self.hint else "")


class RateLimitError(ModelError):
    """Too many requests or tokens in a while."""

    hint = "Send less at once, or give the client more attempts"


class ModelOverloadedError(ModelError):
    """The server has too much to do, or fails at the moment (HTTP 5xx)."""


class ModelConnectionError(ModelError):
    """There is no connection, or it broke before the answer was complete."""

    hint = "Check the base_url and that the server runs"


class ModelTimeoutError(ModelError, TimeoutError):
    """No answer came in time. The server may have worked, and charged, nevertheless."""

    hint = "A longer time is the client's timeout"


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
    hint = "Set OPENAI_API_KEY, or give the client its api_key"


class BadRequestError(ModelError):
    """The server does not accept the request."""

    permanent = True


class ModelNotFoundError(ModelError):
    """The server has no such model."""

    permanent = True
    hint = "Check the model's name and the base_url"


class UnsupportedFeatureError(ModelError, ValueError):
    """The model's ModelInfo says that it can't do what is asked of it."""

    permanent = True


class UnknownModelError(ModelError, ValueError):
    """Nothing is known of this model here.

    Attributes:
        known: the models there are.
    """

    permanent = True

    def __init__(self, model: str, known: Iterable[str] = ()) -> None:
        super().__init__(model, "nothing is known of this model")
        self.known = tuple(known)
        self.args = (model, self.known)

    def __str__(self) -> str:
        nearest = f" {did_you_mean(self.model, self.known)}" if self.known else ""
        return f"model_info is required for the model {self.model!r}, of which nothing is known.{nearest}"


class BudgetExceededError(ModelError):
    """The next request might cost more than is left; it was not made.

    Attributes:
        unit: "USD" or "tokens".
        limit: what may be spent.
        spent: what is spent or set aside for requests under way.
        needed: what the request might cost at most.
    """

    permanent = True

    def __init__(self, model: str, unit: str, limit: float, spent: float, needed: float) -> None:
        super().__init__(model, "over budget")
        self.args = (model, unit, limit, spent, needed)
        self.unit = unit
        self.limit = limit
        self.spent = spent
        self.needed = needed

    def __str__(self) -> str:
        return (
            f"{self.model}: the request may need {self.needed:,.6g} {self.unit}, and of {self.limit:,.6g} "
            f"{self.spent:,.6g} are spent or set aside. Raise the budget, or ask for less (max_tokens)"
        )


class UnknownPriceError(ModelError, LookupError):
    """A limit in money is set, and the price of the model is not known."""

    permanent = True

    def __init__(self, model: str) -> None:
        super().__init__(model, "no price")
        self.args = (model,)

    def __str__(self) -> str:
        return f"the price of {self.model!r} is not known: add it to the prices, or set a limit in tokens"


class ReplayExhaustedError(ModelError, ValueError):
    """A ReplayChatCompletionClient was asked more often than it has answers.

    Attributes:
        answers: how many it has.
    """

    permanent = True

    def __init__(self, model: str, answers: int) -> None:
        super().__init__(model, "no more answers")
        self.args = (model, answers)
        self.answers = answers

    def __str__(self) -> str:
        return f"{self.model}: No more mock responses available: all {self.answers} were given"


MODEL_ERRORS: Final = (
    ModelError,
    RateLimitError,
    ModelOverloadedError,
    ModelConnectionError,
    ModelTimeoutError,
    BadResponseError,
    QuotaExceededError,
    ContextLengthError,
    ContentFilterError,
    AuthenticationError,
    BadRequestError,
    ModelNotFoundError,
    UnsupportedFeatureError,
    UnknownModelError,
    BudgetExceededError,
    UnknownPriceError,
    ReplayExhaustedError,
)
