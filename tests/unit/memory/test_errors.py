import pytest

from callboard.broker.remote_errors import decode_error, encode_error
from callboard.memory.errors import ContextTooSmallError, ImageError, MemoryValueError, SummaryError
from callboard.runtime.errors import register_errors


@pytest.mark.parametrize(
    "error",
    [
        ImageError("it is a cat"),
        MemoryValueError("keep", "0", "at least 1"),
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
