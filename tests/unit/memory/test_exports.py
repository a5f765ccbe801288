"""What the package offers, and what it does not load for it."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import memory
from memory import errors

HEAVY = ("chromadb", "torch", "sentence_transformers", "transformers", "numpy", "tokenizers", "openai")


def test_every_name_that_is_offered_is_there() -> None:
    assert memory.__all__ == sorted(memory.__all__)
    assert [name for name in memory.__all__ if getattr(memory, name).__name__ != name] == []
    assert set(memory.__all__) <= set(dir(memory))
    with pytest.raises(AttributeError, match="has no attribute 'Memroy'"):
        _ = getattr(memory, "Memroy")  # noqa: B009 - a type checker would refuse it


@pytest.mark.parametrize(
    "code",
    [
        "import memory",
        "import actors",
        "import actors, memory; [getattr(memory, name) for name in memory.__all__]",
        "from actors.memory_service import memory_service; from actors.memory_client import MemoryServiceClient",
    ],
)
def test_nothing_heavy_is_imported(code: str) -> None:
    show = f"import sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; {show}"], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"


def test_errors_have_one_root_and_are_made_again_from_their_arguments() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert all(issubclass(one, errors.LongTermMemoryError) for one in classes)
    for cls in set(classes) - {errors.LongTermMemoryError}:
        names = tuple(inspect.signature(cls).parameters)
        error = cls(*names)
        assert {name: getattr(error, name) for name in names} == {name: name for name in names}
        assert str(cls(*error.args)) == str(error)
        assert error.args == names
