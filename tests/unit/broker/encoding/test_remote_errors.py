import asyncio
import sys
from typing import Any

import pytest
from hypothesis import given, strategies as st

from callboard.broker import errors, remote_errors
from callboard.broker.codec import pack
from callboard.broker.errors import BrokerError, RemoteError
from callboard.broker.remote_errors import decode_error, encode_error, register_error, register_errors_of


class KnownError(Exception):
    def __init__(self, what: str, *, code: int) -> None:
        super().__init__(what)
        self.code = code
        self.pair = (1, "a")
        self._hidden = 1


class EndedError(BaseException):
    """As AutoGen's TerminatedException, no Exception; registered, so somebody wants it to come back."""


class UnknownError(Exception):
    pass


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_errors, "_known", {})
    monkeypatch.setattr(remote_errors, "_modules", set())
    register_error(KnownError, EndedError)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def not_there() -> OSError:
    return FileNotFoundError(2, "No such file or directory", "/nowhere")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("a", 1),
        ValueError(),
        KeyError("k"),
        ZeroDivisionError("division by zero"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        not_there(),
        OSError("plain"),
        TimeoutError(),
        ImportError("m"),
        SyntaxError("s", ("f", 1, 2, "t")),
        EndedError("over"),
        errors.FencedError("w"),
        errors.PayloadTooLargeError(5, 3),
        errors.unaccepted_version(name="n", version=4, accepted=[1, 2]),
        errors.RequestTimeoutError("a/b", 3.0),
        errors.ServerNotFoundError(["/usr/bin"]),
        errors.OverloadedError(stream="topic:t", seconds=2.0),
        errors.UndeliverableError("a"),
        errors.SettingsError("s"),
        RemoteError("t", "m", "trace"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_known_errors_come_back_as_themselves(error: BaseException) -> None:
    back = decode_error(encode_error(raised(error)))
    assert type(back) is type(error)
    assert str(back) == str(error)
    if isinstance(error, OSError) and isinstance(back, OSError) and not isinstance(error, BrokerError):
        assert (back.errno, back.filename) == (error.errno, error.filename)
    assert "raised in another agent" in back.__notes__[0]
    assert type(error).__name__ in back.__notes__[0]


def test_attributes_come_along_as_plain_data() -> None:
    back = decode_error(encode_error(KnownError("x", code=7)))
    assert isinstance(back, KnownError)
    assert (str(back), back.code, list(back.pair)) == ("x", 7, [1, "a"])
    assert not hasattr(back, "_hidden")


def test_every_class_of_the_broker_keeps_its_fields() -> None:
    error = errors.RequestTimeoutError("a/b", 3.0)
    back = decode_error(encode_error(error))
    assert isinstance(back, errors.RequestTimeoutError)
    assert (back.recipient, back.seconds) == ("a/b", 3.0)


@pytest.mark.parametrize(
    "error",
    [
        UnknownError("why", 1),
        SystemExit(3),
        KeyboardInterrupt(),
        StopIteration(4),
        StopAsyncIteration(),
        asyncio.CancelledError(),
        ExceptionGroup("g", [ValueError(1)]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_others_are_described(error: BaseException) -> None:
    back = decode_error(encode_error(raised(error)))
    assert isinstance(back, RemoteError)
    assert back.type_name.endswith(type(error).__name__)
    assert back.message == str(error)
    assert "Traceback" in back.traceback


def test_nothing_is_imported_because_an_error_names_it() -> None:
    described = {"text": "x", "trace": "", "args": [], "fields": {}}
    for name in (
        "colorsys.rgb_to_hsv",
        "os.system",
        "eval",
        "print",
        "callboard.broker.errors.annotations",
        "callboard.broker.errors.Iterable",
    ):
        back = decode_error(pack({"type": name, **described}))
        assert isinstance(back, RemoteError)
        assert back.type_name == name


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise KeyError("no")

    __repr__ = __str__


@pytest.mark.parametrize(
    "error",
    [
        UnprintableError(),
        ValueError(UnprintableError()),
        ValueError("\ud800"),
        ValueError(2**80),
        ValueError(float("nan")),
        ValueError(object()),
        ValueError("x" * 10**6),
        ValueError(["x" * 10_000] * 10_000),
        ValueError([[[[[[[[1]]]]]]]]),
        ValueError({1: {2: object()}}),
    ],
    ids=[
        "unprintable",
        "holds unprintable",
        "surrogate",
        "large number",
        "nan",
        "object",
        "long",
        "many",
        "deep",
        "keys",
    ],
)
def test_any_error_can_be_written_and_stays_small(error: BaseException) -> None:
    body = encode_error(raised(error))
    assert len(body) <= remote_errors.MAX_BODY
    assert isinstance(decode_error(body), ValueError | RemoteError)


def test_a_class_that_can_not_be_made_again_is_described() -> None:
    class StubbornError(Exception):
        def __new__(cls, *args: Any) -> "StubbornError":
            if not args or args[0] != "first":
                raise RuntimeError
            return super().__new__(cls, *args)

    register_error(StubbornError)
    error = StubbornError("first")
    error.args = ("second",)
    assert isinstance(decode_error(encode_error(error)), RemoteError)


@given(
    st.binary(max_size=60)
    | st.dictionaries(st.sampled_from(["type", "text", "trace", "args", "fields"]), st.text()).map(pack)
)
def test_broken_bytes_are_an_error_too(body: bytes) -> None:
    assert isinstance(decode_error(body), BrokerError | Exception)


MADE_UP: dict[str, dict[str, Any]] = {
    "notes that are no list": {"fields": {"__notes__": "x"}},
    "a method": {"fields": {"add_note": "x"}},
    "a class": {"fields": {"__class__": "x"}},
    "a position far outside": {
        "type": "UnicodeDecodeError",
        "args": ["utf-8", b"x", -(10**12), 1 - 10**12, ""],
    },
    "a position set later": {
        "type": "UnicodeDecodeError",
        "args": ["utf-8", b"x", 0, 1, ""],
        "fields": {"start": -(10**12), "end": 1 - 10**12},
    },
    "nothing of what its text is made of": {"type": "callboard.broker.errors.DecodeError"},
    "a position behind the text": {
        "type": "UnicodeEncodeError",
        "args": ["utf-8", "x", 10**12, 10**12 + 1, ""],
    },
}


@pytest.mark.parametrize("kind", MADE_UP)
def test_errors_that_nobody_raised_break_nothing(kind: str) -> None:
    """Some of these ended the process that read them."""
    described = {"type": "ValueError", "text": "x", "trace": "somewhere", "args": [], "fields": {}}
    error = decode_error(pack(described | MADE_UP[kind]))
    assert str(error) is not None
    assert isinstance(error, Exception)


def test_a_unicode_error_comes_back_as_itself() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        b"a\xff".decode()
    made = decode_error(encode_error(caught.value))
    assert type(made) is UnicodeDecodeError
    assert str(made) == str(caught.value)


def test_a_module_of_errors_is_imported_when_one_of_them_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "zoneinfo", raising=False)
    monkeypatch.delitem(sys.modules, "zoneinfo._common", raising=False)
    register_errors_of("zoneinfo._common")
    assert "zoneinfo._common" not in sys.modules
    described = {"text": "no such zone", "trace": "", "args": ["no such zone"], "fields": {}}
    back = decode_error(pack({"type": "zoneinfo._common.ZoneInfoNotFoundError", **described}))
    assert isinstance(back, KeyError)
    assert type(back).__name__ == "ZoneInfoNotFoundError"


@pytest.mark.parametrize("name", ["load_data", "struct", "KeyError", "nothing"])
def test_what_is_no_error_of_that_module_is_described(name: str) -> None:
    register_errors_of("zoneinfo._common")
    described = {"text": "x", "trace": "", "args": [], "fields": {}}
    back = decode_error(pack({"type": f"zoneinfo._common.{name}", **described}))
    assert isinstance(back, RemoteError)
    assert back.type_name == f"zoneinfo._common.{name}"
