"""What several readers of one body get: each a value of its own, and none sees what another does with its own."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import pytest
from pydantic import BaseModel, model_validator

from callboard.broker import MessageRegistry
from callboard.broker.codec import SharedBody
from callboard.broker.errors import DecodeError
from callboard.broker.limits import DEFAULT, unpack
from tests.unit.broker import shapes


def shared_by(readers: int) -> SharedBody:
    shared = SharedBody()
    shared.readers = readers
    return shared


def changeable(value: Any) -> Iterator[int]:
    """The ids of all in a value that can be changed."""
    if isinstance(value, dict):
        yield id(value)
        for item in value.values():
            yield from changeable(item)
    elif isinstance(value, list | tuple | set | frozenset):
        if isinstance(value, list | set):
            yield id(value)
        for item in value:
            yield from changeable(item)
    elif hasattr(value, "__dict__") and not isinstance(value, Enum):
        yield from changeable(vars(value))


@pytest.mark.parametrize("value", shapes.ALL, ids=lambda value: type(value).__name__)
def test_two_readers_get_equal_values_and_share_nothing_that_can_be_changed(value: Any) -> None:
    registry, shared = MessageRegistry(), shared_by(3)
    known = registry.entry_for(value)
    body = known.encode(value)
    first, second = (registry.decode(known.name, known.version, body, DEFAULT, shared) for _ in range(2))
    assert first == second == value
    assert not set(changeable(first)) & set(changeable(second))


class Sorted(BaseModel):
    """Its validator changes the data that it is given."""

    first: int = 0
    rest: list[int]

    @model_validator(mode="before")
    @classmethod
    def take_first(cls, data: Any) -> Any:
        data["first"] = data["rest"].pop(0)
        return data


def test_a_class_that_changes_its_data_gets_data_of_its_own() -> None:
    registry, shared = MessageRegistry(), shared_by(2)
    registry.register(Sorted)
    body = b"\x81\xa4rest\x93\x01\x02\x03"
    read = [registry.decode("Sorted", 1, body, DEFAULT, shared) for _ in range(2)]
    assert read == [Sorted.model_construct(first=1, rest=[2, 3])] * 2


def test_a_body_is_unpacked_once_and_kept_until_the_last_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    times = []

    def counted(*given: Any, **named: Any) -> Any:
        times.append(1)
        return unpack(*given, **named)

    monkeypatch.setattr("callboard.broker.codec.unpack", counted)
    shared = shared_by(2)
    assert [shared.unpacked(b"\x81\xa1a\x01", DEFAULT, False) for _ in range(2)] == [{"a": 1}] * 2
    assert len(times) == 1
    shared.unpacked(b"\x81\xa1a\x01", DEFAULT, False)
    assert len(times) == 2, "nothing is kept for readers that are not known of"


def test_other_limits_are_looked_at_anew_and_junk_is_junk_for_every_reader() -> None:
    shared = shared_by(4)
    body = b"\x81\xa1a\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00"
    assert "a" in shared.unpacked(body, DEFAULT.with_nan(), False)
    for _ in range(2):
        with pytest.raises(DecodeError, match="nan is not accepted"):
            shared.unpacked(body, DEFAULT, False)
