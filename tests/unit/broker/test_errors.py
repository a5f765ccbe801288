import re
import typing

import pytest

from callboard.broker import errors
from callboard.broker.errors import (
    BrokerError,
    DecodeError,
    EncodeError,
    InvalidIdError,
    PayloadTooLargeError,
    RemoteError,
    RequestTimeoutError,
    ServerNotFoundError,
    SubscriptionError,
    bad_url,
    unaccepted_version,
    unknown_message,
)

CLASSES = [
    value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, BrokerError)
]


def test_the_tree_in_the_docstring_names_every_class_below_its_base() -> None:
    assert errors.__doc__ is not None
    drawn = re.findall(r"^([│ ├└─]*)(\w+Error)\b", errors.__doc__, re.MULTILINE)
    path: dict[int, str] = {}
    bases = {}
    for lead, name in drawn:
        path[len(lead) // 4] = name
        bases[name] = path.get(len(lead) // 4 - 1)
    assert bases == {
        "CallboardError": None,
        **{cls.__name__: cls.__bases__[0].__name__ for cls in CLASSES},
    }


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_is_described_and_typed(cls: type[BrokerError]) -> None:
    assert cls.__doc__
    hints = typing.get_type_hints(cls)
    assert set(cls.field_names) <= hints.keys()


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (bad_url("redis:/x", "no host"), "the server URL 'redis:/x' can't be used: no host"),
        (
            InvalidIdError("agent type", "a b", "letters"),
            "'a b' is not a valid agent type: it has to be made of letters",
        ),
        (
            unknown_message("Task"),
            "unknown message type 'Task': register its class here (a handler for it does)",
        ),
        (
            unaccepted_version(name="Task", version=3, accepted=[2, 1]),
            "Task version 3 is not accepted here, only 1, 2",
        ),
        (EncodeError("Task", "why"), "Task can't be sent: why"),
        (DecodeError("why"), "why"),
        (RemoteError("app.Boom", "why"), "app.Boom: why"),
        (RemoteError("app.Boom", ""), "app.Boom"),
    ],
)
def test_sentences(error: BrokerError, text: str) -> None:
    assert str(error) == text


def test_sentences_say_what_to_do() -> None:
    assert "max_payload" in str(PayloadTooLargeError(2_000_000, 1_048_576))
    assert "CALLBOARD_URL" in str(ServerNotFoundError(["/usr/bin"]))
    assert "request_timeout" in str(RequestTimeoutError("writer/x", 30.0))


def test_a_password_in_a_url_is_not_shown() -> None:
    text = str(bad_url("redis://user:secret@host:6379/x", "why"))
    assert "secret" not in text
    assert "host:6379" in text


def test_builtins_that_callers_catch() -> None:
    assert issubclass(SubscriptionError, ValueError)
    assert issubclass(SubscriptionError, LookupError)
    assert issubclass(RequestTimeoutError, TimeoutError)
    assert issubclass(EncodeError, TypeError)


def test_what_would_fail_again_says_so() -> None:
    assert all(cls("x", "y").permanent for cls in (EncodeError,))
    assert unknown_message("x").permanent
    assert not getattr(RequestTimeoutError("x", 1), "permanent", False)
