"""Messages with nested models of any subclass, as bytes and back. The real packages are not needed for this."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import pytest
from pydantic import BaseModel, RootModel, SerializeAsAny

from callboard.broker.codec import MessageRegistry
from callboard.broker.errors import DecodeError, EncodeError, SettingsError
from callboard.broker.limits import Limits
from callboard.errors import DeclarationError
from callboard.interop.messages import CLASS, Carried, HostedRegistry, is_open, tag_of


class Said(BaseModel, ABC):
    source: str
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    @abstractmethod
    def text(self) -> str: ...


class Text(Said):
    content: str

    def text(self) -> str:
        return self.content


class Number(Said):
    content: int

    def text(self) -> str:
        return str(self.content)


Content = TypeVar("Content", bound=BaseModel)


class Point(BaseModel):
    x: int


class Structured(Said, Generic[Content]):
    content: Content

    def text(self) -> str:
        return self.content.model_dump_json()


class Start(BaseModel):
    messages: list[Said] | None = None
    by_name: dict[str, Said] = {}


@dataclass
class Response:
    message: SerializeAsAny[Said]
    inner: list[SerializeAsAny[Said]] = field(default_factory=list)


class Answered(BaseModel):
    response: SerializeAsAny[Response]


class Many(RootModel[list[Said]]):
    pass


@dataclass
class Note:
    text: str


def there_and_back(value: Any, token: str | None = None, reader: HostedRegistry | None = None) -> Carried:
    writer = HostedRegistry()
    entry = writer.entry_for(Carried(value, token))
    body = entry.encode(Carried(value, token), Limits())
    back = (reader or writer).decode(entry.name, entry.version, body)
    return back if isinstance(back, Carried) else Carried(back)


@pytest.mark.parametrize(
    "value",
    [
        Start(messages=[Text(source="a", content="hi"), Number(source="b", content=3)]),
        Start(by_name={"one": Number(source="b", content=3)}),
        Start(),
        Start(messages=[Structured[Point](source="a", content=Point(x=1))]),
        Answered(response=Response(Text(source="a", content="x"), [Number(source="b", content=1)])),
        Many([Text(source="a", content="x")]),
        Note("plain"),
        Text(source="a", content="on its own"),
        "text",
        7,
        None,
        ["a", {"b": [1]}],
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("token", [None, "token:1"])
def test_a_message_comes_back_as_it_was(value: Any, token: str | None) -> None:
    back = there_and_back(value, token)
    assert back.message == value
    assert type(back.message) is type(value)
    assert back.token == token


def test_another_process_finds_the_classes_that_a_message_may_hold() -> None:
    reader = HostedRegistry()
    reader.add_class(Start)
    value = Start(
        messages=[Text(source="a", content="hi"), Structured[Point](source="a", content=Point(x=1))]
    )
    assert there_and_back(value, reader=reader).message == value


def test_a_class_that_no_field_may_hold_is_refused() -> None:
    reader = HostedRegistry()
    entry = reader.add_class(Start)
    body = entry.encode(Carried(Start(messages=[Text(source="a", content="hi")])), Limits())
    forged = body.replace(tag_of(Text).encode(), f"{__name__}:Note".encode().ljust(len(tag_of(Text))))
    with pytest.raises(DecodeError, match="this process has no class"):
        reader.decode("Start", 1, forged)


def test_an_unknown_message_is_named() -> None:
    with pytest.raises(DecodeError, match="unknown message type"):
        there_and_back(Note("a"), reader=HostedRegistry())


def test_fields_that_do_not_fit_are_named_without_their_values() -> None:
    registry = HostedRegistry()
    registry.add_class(Note)
    with pytest.raises(DecodeError, match="look at text") as caught:
        registry.decode("Note", 1, b'{"text": {"secret": 1}}')
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("body", [b'{"other": 1}', b"[1]"])
def test_a_plain_value_without_a_value_is_refused(body: bytes) -> None:
    with pytest.raises(DecodeError, match="no value"):
        HostedRegistry().decode("autogen.value", 1, body)


def test_a_body_of_ours_is_read() -> None:
    registry = HostedRegistry()
    registry.add_class(Note)
    assert registry.decode("Note", 1, b'{"text": "by hand"}') == Carried(Note("by hand"))


@pytest.mark.parametrize("value", ["text", 7, None, Note("a")])
def test_agents_of_ours_read_what_needs_no_token(value: Any) -> None:
    theirs, ours = HostedRegistry(), MessageRegistry()
    ours.register(Note)
    entry = theirs.entry_for(Carried(value))
    assert ours.decode(entry.name, entry.version, entry.encode(Carried(value), Limits())) == value


def test_agents_of_ours_pass_over_a_token() -> None:
    theirs, ours = HostedRegistry(), MessageRegistry()
    ours.register(Note)
    value = Carried(Note("a"), "token:1")
    assert ours.decode("Note", 1, theirs.entry_for(value).encode(value, Limits())) == Note("a")


def test_what_can_not_be_written_is_named() -> None:
    class Plain:
        pass

    class Holder(BaseModel):
        anything: Any

    with pytest.raises(DeclarationError, match="Plain can't leave the process"):
        HostedRegistry().entry_for(Carried(Plain()))
    with pytest.raises(EncodeError, match="Holder"):
        there_and_back(Holder(anything=Plain()))


def test_two_classes_of_one_name_are_refused() -> None:
    registry = HostedRegistry()
    registry.add_class(Note)
    other = type("Note", (BaseModel,), {"__module__": "elsewhere"})
    with pytest.raises(SettingsError, match="has that name"):
        registry.add_class(other)


def test_only_models_that_derive_from_another_are_tagged() -> None:
    assert [is_open(cls) for cls in (Text, Structured[Point], Point, Note, str)] == [
        True,
        True,
        False,
        False,
        False,
    ]
    assert CLASS.encode() not in HostedRegistry().add_class(Note).encode(Carried(Note("a")), Limits())


def test_generic_classes_are_told_apart_by_what_they_were_made_with() -> None:
    class Other:
        class Point(BaseModel):
            x: int

    assert tag_of(Structured[Point]) != tag_of(Structured[Other.Point])


def test_events_of_different_kinds_are_counted_apart() -> None:
    registry = HostedRegistry()

    class Shown(BaseModel):
        message: Said

    chunk, result = (
        Carried(Shown(message=message))
        for message in (Text(source="a", content="x"), Number(source="a", content=1))
    )
    natures = [registry.entry_for(one).nature(one) for one in (chunk, result, Carried("text"))]
    assert natures == ["Shown Text", "Shown Number", "str"]
