"""Message classes of every shape that has to survive the way through bytes."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import pathlib
import typing as t
import uuid
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, TypeVar, Union

from pydantic import (
    AliasChoices,
    AnyUrl,
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    Json,
    PrivateAttr,
    RootModel,
    computed_field,
)
from pydantic_core import CoreSchema, core_schema

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    TWO = 2


class Level(enum.IntEnum):
    LOW = 1


class Tree(BaseModel):
    n: int
    below: list[Tree] | None = None


@dataclasses.dataclass
class Point:
    x: int
    label: Optional[str] = None  # noqa: UP045  (the spelling AutoGen's users have)
    made: int = dataclasses.field(init=False, default=3)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Path:
    points: list[Point]
    tree: Tree
    either: Union[Point, Tree, int]  # noqa: UP007
    by_name: dict[str, Point] = dataclasses.field(default_factory=dict)


class Everything(BaseModel):
    when: dt.datetime
    day: dt.date
    clock: dt.time
    span: dt.timedelta
    uid: uuid.UUID
    price: decimal.Decimal
    colour: Colour
    level: Level
    numbers: set[int]
    blobs: frozenset[bytes]
    pair: tuple[int, str]
    path: pathlib.Path
    raw: bytes
    by_number: dict[int, str]
    by_uid: dict[uuid.UUID, int]
    by_day: dict[dt.date, int]
    by_level: dict[Level, int]
    by_flag: dict[bool, int]
    url: AnyUrl
    tree: Tree
    anything: Any
    literal: Literal["x", 2]


class Aliased(BaseModel):
    x: int = Field(alias="exX")
    y: int = Field(validation_alias=AliasChoices("why", "w"))


class Crossed(BaseModel):
    a: int = Field(alias="b")
    b: int = Field(alias="a")


class Computed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    a: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return self.a * 2


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str]


class Zoo(BaseModel):
    animals: list[Annotated[Cat | Dog, Field(discriminator="kind")]]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    when: dt.datetime
    numbers: set[int]
    uid: uuid.UUID
    ratio: float
    tree: Tree
    colour: Colour
    price: decimal.Decimal
    span: dt.timedelta
    path: pathlib.Path


class StrictBytes(BaseModel):
    model_config = ConfigDict(strict=True)
    when: dt.datetime
    raw: bytes


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True)
    a: int
    _secret: int = PrivateAttr(default=1)


class Box(BaseModel, Generic[T]):
    item: T


class Unbounded(BaseModel):
    model_config = ConfigDict(allow_inf_nan=True)
    value: float


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Parsed(BaseModel):
    numbers: Json[list[int]]


class Numbers(RootModel[list[int]]):
    pass


class Pair(NamedTuple):
    a: int
    b: str


class Base64(BaseModel):
    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    raw: bytes
    coded: Base64Bytes


class Celsius:
    """A class of somebody else that pydantic reads from a number in JSON, and takes only as itself from python."""

    def __init__(self, degrees: int) -> None:
        self.degrees = degrees

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Celsius) and other.degrees == self.degrees

    def __hash__(self) -> int:
        return hash(self.degrees)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from_number = core_schema.no_info_after_validator_function(cls, core_schema.int_schema())
        return core_schema.json_or_python_schema(
            json_schema=from_number,
            python_schema=core_schema.is_instance_schema(cls),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda value: value.degrees),
        )


class Weather(BaseModel):
    now: Celsius


class Matrix:
    """Says only how it is written in JSON."""

    def __init__(self, rows: list[list[int]]) -> None:
        self.rows = rows

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Matrix) and other.rows == self.rows

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        rows = core_schema.list_schema(core_schema.list_schema(core_schema.int_schema()))
        return core_schema.union_schema(
            [core_schema.is_instance_schema(cls), core_schema.no_info_after_validator_function(cls, rows)],
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda value: value.rows, when_used="json"
            ),
        )


class Image(BaseModel):
    pixels: Matrix


class Choice(BaseModel):
    raw: bytes | str
    word: int | str
    number: float | int
    maybe: Optional[Tree] = None  # noqa: UP045


class Meta(BaseModel):
    data: dict[str, t.Any]


class Base(BaseModel):
    a: int


class Sub(Base):
    b: int = 0


class Holder(BaseModel):
    item: Base


NOW = dt.datetime(2026, 11, 21, 5, 30, 1, 123456, dt.timezone(dt.timedelta(hours=2)))
UID = uuid.UUID(int=2**127 + 5)

ALL: list[Any] = [
    Everything(
        when=NOW,
        day=NOW.date(),
        clock=NOW.time(),
        span=dt.timedelta(days=-3, microseconds=7),
        uid=UID,
        price=decimal.Decimal("1.10"),
        colour=Colour.TWO,
        level=Level.LOW,
        numbers={1, 2},
        blobs=frozenset({b"\xff"}),
        pair=(1, "a"),
        path=pathlib.Path("a/b"),
        raw=b"\xff\x00",
        by_number={1: "a"},
        by_uid={UID: 2},
        by_day={NOW.date(): 1},
        by_level={Level.LOW: 1},
        by_flag={True: 1, False: 0},
        url=AnyUrl("http://example.org/z"),
        tree=Tree(n=1, below=[Tree(n=2)]),
        anything={"k": [1, {"z": None}]},
        literal=2,
    ),
    Aliased.model_validate({"exX": 1, "why": 2}),
    Crossed.model_validate({"a": 1, "b": 2}),
    Computed(a=1),
    Zoo(animals=[Cat(lives=7), Dog(tricks=["sit"])]),
    Strict(
        when=NOW,
        numbers={1},
        uid=UID,
        ratio=1.5,
        tree=Tree(n=1),
        colour=Colour.RED,
        price=decimal.Decimal("1.0"),
        span=dt.timedelta(1),
        path=pathlib.Path("a"),
    ),
    StrictBytes(when=NOW, raw=b"\xff"),
    Frozen(a=1),
    Box[int](item=1),
    Box[list[Point]](item=[Point(1)]),
    Unbounded(value=float("inf")),
    Extra.model_validate({"a": 1, "z": [1], "y": {"q": 1}}),
    Parsed.model_validate({"numbers": "[1,2]"}),
    Numbers([1, 2]),
    Pair(1, "x"),
    Base64(raw=b"\xff", coded=b"YWJj"),
    Weather(now=Celsius(3)),
    Image(pixels=Matrix([[1, 2], [3]])),
    Choice(raw=b"\xfe", word="5", number=1),
    Choice(raw="text", word=5, number=1.5, maybe=Tree(n=1)),
    Point(1, "a"),
    Path(points=[Point(1), Point(2, "x")], tree=Tree(n=1), either=Point(4), by_name={"p": Point(3)}),
    Path(points=[], tree=Tree(n=1), either=Tree(n=4)),
    Meta(data={"a": {"b": [1, 2.5, None, True, "x"]}}),
    "text",
    12,
    -(2**63),
    2**64 - 1,
    1.5,
    True,
    b"\xff",
    [1, {"a": []}],
    {"a": 1, "b": [None]},
    None,
]
