from __future__ import annotations

import json

import pytest

from actors.errors import ActorError
from actors.models import errors
from actors.models.errors import (
    MODEL_ERRORS,
    BudgetExceededError,
    ModelError,
    ModelTimeoutError,
    RateLimitError,
    ReplayExhaustedError,
    UnknownModelError,
    UnknownPriceError,
    UnsupportedFeatureError,
)
from actors.runtime_errors import register_errors
from broker.remote_errors import decode_error, encode_error
from broker.retry import RetryPolicy

PERMANENT = """QuotaExceededError ContextLengthError ContentFilterError AuthenticationError BadRequestError
    ModelNotFoundError UnsupportedFeatureError UnknownModelError BudgetExceededError UnknownPriceError
    ReplayExhaustedError"""


def made(cls: type[ModelError]) -> ModelError:
    """One error of a class."""
    if cls is UnknownModelError:
        return UnknownModelError("gpt-4x", ["gpt-4", "o1"])
    if cls is BudgetExceededError:
        return BudgetExceededError("gpt-4", "USD", 1.0, 0.75, 0.5)
    if cls is UnknownPriceError:
        return UnknownPriceError("gpt-4")
    if cls is ReplayExhaustedError:
        return ReplayExhaustedError("replay", 2)
    return cls("gpt-4", "no", 429, 1.5)


def test_the_list_is_complete() -> None:
    there = {c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, ModelError)}
    assert set(MODEL_ERRORS) == there
    assert all(cls.__name__ in (errors.__doc__ or "") for cls in there)


@pytest.mark.parametrize("cls", MODEL_ERRORS)
def test_it_crosses_processes(cls: type[ModelError]) -> None:
    register_errors()
    error = made(cls)
    back = decode_error(encode_error(error))
    assert type(back) is cls
    assert str(back) == str(error)
    assert json.loads(json.dumps(back.args)) == json.loads(json.dumps(error.args))
    for name, value in vars(error).items():
        assert json.dumps(getattr(back, name)) == json.dumps(value)
    assert vars(cls(*error.args)) == vars(error)


@pytest.mark.parametrize("cls", MODEL_ERRORS)
def test_every_one_is_an_actor_error_that_says_whether_to_try_again(cls: type[ModelError]) -> None:
    assert issubclass(cls, ActorError)
    assert cls.permanent is (cls.__name__ in PERMANENT.split())


def test_what_autogen_raises_is_what_they_are() -> None:
    for cls in (UnsupportedFeatureError, UnknownModelError, ReplayExhaustedError):
        assert issubclass(cls, ValueError)
    assert issubclass(ModelTimeoutError, TimeoutError)


def test_the_sentences_say_what_to_do() -> None:
    assert str(made(RateLimitError)) == (
        "gpt-4: no (HTTP 429). Send less at once, or give the client more attempts"
    )
    assert str(made(UnknownModelError)) == (
        "model_info is required for the model 'gpt-4x', of which nothing is known. Did you mean 'gpt-4'?"
    )
    assert str(UnknownModelError("x")).endswith("nothing is known.")
    assert "of 1 0.75 are spent or set aside. Raise the budget" in str(made(BudgetExceededError))


def test_a_message_is_not_tried_again_before_the_server_wants_it() -> None:
    outcome = RetryPolicy(base=0.1).decide(1, RateLimitError("m", "slow", 429, 20.0))
    assert 20.0 <= getattr(outcome, "delay") <= 20.1  # noqa: B009
