import contextlib
import dataclasses
import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgpack
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, ConfigDict, SecretStr, field_serializer, field_validator

from callboard.broker import MessageRegistry
from callboard.broker.codec import MessageEntry
from callboard.broker.errors import BrokerError, DecodeError, EncodeError
from callboard.broker.limits import Limits
from tests.unit.broker import shapes


def entry(cls: type[Any], **kwargs: Any) -> MessageEntry:
    return MessageEntry(
        cls, kwargs.get("name", cls.__name__), kwargs.get("version", 1), kwargs.get("upgrades", {})
    )


@pytest.mark.parametrize("value", shapes.ALL, ids=lambda value: type(value).__name__)
def test_every_shape_comes_back(value: Any) -> None:
    registry = MessageRegistry()
    known = registry.entry_for(value)
    back = registry.decode(known.name, known.version, known.encode(value))
    assert back == value
    assert type(back) is type(value)


AS_JSON = (
    shapes.Aliased,
    shapes.Base64,
    shapes.Computed,
    shapes.Extra,
    shapes.Frozen,
    shapes.Image,
    shapes.Meta,
    shapes.Numbers,
    shapes.Parsed,
    shapes.Strict,
    shapes.Weather,
    shapes.Zoo,
)


@pytest.mark.parametrize(
    "value",
    [value for value in shapes.ALL if isinstance(value, AS_JSON)],
    ids=lambda value: type(value).__name__,
)
def test_what_a_person_writes_as_json_is_read(value: BaseModel) -> None:
    assert entry(type(value)).decode(value.model_dump_json(round_trip=True).encode()) == value


class Reading(BaseModel):
    count: int
    text: str
    ratio: float
    done: bool
    maybe: int | None
    when: dt.datetime
    uid: UUID
    price: Decimal
    tags: list[str]
    raw: bytes
    groups: dict[int, set[str]]
    nested: list[dict[str, float]]


FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
READINGS = st.builds(
    Reading,
    count=st.integers(-(2**63), 2**64 - 1),
    text=TEXTS,
    ratio=FINITE,
    done=st.booleans(),
    maybe=st.none() | st.integers(-100, 100),
    when=st.datetimes(timezones=st.sampled_from([None, dt.UTC, dt.timezone(dt.timedelta(minutes=-90))])),
    uid=st.uuids(),
    price=st.decimals(allow_nan=False, allow_infinity=False),
    tags=st.lists(TEXTS, max_size=5),
    raw=st.binary(max_size=50),
    groups=st.dictionaries(st.integers(-5, 500), st.sets(TEXTS, max_size=3), max_size=3),
    nested=st.lists(st.dictionaries(TEXTS, FINITE, max_size=3), max_size=3),
)
READING = entry(Reading)


@given(READINGS)
def test_models_come_back(value: Reading) -> None:
    assert READING.decode(READING.encode(value)) == value


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | FINITE | TEXTS | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=30,
)


@given(st.lists(PLAIN, max_size=5))
def test_lists_come_back(value: list[Any]) -> None:
    known = entry(list, name="list")
    assert known.decode(known.encode(value)) == value


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_a_decode_error(body: bytes) -> None:
    for known in (READING, entry(shapes.Everything), entry(dict, name="dict"), entry(shapes.Strict)):
        try:
            known.decode(body)
        except DecodeError:
            continue


@given(READINGS, st.data())
def test_no_damage_raises_anything_but_a_decode_error(value: Reading, data: st.DataObject) -> None:
    body = bytearray(READING.encode(value))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(DecodeError):
        READING.decode(bytes(body[: data.draw(st.integers(0, len(body)))]))


class Open(BaseModel):
    data: Any


class Holds(BaseModel):
    secret: SecretStr


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (Holds(secret=SecretStr("x")), "secrets stay out of messages"),
        (Open(data={"deep": SecretStr("x")}), "secrets stay out of messages"),
        (Open(data=2**64), "beyond 64 bits"),
        (Open(data=-(2**63) - 1), "beyond 64 bits"),
        (Open(data=float("nan")), "nan is not accepted"),
        (Open(data=[float("inf")]), "inf is not accepted"),
        (Open(data=object()), "there is a object in it"),
        (Open(data={1: "a", "1": "b"}), "the same as text"),
        (Open(data={(1, 2): "a"}), "which can't become text"),
        (Open(data="\ud800"), "surrogates not allowed"),
        (Open(data=[0] * 100_001), "more than 100,000 values"),
    ],
)
def test_what_could_not_be_read_is_not_written(value: BaseModel, why: str) -> None:
    with pytest.raises(EncodeError, match=why) as caught:
        entry(type(value)).encode(value)
    assert caught.value.type_name == type(value).__name__


@pytest.mark.parametrize("value", [2**64, float("nan"), "\ud800", [object()], {None: 1, "None": 2}])
def test_simple_values_that_could_not_be_read_are_not_written(value: Any) -> None:
    with pytest.raises(EncodeError):
        MessageRegistry().entry_for(value).encode(value)


def test_too_deep_values_are_not_written() -> None:
    value: Any = 1
    tree = None
    for level in range(40):
        value = [value]
        tree = shapes.Tree(n=level, below=[tree] if tree else None)
    for deep in (value, Open(data=value), tree):
        with pytest.raises(EncodeError, match="deeper than 32"):
            MessageRegistry().entry_for(deep).encode(deep)


def test_a_value_that_holds_itself_is_not_written() -> None:
    loop: list[Any] = []
    loop.append(loop)
    for value in (loop, Open(data=loop)):
        with pytest.raises(EncodeError):
            MessageRegistry().entry_for(value).encode(value)


def test_a_secret_that_the_class_reveals_is_written() -> None:
    class Key(BaseModel):
        secret: SecretStr

        @field_serializer("secret")
        def reveal(self, value: SecretStr) -> str:
            return value.get_secret_value()

    known = entry(Key)
    assert known.decode(known.encode(Key(secret=SecretStr("x")))).secret.get_secret_value() == "x"


def test_map_keys_become_text_where_no_type_says_what_they_were() -> None:
    class Kind(Enum):
        A = "a"

    known = entry(Open)
    data = {7: "x", None: "y", True: "z", Kind.A: 1, dt.date(2026, 1, 2): 2, b"k": 3, 1.5: 4}
    assert known.decode(known.encode(Open(data=data))).data == {
        "7": "x",
        "None": "y",
        "true": "z",
        "a": 1,
        "2026-01-02": 2,
        "k": 3,
        "1.5": 4,
    }


def test_a_subclass_in_a_base_typed_field_keeps_what_pydantic_keeps() -> None:
    value = shapes.Holder(item=shapes.Sub(a=1, b=2))
    known = entry(shapes.Holder)
    assert known.decode(known.encode(value)) == shapes.Holder.model_validate_json(value.model_dump_json())


def test_private_attributes_do_not_travel() -> None:
    value = shapes.Frozen(a=1)
    value._secret = 5
    known = entry(shapes.Frozen)
    assert known.decode(known.encode(value))._secret == 1


def test_fields_are_read_by_name_and_by_alias() -> None:
    known = entry(shapes.Aliased)
    for body in ({"x": 1, "y": 2}, {"exX": 1, "w": 2}):
        back = known.decode(msgpack.packb(body))
        assert (back.x, back.y) == (1, 2)


def test_a_strict_class_takes_no_other_types() -> None:
    body = msgpack.unpackb(
        entry(shapes.Strict).encode(next(v for v in shapes.ALL if isinstance(v, shapes.Strict)))
    )
    with pytest.raises(DecodeError, match="ratio: Input should be a valid number"):
        entry(shapes.Strict).decode(msgpack.packb({**body, "ratio": "1.5"}))


def test_the_text_of_an_error_names_the_fields_and_never_their_values() -> None:
    with pytest.raises(DecodeError) as caught:
        READING.decode(msgpack.packb({"count": "secret-words", "tags": [1]}))
    assert "Reading: count: Input should be a valid integer" in str(caught.value)
    assert "and 7 more" in str(caught.value)
    assert "secret-words" not in str(caught.value)


def test_a_validator_that_breaks_is_a_decode_error() -> None:
    class Broken(BaseModel):
        a: int

        @field_validator("a")
        @classmethod
        def check(cls, value: int) -> int:
            raise ZeroDivisionError

    with pytest.raises(DecodeError, match="Broken: a validator failed with ZeroDivisionError"):
        entry(Broken).decode(b'{"a":1}')


@pytest.mark.parametrize(
    ("cls", "name", "body", "why"),
    [
        (str, "str", msgpack.packb(1), "the body holds int"),
        (int, "int", msgpack.packb(True), "the body holds bool"),
        (bytes, "bytes", msgpack.packb("a"), "the body holds str"),
        (type(None), "none", msgpack.packb(0), "the body holds int"),
    ],
)
def test_simple_values_are_of_their_own_type(cls: type[Any], name: str, body: bytes, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        entry(cls, name=name).decode(body)


def test_a_whole_number_is_a_float_too() -> None:
    assert entry(float, name="float").decode(msgpack.packb(3)) == 3.0


def test_nan_only_where_the_class_says_so() -> None:
    class Careful(BaseModel):
        value: float

    body = msgpack.packb({"value": float("inf")})
    assert entry(shapes.Unbounded).decode(body).value == float("inf")
    with pytest.raises(DecodeError, match="inf is not accepted"):
        entry(Careful).decode(body)

    @dataclasses.dataclass
    class Loose:
        __pydantic_config__ = ConfigDict(allow_inf_nan=True)
        value: float

    assert entry(Loose).decode(body).value == float("inf")


def test_limits_that_were_set_hold() -> None:
    with pytest.raises(DecodeError, match="the limit is 10"):
        READING.decode(b"\x80" * 11, limits=Limits(max_bytes=10))


def test_older_versions_go_through_their_upgrades() -> None:
    known = entry(
        Open,
        version=3,
        upgrades={1: lambda data: {"middle": data["old"]}, 2: lambda data: {"data": data["middle"]}},
    )
    assert known.decode(b'{"old":1}', 1).data == 1
    assert known.decode(msgpack.packb({"middle": 2}), 2).data == 2
    assert known.decode(b'{"data":3}', 3).data == 3
    assert known.decode(b'{"data":4}').data == 4


def test_an_upgrade_serves_strict_classes_too() -> None:
    class Old(BaseModel):
        model_config = ConfigDict(strict=True)
        when: dt.datetime

    known = entry(Old, version=2, upgrades={1: lambda data: {"when": data["at"]}})
    assert known.decode(b'{"at":"2026-01-02T03:04:05Z"}', 1).when.year == 2026


@pytest.mark.parametrize("version", [0, 3, 4])
def test_other_versions_are_refused(version: int) -> None:
    known = entry(Open, version=2, upgrades={1: lambda data: data})
    with pytest.raises(DecodeError) as caught:
        known.decode(b"{}", version)
    assert caught.value.accepted == (1, 2)
    assert caught.value.name == "Open"


def test_an_upgrade_that_fails_is_a_decode_error() -> None:
    known = entry(Open, version=2, upgrades={1: lambda data: data["missing"]})
    with pytest.raises(DecodeError, match="the upgrade from version 1 failed with KeyError"):
        known.decode(b'{"a":1}', 1)
    with pytest.raises(DecodeError, match="only a map can be upgraded, not a list"):
        known.decode(b"[1]", 1)


def test_a_class_that_pydantic_can_not_describe() -> None:
    class Odd:
        pass

    @dataclasses.dataclass
    class Unknown:
        a: Odd

    with pytest.raises(EncodeError, match="pydantic can't describe the class"):
        entry(Unknown)


@dataclasses.dataclass
class Unset:
    a: int
    b: int = dataclasses.field(init=False)


def test_a_field_that_was_never_set_is_an_encode_error() -> None:
    with pytest.raises(BrokerError, match="has no attribute 'b'"):
        entry(Unset).encode(Unset(1))


# Limits of whoever writes


class Numbers(BaseModel):
    values: list[int]


@pytest.mark.parametrize(
    "make", [list, lambda numbers: Numbers(values=list(numbers)), lambda n: Open(data=list(n))]
)
def test_as_many_values_are_written_as_the_limits_allow(make: Callable[[range], Any]) -> None:
    more = Limits(max_elements=200_000)
    value = make(range(150_000))
    known = MessageRegistry().entry_for(value)
    with pytest.raises(EncodeError, match="more than 100,000 values"):
        known.encode(value)
    assert known.decode(known.encode(value, more), limits=more) == value


@pytest.mark.parametrize(
    "make", [list, lambda numbers: Numbers(values=list(numbers)), lambda n: Open(data=list(n))]
)
def test_no_more_values_are_written_than_the_limits_allow(make: Callable[[range], Any]) -> None:
    value = make(range(5_000))
    with pytest.raises(EncodeError, match="more than 1,000 values"):
        MessageRegistry().entry_for(value).encode(value, Limits(max_elements=1_000))


@pytest.mark.parametrize(
    "value", [[[[1]]], Open(data=[[1]]), shapes.Tree(n=1, below=[shapes.Tree(n=2)]), Numbers(values=[])]
)
def test_nothing_is_written_that_is_deeper_than_the_limits_allow(value: Any) -> None:
    known = MessageRegistry().entry_for(value)
    flat = Limits(max_depth=1)
    with pytest.raises(EncodeError, match="deeper than 1"):
        known.encode(value, flat)
    deep = Limits(max_depth=4)
    assert known.decode(known.encode(value, deep), limits=deep) == value


def test_a_class_of_few_levels_is_written_within_few_levels() -> None:
    class Point(BaseModel):
        x: int

    assert entry(Point).encode(Point(x=1), Limits(max_depth=1))
