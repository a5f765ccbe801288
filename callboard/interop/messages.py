"""Messages of AutoGen's agents as bytes: any of their classes, nested models, and the token that came along.

AutoGen's team messages have fields of abstract classes (`BaseChatMessage`). Written as pydantic writes them no reader could
tell afterwards which class a model was. So each nested model that derives from another model is written with a tag, and
read as an instance of a class that this process knows: see `KnownClasses`.

Nothing is imported because a message names it.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, get_args, get_origin, get_type_hints

import pydantic
import pydantic_core
from pydantic import BaseModel, RootModel

from callboard.broker.codec import CAN_FAIL, SIMPLE, MessageEntry, MessageRegistry, SharedBody, pack
from callboard.broker.errors import DecodeError, EncodeError
from callboard.broker.limits import DEFAULT, Limits, unpack
from callboard.errors import DeclarationError

TOKEN: Final = "$token"  # noqa: S105  (the field of a body that names a cancellation token)
RUN: Final = "$run"
PLAIN: Final = "autogen.value"  # wire name of text, numbers and the like
VALUE: Final = "$value"  # the field that holds what has none


@dataclass(frozen=True, slots=True)
class Carried:
    """A message of AutoGen on its way.

    Attributes:
        message: any object that pydantic can write, or plain data.
        token: name of the cancellation token that was given with it, see `Tokens` of hosted.py; None: none was.
        run: name of the token of the message that its sender was handling: all of one run of a team have the same; None: it
            was handling none, or `token` is that one.
    """

    message: Any
    token: str | None = None
    run: str | None = None


class HostedEntry(MessageEntry):
    """Writes and reads messages of one class of AutoGen's or of a program written for it.

    A body holds the fields by their names, as one of ours does, so that agents of ours read it where a class of theirs has
    the same name. Beside them stand the token, and the classes of nested models.
    """

    __slots__ = ("_adapter", "_known")

    def __init__(self, cls: type[Any], name: str, known: KnownClasses) -> None:
        super().__init__(cls, name, 1, {})
        self._adapter = pydantic.TypeAdapter(cls)
        self._known = known
        self.encode = self._encode

    def nature(self, value: object) -> str:
        """The class, and those of the models in its fields.

        Another attempt may publish other events, because a model answers anew. Told apart by their number alone, its result
        would be taken for an event of the first attempt and dropped, and a team would wait for it for ever.
        """
        message = value.message if isinstance(value, Carried) else value
        parts = vars(message).values() if hasattr(message, "__dict__") else ()
        inner = (type(part).__qualname__ for part in parts if isinstance(part, pydantic.BaseModel))
        return " ".join((self.name, *inner))

    def _encode(self, value: Any, limits: Limits = DEFAULT) -> bytes:
        carried = value if isinstance(value, Carried) else Carried(value)
        try:
            data = self._adapter.dump_python(
                carried.message, by_alias=False, round_trip=True, serialize_as_any=True
            )
        except (*CAN_FAIL, pydantic_core.PydanticSerializationError) as error:
            raise EncodeError(self.name, str(error).partition("\n")[0]) from error
        add_tags(carried.message, data)
        named = {TOKEN: carried.token, RUN: carried.run}
        names = {field: name for field, name in named.items() if name is not None}
        if names:
            data = {**(data if isinstance(data, dict) else {VALUE: data}), **names}
        try:
            return pack(data, limits)
        except EncodeError as error:
            raise EncodeError(self.name, error.reason) from error

    def decode(
        self,
        body: bytes,
        version: int | None = None,
        limits: Limits = DEFAULT,
        shared: SharedBody | None = None,
    ) -> Carried:
        """Reads a body; see MessageEntry.decode. Readers of one body share nothing here."""
        data = unpack(body, limits)
        token, run = (data.pop(name, None) if isinstance(data, dict) else None for name in (TOKEN, RUN))
        if isinstance(data, dict) and data.keys() == {VALUE}:
            data = data[VALUE]
        try:
            data = resolve_tags(data, self._known.load)
            message = self._adapter.validate_python(data, by_alias=False, by_name=True)
        except DecodeError:
            raise
        except pydantic_core.ValidationError as error:
            places = [".".join(map(str, item["loc"])) for item in error.errors(include_input=False)]
            raise DecodeError(f"{self.name}: look at {', '.join(places[:5]) or 'the value'}") from error
        except Exception as error:  # a validator of the class may raise anything
            raise DecodeError(f"{self.name}: a validator failed with {type(error).__name__}") from error
        return Carried(
            message, token if isinstance(token, str) else None, run if isinstance(run, str) else None
        )


class BareEntry(MessageEntry):
    """Writes text, numbers, lists and the like without a token: as agents of ours do, who may have asked for it."""

    __slots__ = ()

    def __init__(self, cls: type[Any], name: str) -> None:
        super().__init__(cls, name, 1, {})
        self.encode = self._encode

    def nature(self, value: object) -> str:
        return self.name

    @staticmethod
    def _encode(value: Any, limits: Limits = DEFAULT) -> bytes:
        return pack(value.message, limits)


class PlainEntry(MessageEntry):
    """Writes and reads text, numbers, lists and the like with a token."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(Carried, PLAIN, 1, {})
        self.encode = self._encode

    def nature(self, value: object) -> str:
        return PLAIN

    @staticmethod
    def _encode(value: Any, limits: Limits = DEFAULT) -> bytes:
        data = {VALUE: value.message}
        return pack(data if value.token is None else {**data, TOKEN: value.token}, limits)

    def decode(
        self,
        body: bytes,
        version: int | None = None,
        limits: Limits = DEFAULT,
        shared: SharedBody | None = None,
    ) -> Carried:
        """Reads a body; see MessageEntry.decode. Readers of one body share nothing here."""
        data = unpack(body, limits)
        if not isinstance(data, dict) or VALUE not in data:
            raise DecodeError(f"{PLAIN}: the body holds no value")
        return Carried(data[VALUE], data.get(TOKEN))


class HostedRegistry(MessageRegistry):
    """The message classes of a program that was written for AutoGen. Each is known from when it is first seen."""

    def __init__(self) -> None:
        super().__init__()
        self._known = KnownClasses()
        self._plain = PlainEntry()
        self._add(self._plain)
        self._bare = {cls: BareEntry(cls, name) for cls, name in SIMPLE.items()}

    def add_class(self, cls: type[Any]) -> MessageEntry:
        """Makes a class known.

        Raises:
            DeclarationError: its instances can't be written (a TypeError).
            SettingsError: another class has its name.
        """
        if cls in SIMPLE:
            return self._plain
        entry = self._by_class.get(cls)
        if entry is None:
            name = cls.__name__.replace(" ", "")
            try:
                self.register(cls, name=name)
                entry = HostedEntry(cls, name, self._known)
            except (EncodeError, pydantic.errors.PydanticSchemaGenerationError) as error:
                raise DeclarationError(
                    f"a message of class {cls.__name__} can't leave the process",
                    str(error).partition("\n")[0],
                ) from error
            self._add(entry)
            self._known.add(cls)
        return entry

    def entry_for(self, value: object) -> MessageEntry:
        """The entry of the message in a Carried."""
        if isinstance(value, Carried) and value.token is None and type(value.message) in SIMPLE:
            return self._bare[type(value.message)]
        return self.add_class(type(value.message)) if isinstance(value, Carried) else super().entry_for(value)


CLASS: Final = "$class"
NESTED: Final = frozenset({dict, list, tuple})


def add_tags(value: Any, data: Any) -> None:
    """Writes the class of each nested model beside its fields.

    Args:
        value: what was written.
        data: what pydantic made of it; it is changed.
    """
    if isinstance(value, RootModel):
        value = value.root
    if isinstance(data, dict):
        if isinstance(value, Mapping):
            for key, item in data.items():
                _tag(value.get(key), item)
        elif is_record(value.__class__):
            nested = [(name, item) for name, item in data.items() if type(item) in NESTED]
            for name, item in nested:
                _tag(getattr(value, name, None), item)
    elif isinstance(data, list | tuple) and isinstance(value, list | tuple):
        for inner, item in zip(value, data, strict=False):
            _tag(inner, item)


def _tag(value: Any, data: Any) -> None:
    if type(data) not in NESTED:
        return
    add_tags(value, data)
    if type(data) is dict and is_open(value.__class__):
        data[CLASS] = tag_of(value.__class__)


def resolve_tags(data: Any, load: Callable[[str, dict[str, Any]], Any]) -> Any:
    """Data with an object in the place of each tagged map, the innermost first.

    Args:
        data: what was read; it is changed.
        load: makes an object of a tag and the fields.
    """
    if type(data) is dict:
        for key, item in data.items():
            if type(item) in NESTED:
                data[key] = resolve_tags(item, load)
        tag = data.pop(CLASS, None)
        return load(tag, data) if isinstance(tag, str) else data
    if type(data) is list:
        for place, item in enumerate(data):
            if type(item) in NESTED:
                data[place] = resolve_tags(item, load)
    return data


@cache
def is_open(cls: Any) -> bool:
    """Whether it derives from another model, so that a field may have been declared with that one."""
    if issubclass(cls, BaseModel):
        return any(issubclass(base, BaseModel) and base is not BaseModel for base in cls.__mro__[1:])
    return any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:]) and dataclasses.is_dataclass(cls)


@cache
def tag_of(cls: Any) -> str:
    """The name of a class, with those of the classes that a generic one was made with."""
    made_with: Mapping[str, Any] = getattr(cls, "__pydantic_generic_metadata__", {})
    origin, args = made_with.get("origin"), made_with.get("args", ())
    if origin is None or not args:
        return f"{cls.__module__}:{cls.__qualname__}"
    names = (tag_of(arg) if isinstance(arg, type) else str(arg) for arg in args)
    return f"{tag_of(origin)}[{','.join(names)}]"


@cache
def is_record(cls: Any) -> bool:
    """Whether a class has fields: a model or a dataclass."""
    return issubclass(cls, BaseModel) or dataclasses.is_dataclass(cls)


class KnownClasses:
    """Finds classes by their tags."""

    def __init__(self) -> None:
        self._roots: set[type[Any]] = set()
        self._loaders: dict[str, pydantic.TypeAdapter[Any]] = {}

    def add(self, cls: type[Any]) -> None:
        """A message class: what its fields declare, and all that derives from that, may come nested in it."""
        self._roots.add(cls)

    def load(self, tag: str, fields: dict[str, Any]) -> Any:
        """An object of a tagged class.

        Raises:
            DecodeError: this process has no such class.
            pydantic.ValidationError: the fields do not fit it.
        """
        loader = self._loaders.get(tag)
        if loader is None:
            loader = self._loaders[tag] = pydantic.TypeAdapter(self._find(tag))
        return loader.validate_python(fields, by_alias=False, by_name=True)

    def _find(self, tag: str) -> type[Any]:
        cls: Any  # mypy takes no class for hashable
        for cls in self._all():
            if tag_of(cls) == tag:
                found: type[Any] = cls
                return found
        raise DecodeError(
            f"this process has no class {tag!r} among those that its messages may hold: import its module"
        )

    def _all(self) -> Iterator[type[Any]]:
        seen: set[type[Any]] = set()
        waiting = list(self._roots)
        while waiting:
            cls = waiting.pop()
            if cls in seen:
                continue
            seen.add(cls)
            yield cls
            waiting += cls.__subclasses__()
            waiting += _declared(cls)


def _declared(cls: type[Any]) -> list[type[Any]]:
    """The models and dataclasses in the annotations of a class's fields."""
    if issubclass(cls, BaseModel):
        annotations = [field.annotation for field in cls.model_fields.values()]
    elif dataclasses.is_dataclass(cls):
        try:
            annotations = list(get_type_hints(cls).values())
        except NameError:  # a name that only type checkers import
            return []
    else:
        return []
    return [found for annotation in annotations for found in _in(annotation)]


def _in(annotation: Any) -> Iterator[type[Any]]:
    if get_origin(annotation) is not None or isinstance(annotation, types.UnionType):
        for part in get_args(annotation):
            yield from _in(part)
    elif isinstance(annotation, type) and annotation is not BaseModel and is_record(annotation):
        yield annotation
