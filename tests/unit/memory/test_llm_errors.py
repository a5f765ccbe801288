import pytest

from actors.runtime_errors import register_errors
from broker.remote_errors import decode_error, encode_error
from memory import llm_errors
from memory.llm_errors import (
    LLM_ERRORS,
    ContextSettingError,
    ContextTooSmallError,
    ImageError,
    SummaryError,
)


def test_the_list_is_complete() -> None:
    assert set(LLM_ERRORS) == {c for c in vars(llm_errors).values() if isinstance(c, type)}


@pytest.mark.parametrize(
    "error",
    [
        ImageError("it is a cat"),
        ContextSettingError("keep", "0", "at least 1"),
        ContextTooSmallError(1_234),
        SummaryError(5),
    ],
    ids=lambda error: type(error).__name__,
)
def test_they_cross_processes_and_are_value_errors(error: ValueError) -> None:
    register_errors()
    back = decode_error(encode_error(error))
    assert type(back) is type(error)
    assert (str(back), vars(back) | vars(error)) == (str(error), vars(back))
    assert isinstance(back, ValueError)
