from __future__ import annotations

import json

import pytest

from callboard.broker.remote_errors import decode_error, encode_error
from callboard.broker.retry import RetryPolicy
from callboard.foundation import ActorError
from callboard.models import RequestUsage, errors
from callboard.models.errors import (
    BadRequestError,
    BudgetExceededError,
    ModelError,
    ModelNotFoundError,
    ModelTimeoutError,
    RateLimitError,
)
from callboard.models.info import get_info
from callboard.runtime.errors import register_errors

PERMANENT = """QuotaExceededError ContextLengthError ContentFilterError AuthenticationError BadRequestError
    UnsupportedParameterError ModelNotFoundError BudgetExceededError"""


MODEL_ERRORS = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, ModelError)]


def made(cls: type[ModelError]) -> ModelError:
    """One error of a class."""
    if cls is BudgetExceededError:
        return BudgetExceededError("gpt-4", unit="USD", limit=1.0, spent=0.75, needed=0.5)
    return cls("gpt-4", "no", 429, 1.5)


def test_the_tree_in_the_docstring_is_complete() -> None:
    assert all(cls.__name__ in (errors.__doc__ or "") for cls in MODEL_ERRORS)


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


def test_outages_say_so() -> None:
    outages = {cls.__name__ for cls in MODEL_ERRORS if cls.is_outage}
    server = {"RateLimitError", "ModelOverloadedError", "ModelConnectionError", "ModelTimeoutError"}
    assert outages == {*server, "BudgetHeldError"}


def test_what_was_paid_for_crosses_processes() -> None:
    register_errors()
    error = RateLimitError("m", "slow", 429, 1.5)
    error.charge(RequestUsage(3, 2))
    error.charge(RequestUsage(1, 1))
    back = decode_error(encode_error(error))
    assert isinstance(back, RateLimitError)
    assert back.usage == RequestUsage(4, 3)
    assert back.retry_after == 1.5


def test_errors_have_the_bases_that_autogen_raises() -> None:
    for cls in (BadRequestError, ModelNotFoundError):
        assert issubclass(cls, ValueError)
    assert issubclass(ModelTimeoutError, TimeoutError)


def test_the_sentences_name_a_remedy() -> None:
    assert str(made(RateLimitError)) == (
        "gpt-4: no (HTTP 429). Send less at once, or give the client more attempts"
    )
    with pytest.raises(ModelNotFoundError) as unknown:
        get_info("gpt-4x")
    assert str(unknown.value) == (
        "gpt-4x: model_info is required, for nothing is known of this model; a row in the file of CALLBOARD_MODELS is "
        "one for all programs. Did you mean 'gpt-4'?"
    )
    assert (
        str(ModelNotFoundError("x", "no", 404)) == "x: no (HTTP 404). Check the model's name and the base_url"
    )
    assert "of 1 for total 0.75 are spent or set aside. Raise the budget" in str(made(BudgetExceededError))


def test_a_message_is_not_tried_again_before_the_server_wants_it() -> None:
    outcome = RetryPolicy(base=0.1).decide(1, RateLimitError("m", "slow", 429, 20.0))
    assert 20.0 <= getattr(outcome, "delay") <= 20.1  # noqa: B009
