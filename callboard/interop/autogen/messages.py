"""What AutoGen's agents say to each other, as bytes: any of their messages, and the cancellation token that came with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import pydantic
import pydantic_core

from callboard.broker.encoding.limits import DEFAULT, Limits, unpack
from callboard.broker.encoding.payload import CAN_FAIL, SIMPLE, MessageEntry, pack
from callboard.broker.encoding.registry import MessageRegistry
from callboard.broker.encoding.sharing import SharedBody
from callboard.broker.errors import DecodeError, EncodeError

from .classes import KnownClasses
from .errors import UnportableMessageError
from .tagging import add_tags, resolve_tags

TOKEN: Final = "$token"  # noqa: S105  (the field of a body that names a cancellation token)
PLAIN: Final = "autogen.value"  # wire name of text, numbers and the like
VALUE: Final = "$value"  # the field that holds what has none


@dataclass(frozen=True, slots=True)
class Carried:
    """A message of AutoGen on its way.

    Attributes:
        message: any object that pydantic can write, or plain data.
        token: name of the cancellation token that was given with it, see tokens.py; None: none was.
    """

    message: Any
    token: str | None = None


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
        if carried.token is not None:
            data = {**(data if isinstance(data, dict) else {VALUE: data}), TOKEN: carried.token}
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
        token = data.pop(TOKEN, None) if isinstance(data, dict) else None
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
        return Carried(message, token if isinstance(token, str) else None)


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
            UnportableMessageError: its instances can't be written (a TypeError).
            MessageDeclarationError: another class has its name.
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
                raise UnportableMessageError(cls.__name__, str(error).partition("\n")[0]) from error
            self._add(entry)
            self._known.add(cls)
        return entry

    def entry_for(self, value: object) -> MessageEntry:
        """The entry of the message in a Carried."""
        if isinstance(value, Carried) and value.token is None and type(value.message) in SIMPLE:
            return self._bare[type(value.message)]
        return self.add_class(type(value.message)) if isinstance(value, Carried) else super().entry_for(value)
