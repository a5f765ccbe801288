import inspect
import pickle

import pytest

from callboard import errors
from callboard.errors import did_you_mean
from callboard.foundation import ActorError

CLASSES = [
    cls
    for _, cls in inspect.getmembers(errors, inspect.isclass)
    if issubclass(cls, ActorError) and cls is not ActorError
]


def example(cls: type[ActorError]) -> ActorError:
    """An error with a text for each of its fields."""
    return cls(*(["one", "two"] if name == "known" else f"<{name}>" for name in cls.field_names))


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_makes_a_sentence_of_its_data(cls: type[ActorError]) -> None:
    error = example(cls)
    assert str(error) or not cls.field_names
    for name in vars(error):
        assert hasattr(error, name)


@pytest.mark.parametrize("cls", CLASSES)
def test_every_error_can_be_rebuilt_elsewhere(cls: type[ActorError]) -> None:
    error = example(cls)
    assert str(cls(*error.args)) == str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("cls", CLASSES)
def test_the_tree_in_the_docstring_names_every_error(cls: type[ActorError]) -> None:
    assert f"─ {cls.__name__}" in (errors.__doc__ or "")


def test_the_names_of_autogen_take_any_text() -> None:
    for cls in (
        errors.CantHandleException,
        errors.UndeliverableException,
        errors.MessageDroppedException,
        errors.NotAccessibleError,
    ):
        assert str(cls("any text")) == "any text"


def test_did_you_mean() -> None:
    assert did_you_mean("countr", ["writer", "counter"]) == "Did you mean 'counter'?"
    assert did_you_mean("x", ["writer", "counter"]) == "There are: counter, writer."
    assert did_you_mean("x", []) == "None are declared yet."
