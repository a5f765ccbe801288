"""The names that the package offers, and the packages that importing them does not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

from callboard import memory
from callboard.foundation import CallboardError
from callboard.memory import errors

HEAVY = ("chromadb", "torch", "sentence_transformers", "transformers", "numpy", "tokenizers", "openai")


def test_every_name_that_is_offered_is_there() -> None:
    assert memory.__all__ == sorted(memory.__all__)
    assert [name for name in memory.__all__ if getattr(memory, name).__name__ != name] == []
    assert set(memory.__all__) <= set(dir(memory))
    with pytest.raises(AttributeError, match=r"No callboard\.memory attribute Memroy"):
        _ = getattr(memory, "Memroy")  # noqa: B009 - a type checker would refuse it


@pytest.mark.parametrize(
    "code",
    [
        "import callboard.memory",
        "import callboard",
        "import callboard; from callboard import memory; [getattr(memory, name) for name in memory.__all__]",
        "from callboard.memory_service import MemoryServiceClient, memory_service",
    ],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    show = f"import sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; {show}"], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_errors_have_one_root_and_are_made_again_from_their_arguments() -> None:
    classes = {
        one for one in vars(errors).values() if isinstance(one, type) and issubclass(one, CallboardError)
    }
    assert all(issubclass(one, errors.LongTermMemoryError | ValueError) for one in classes - {CallboardError})
    for cls in classes - {CallboardError, errors.LongTermMemoryError}:
        names = cls.field_names
        error = cls(*names) if cls is not errors.ContextTooSmallError else cls(1_234)
        assert "{" not in str(error)
        assert str(cls(*error.args)) == str(error)
        assert error.args == tuple(vars(error).values())
