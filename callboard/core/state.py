"""The persistent state of an agent: a nested `class State(BaseModel)`, and the logs in it that grow.

The state is loaded when the agent wakes up, and stored together with everything else that handling a message did.

What is stored is JSON, so that a person can read it with redis-cli. Its logs lie apart, see `Log`: an agent has one
object for each of them, which stays the same whatever is loaded, so that others may keep hold of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, get_args, get_origin, overload

from callboard.broker.outcome import LogChange
from callboard.errors import MisuseError, StateError

if TYPE_CHECKING:
    from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema


_STATE = "_persistent_state"
_LOGS = "_persistent_logs"  # field -> the log as the last commit left it, and what was done to it since
_ADVICE = (
    "Give each field what it declares; set ser_json_bytes and val_json_bytes to 'base64' for bytes, "
    "and ser_json_inf_nan to 'constants' for NaN."
)


def state_model(agent_class: type[Any]) -> type[BaseModel] | None:
    """The `State` model of an agent class, its own or inherited; None: its agents live in memory only."""
    model: type[BaseModel] | None = getattr(agent_class, "_state_model", None)
    return model


def find_state_model(agent_class: type[Any]) -> type[BaseModel] | None:
    """The pydantic model that the body of a class calls `State`; other things of that name are not ours."""
    # Told by its methods and not by issubclass: importing pydantic costs more than the rest of this package.
    declared = vars(agent_class).get("State")
    return declared if isinstance(declared, type) and hasattr(declared, "model_validate_json") else None


def _facts(agent: Any) -> StateFacts:
    model = state_model(type(agent))
    return NO_FACTS if model is None else facts_of(model)


class Savepoint(NamedTuple):
    """The content of a log at one moment of a handler."""

    items: list[Any]
    gone: list[Any]
    committed: int


T = TypeVar("T")


class Log(Sequence[T]):
    """A list that grows: a field of an agent's `State` of which a commit writes only what is new.

    ```python
    class Chat(RoutedAgent):
        class State(BaseModel):
            title: str = ""
            thread: Log[LLMMessage] = Log()
    ```

    The other fields of a `State` are written as a whole whenever one of them changed. A log is a Redis list of its own: what
    was appended since the last commit is appended there, together with everything else that handling the message did, and
    what was trimmed is removed. So a message costs the same after 2,000 turns as after 20. All of it is read once, when the
    agent wakes up, and then lives in memory as long as the agent does.

    Items are of any type that pydantic reads and writes as JSON. They are written once: a change inside an item that was
    committed is not stored, and not undone when a handler fails. Frozen models are best.

    A log is one only as a field of `State` itself. Further inside, such as in a model that `State` holds, it is an
    ordinary list.

    Args:
        items: what it begins with.
    """

    __slots__ = ("_committed", "_gone", "_is_stored", "_items")
    __hash__ = None  # type: ignore[assignment]  # it changes; so pydantic copies it where it is a default, too

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._items: list[T] = list(items)
        # Of these, the first `_committed` are the rest of what the last commit left; `_gone` are those before them.
        self._committed = 0
        self._gone: list[T] = []
        self._is_stored = False

    # What handlers use

    def append(self, item: T) -> None:
        """Add an item at the end."""
        self._items.append(item)

    def extend(self, items: Iterable[T]) -> None:
        """Add items at the end."""
        self._items += list(items)  # as a list first: it may be this log itself

    def clear(self) -> None:
        """Remove every item."""
        self.trim(keep=0)

    def pop(self) -> T:
        """Take back the newest item, which no commit holds yet.

        Raises:
            IndexError: A commit holds it, or there is none: a log loses old items only, see `trim`.
        """
        if len(self._items) == self._committed:
            raise IndexError("there is no item that was appended since the last commit.")
        return self._items.pop()

    def trim(self, *, keep: int) -> None:
        """Remove the oldest items.

        Args:
            keep: How many of the newest stay; with no more than that nothing happens.

        Raises:
            ValueError: It is negative.
        """
        if keep < 0:
            raise ValueError("keep has to be 0 or more: how many of the newest items stay.")
        count = max(0, len(self._items) - keep)
        committed = min(count, self._committed)
        self._gone += self._items[:committed]
        self._committed -= committed
        del self._items[:count]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> list[T]: ...

    def __getitem__(self, index: int | slice) -> T | list[T]:
        return self._items[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Log):
            return self._items == other._items
        return self._items == other if isinstance(other, list) else NotImplemented

    def __repr__(self) -> str:
        return f"Log({self._items!r})"

    def __copy__(self) -> Log[T]:
        return Log(self._items)

    def __deepcopy__(self, memo: dict[int, Any]) -> Log[T]:
        return Log(deepcopy(self._items, memo))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        items = handler.generate_schema(list.__class_getitem__(get_args(source) or (Any,)))
        read = core_schema.no_info_after_validator_function(cls, items)
        return core_schema.json_or_python_schema(
            json_schema=read,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(cls), read]),
            serialization=core_schema.plain_serializer_function_ser_schema(list, return_schema=items),
        )

    # What state.py uses: the items as the last commit left them, and what was done to them since

    @property
    def is_stored(self) -> bool:
        """Whether the server has it; else it holds what the agent began with, or what another kind of field held."""
        return self._is_stored

    @property
    def stored_count(self) -> int:
        """How many items the server has."""
        return len(self._gone) + self._committed if self._is_stored else 0

    @property
    def dropped(self) -> int:
        """How many of those are to be removed, the oldest of them."""
        return len(self._gone) if self._is_stored else 0

    @property
    def appended(self) -> list[T]:
        """The items that the server does not have yet."""
        return self._items[self._committed :] if self._is_stored else self._items

    @property
    def has_changed(self) -> bool:
        """Whether something was done to it since the last commit."""
        return bool(self._gone) or len(self._items) > self._committed

    @property
    def is_unsaved(self) -> bool:
        """Whether the server has not all of it, once something of the state is written."""
        # Each commit asks this of each log, so it asks no other property.
        count = len(self._items)
        return count > self._committed or bool(self._gone) or (count > 0 and not self._is_stored)

    def fill(self, items: Iterable[T], *, is_stored: bool) -> None:
        """These are the items that the last commit left."""
        self._items = list(items)
        self._committed, self._gone, self._is_stored = len(self._items), [], is_stored

    def settle(self) -> None:
        """Count what it holds as committed."""
        self._committed, self._is_stored = len(self._items), True
        if self._gone:
            self._gone = []

    def roll_back(self) -> None:
        """Back to what the last commit left."""
        if self.has_changed:
            self._items = self._gone + self._items[: self._committed]
            self._committed, self._gone = len(self._items), []

    def savepoint(self) -> Savepoint:
        """A copy of what it holds now, for `go_back`."""
        return Savepoint(list(self._items), list(self._gone), self._committed)

    def go_back(self, point: Savepoint) -> None:
        """Holds again what it held then; nothing was committed since."""
        self._items, self._gone, self._committed = list(point.items), list(point.gone), point.committed


class Snapshot(NamedTuple):
    """The state of an agent in the middle of a handler, for `go_back`."""

    data: bytes
    logs: Mapping[str, tuple[Log[Any], Savepoint]]


def default_state(agent: Any) -> Any:
    """Make, keep and return the state of an agent that has none yet.

    Raises:
        MisuseError: The class declares none.
        StateError: A field of the model has no default.
    """
    model = state_model(type(agent))
    if model is None:
        raise MisuseError(
            f"{type(agent).__name__} declares no state: give it a pydantic model with defaults, "
            "`RoutedAgent[YourState]`."
        )
    try:
        state = model()
    except ValueError as error:
        fields = _bad_fields(error)
        raise StateError(type(agent).__name__, f"every field needs a default; {fields} has none.") from error
    agent.__dict__[_STATE] = state
    return state


def get_state(agent: Any) -> Any:
    """The state of an agent, made when it has none yet."""
    try:
        return agent.__dict__[_STATE]
    except KeyError:
        state = default_state(agent)
        _keep_logs(agent, state)
        return state


def set_state(agent: Any, state: Any) -> None:
    """Replace the state of an agent.

    Raises:
        StateError: The class declares another model.
    """
    model = state_model(type(agent))
    if model is not None and not isinstance(state, model):
        given = type(state).__name__
        raise StateError(type(agent).__name__, f"it must be a {model.__qualname__}, not {given}.")
    if model is not None:
        get_state(agent)
    agent.__dict__[_STATE] = state


# What is stored


def dump_state(agent: Any, known: bytes | None = None) -> bytes | None:
    """The state of an agent as the bytes to store, without its logs.

    Args:
        agent: An agent, of whatever class.
        known: What is known to be readable, such as what is stored: it is not tried again.

    Returns:
        JSON, of the default when nothing has touched it yet; None when the class declares no state.

    Raises:
        StateError: A value does not fit its field, or can't be written as JSON.
    """
    if state_model(type(agent)) is None:
        return None
    state = get_state(agent)
    try:
        data: bytes = type(state).__pydantic_serializer__.to_json(
            state, round_trip=True, warnings="error", exclude=_facts(agent).names
        )
        # pydantic writes NaN as null, and None whatever the type: a field may not take it back.
        if b"null" in data and data != known:
            type(state).__pydantic_validator__.validate_json(data, by_alias=True, by_name=True)
    except ValueError as error:
        raise _not_storable(agent, _bad_fields(error)) from error
    return data


def dump_logs(agent: Any) -> dict[str, Sequence[bytes]]:
    """All items of each log of an agent, as the bytes to store.

    Raises:
        StateError: An item does not fit the type of the log, or can't be written as JSON.
    """
    state = get_state(agent)
    return {name: _dump_items(agent, name, log) for name, log in _logs_of(agent, state).items()}


def has_logs(agent: Any) -> bool:
    """Whether the state of an agent has logs; False when it has no state."""
    return state_model(type(agent)) is not None and _facts(agent).names is not None


def log_changes(agent: Any, is_changed: bool) -> list[LogChange] | None:
    """The changes of an agent's logs since its last commit.

    Args:
        agent: An agent of a class that declares a state.
        is_changed: Something else of the state has changed.

    Returns:
        A change for each log that has any; None when nothing of the state has changed.

    Raises:
        StateError: An item does not fit the type of the log, or can't be written as JSON.
    """
    logs = _logs_of(agent, get_state(agent))
    stored: Mapping[str, Log[Any]] = agent.__dict__[_LOGS]
    if not is_changed and not any(log is not stored[name] or log.has_changed for name, log in logs.items()):
        return None
    # guard: a commit carries what was appended
    changed = [name for name, log in logs.items() if log is not stored[name] or log.is_unsaved]
    return [_change_of(agent, name, logs[name], stored[name]) for name in changed]


def _change_of(agent: Any, name: str, log: Log[Any], stored: Log[Any]) -> LogChange:
    if log is not stored:  # the handler has put another one in its place
        return LogChange(name, stored.stored_count, _dump_items(agent, name, log))
    return LogChange(name, log.dropped, _dump_items(agent, name, log.appended))


def settle_logs(agent: Any) -> None:
    """Count what the logs of an agent hold as committed."""
    logs = _logs_of(agent, get_state(agent))
    for log in logs.values():
        log.settle()
    agent.__dict__[_LOGS] = logs


def _dump_items(agent: Any, name: str, items: Sequence[Any]) -> Sequence[bytes]:
    try:
        return _facts(agent).logs[name].dump(items)
    except ValueError as error:
        raise _not_storable(agent, f"an item of {name}") from error


def _not_storable(agent: Any, what: str) -> StateError:
    return StateError(type(agent).__name__, f"{what} can't be stored. {_ADVICE}")


# What comes back


def restore_state(agent: Any, data: bytes | None, logs: Mapping[str, Sequence[bytes]] | None = None) -> None:
    """Give an agent a stored state back.

    Args:
        agent: An agent of a class that declares a state.
        data: What `dump_state` returned; None goes back to the default.
        logs: The stored items of its logs; None: those that are in memory go back to what the last commit left.

    Raises:
        StateError: The model has changed so that the stored state does not fit it any more.
    """
    if data is None and not logs and not has_logs(agent):
        agent.__dict__.pop(_STATE, None)
        return
    state = default_state(agent) if data is None else _read(agent, data)
    if logs is None:
        _roll_back_logs(agent, state)
    else:
        _fill_logs(agent, state, logs)
    agent.__dict__[_STATE] = state


def _read(agent: Any, data: bytes) -> Any:
    model = state_model(type(agent))
    if model is None:
        raise StateError(type(agent).__name__, "it has one stored, but the class declares none any more.")
    try:
        return model.__pydantic_validator__.validate_json(data, by_alias=True, by_name=True)
    except ValueError as error:
        raise _unfit(agent, _bad_fields(error)) from error


def _unfit(agent: Any, fields: str) -> StateError:
    reason = f"what is stored does not fit it; look at {fields}. Keep old fields or give defaults."
    return StateError(type(agent).__name__, reason)


def snapshot(agent: Any) -> Snapshot:
    """The state of an agent now, in the middle of a handler.

    Raises:
        StateError: A value does not fit its field, or can't be written as JSON.
    """
    logs = _logs_of(agent, get_state(agent))
    return Snapshot(dump_state(agent) or b"", {name: (log, log.savepoint()) for name, log in logs.items()})


def go_back(agent: Any, before: Snapshot) -> None:
    """Give an agent the state again that it had at a snapshot; nothing was committed since."""
    state = _read(agent, before.data)
    for name, (log, point) in before.logs.items():
        log.go_back(point)
        state.__dict__[name] = log
    agent.__dict__[_STATE] = state


def state_to_mapping(agent: Any) -> Mapping[str, Any]:
    """The state of an agent as plain data that fits into JSON, its logs as lists."""
    dumped: dict[str, Any] = get_state(agent).model_dump(mode="json", round_trip=True)
    return dumped


def state_from_mapping(agent: Any, state: Mapping[str, Any]) -> None:
    """Give an agent the state that `state_to_mapping` returned."""
    # Through JSON, where a model in strict mode still takes a date that is written as text.
    from pydantic_core import to_json

    loaded = _read(agent, to_json(dict(state)))
    logs = _logs_of(agent, get_state(agent))
    for name, log in logs.items():
        log.clear()
        log.extend(getattr(loaded, name))
        loaded.__dict__[name] = log
    agent.__dict__[_STATE] = loaded


# The logs of an agent


def _logs_of(agent: Any, state: Any) -> dict[str, Log[Any]]:
    """The logs that a state holds now, by field.

    Raises:
        StateError: There is something else in the place of one.
    """
    fields = state.__dict__
    logs = {name: fields[name] for name in _facts(agent).logs}
    for name, log in logs.items():
        if not isinstance(log, Log):
            reason = f"{name} has to stay a Log: assign Log(...), or use clear() and extend()."
            raise StateError(type(agent).__name__, reason)
    return logs


def _keep_logs(agent: Any, state: Any) -> None:
    """The logs of the first state that an agent has are its own for good."""
    logs = agent.__dict__[_LOGS] = _logs_of(agent, state)
    for log in logs.values():
        log.fill(log, is_stored=False)


def _roll_back_logs(agent: Any, state: Any) -> None:
    """Puts the agent's own logs into a state that was read without them, as the last commit left them."""
    get_state(agent)  # for the first time: then there are none yet
    for name, log in agent.__dict__[_LOGS].items():
        # guard: a failed handler appends nothing
        log.roll_back()
        state.__dict__[name] = log


def _fill_logs(agent: Any, state: Any, stored: Mapping[str, Sequence[bytes]]) -> None:
    """Puts what is stored into the agent's own logs, and these into the state.

    A log that is not stored holds what the field had before it was one, as far as the data has that, or its default.
    """
    facts = _facts(agent)
    for name in stored:
        if name in type(state).model_fields and name not in facts.logs:
            reason = (
                f"{name} is stored as a log, and its field is none: declare it as {name}: Log[...] again."
            )
            raise StateError(type(agent).__name__, reason)
    own: dict[str, Log[Any]] = agent.__dict__.setdefault(_LOGS, {})
    for name, items in facts.logs.items():
        log = own.setdefault(name, getattr(state, name))
        is_stored = name in stored
        try:
            log.fill(items.load(stored[name]) if is_stored else getattr(state, name), is_stored=is_stored)
        except ValueError as error:
            raise _unfit(agent, f"the items of {name}") from error
        state.__dict__[name] = log


def _bad_fields(error: ValueError) -> str:
    """The fields that an error of pydantic names, without their values."""
    # A ValidationError has them as data, a serialization error only in its text.
    details: list[Any] = getattr(error, "errors", list)()
    found = [".".join(map(str, detail["loc"])) for detail in details]
    names = dict.fromkeys(found or re.findall(r"field_name='([^']*)'", str(error)))
    return ", ".join(filter(None, names)) or "the whole of it"


class Items:
    """How the items of one log become JSON and come back; as a field of the model would, under its configuration.

    Args:
        item: the type of an item, as the only one; (): anything.
        config: that of the model.
    """

    def __init__(self, item: tuple[Any, ...], config: ConfigDict) -> None:
        from pydantic import TypeAdapter

        items: Any = list.__class_getitem__(item or (Any,))
        self._adapter: TypeAdapter[list[Any]] = TypeAdapter(items, config=config)
        self._to_json = self._adapter.serializer.to_json

    def dump(self, items: Sequence[Any]) -> tuple[bytes, ...]:
        """Each item as JSON.

        Raises:
            ValueError: One can't be written, or could not be read again.
        """
        return tuple(map(self._dump, items))

    def _dump(self, item: Any) -> bytes:
        # What `dump_json` does, without its fifteen arguments: each commit of a team dumps several.
        data = self._to_json([item], round_trip=True, warnings="error")
        # pydantic writes NaN as null, and None whatever the type: it may not be taken back.
        if b"null" in data:
            self._adapter.validate_json(data)
        return data[1:-1]  # without the brackets of the list

    def load(self, items: Sequence[bytes]) -> list[Any]:
        """The items of what `dump` returned.

        Raises:
            ValueError: One does not fit the type of the items any more.
        """
        return self._adapter.validate_json(b"[" + b",".join(items) + b"]")


class StateFacts(NamedTuple):
    """Facts about one model, found once.

    Attributes:
        logs: the fields that are logs, and how their items are written.
        names: of these fields; None: there are none.
    """

    logs: Mapping[str, Items]
    names: set[str] | None


NO_FACTS = StateFacts({}, None)
FACTS: Final = "__callboard_state_facts__"


def facts_of(model: type[BaseModel]) -> StateFacts:
    """The facts of a model, found at the first use and kept in its class: each commit asks several times."""
    facts: StateFacts | None = model.__dict__.get(FACTS)  # its own: a class that derives from it has others
    if facts is None:
        facts = _find(model)
        setattr(model, FACTS, facts)
    return facts


def _find(model: type[BaseModel]) -> StateFacts:
    logs = {
        name: Items(get_args(field.annotation), model.model_config)
        for name, field in model.model_fields.items()
        if field.annotation is Log or get_origin(field.annotation) is Log
    }
    return StateFacts(logs, set(logs) or None)
