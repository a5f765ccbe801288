"""The shape of a message class: how its values have to be written and read, by its pydantic schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .limits import FLAT

# Values of these may be anything, so what they hold has to be looked at when it is written.
OPEN = frozenset({"any", "custom-error", "is-instance", "is-subclass", "callable", "generator"})
NAMED_FIELDS = frozenset({"model-fields", "dataclass-args", "typed-dict"})
CONTAINERS = frozenset(
    {"model-fields", "dataclass-args", "typed-dict", "dict", "list", "set", "frozenset", "tuple", "arguments"}
)
MAPS = NAMED_FIELDS | {"dict"}
TEXT_KEYS = frozenset({"str", "literal"})
# What pydantic makes anew, or what can't be changed. Not among them: a function of the class that sees the data before they
# are read, since it may change or keep them. That a serializer has a kind, too, only keeps more classes out.
COPIED = frozenset(
    {
        "",
        "model",
        "model-fields",
        "model-field",
        "dataclass",
        "dataclass-args",
        "dataclass-field",
        "typed-dict",
    }
    | {
        "typed-dict-field",
        "nullable",
        "default",
        "literal",
        "enum",
        "union",
        "tagged-union",
        "function-after",
        "none",
    }
    | {
        "str",
        "int",
        "float",
        "bool",
        "bytes",
        "decimal",
        "date",
        "time",
        "datetime",
        "timedelta",
        "uuid",
        "url",
    }
    | {"dict", "list", "set", "frozenset", "tuple"}
)
SKIPPED = frozenset({"metadata", "strict_schema"})


class Shape(NamedTuple):
    """The traits of a message class that decide how its values are written and read.

    Attributes:
        is_nested: some field may hold a map, or a list of lists.
        is_copied: a value made of data holds nothing of the data itself, and making it does not change them.
        levels: containers within containers that a value can have at most, unless it is open.
        has_numbers: some field may hold a NaN.
        is_open: it may hold values that msgpack does not have (map keys that are not text, any object).
        is_strict: some field takes no other type than its own.
        is_json_only: some field takes text only when it comes from JSON.
        has_bytes: some field is bytes, which JSON can't hold as they are.
        has_aliases: fields can be given by other names.
        has_crossed_aliases: the alias of one field is the name of another.
        allows_nan: the class says allow_inf_nan=True.
    """

    is_nested: bool
    is_copied: bool
    levels: int
    has_numbers: bool
    is_open: bool
    is_strict: bool
    is_json_only: bool
    has_bytes: bool
    has_aliases: bool
    has_crossed_aliases: bool
    allows_nan: bool

    @classmethod
    def of(cls, schema: Mapping[str, Any]) -> Shape:
        """Reads a core schema."""
        parts = list(_parts(schema))
        kinds = {_kind(part) for part in parts}
        aliases = [_aliases(part) for part in parts if _kind(part) in NAMED_FIELDS]
        is_open = bool(kinds & OPEN) or "definition-ref" in kinds or any(map(_is_open, parts))
        containers = sum(_kind(part) in CONTAINERS for part in parts)
        return cls(
            is_nested=is_open or sum(_kind(part) in MAPS for part in parts) > 1 or _depth(schema) > FLAT,
            is_copied=not is_open and kinds <= COPIED and not any(part.get("custom_init") for part in parts),
            levels=containers,
            has_numbers=is_open or "float" in kinds,
            is_open=is_open,
            is_strict=any(part.get("strict") is True for part in parts),
            is_json_only="json-or-python" in kinds,
            has_bytes="bytes" in kinds,
            has_aliases=any(any(names.values()) for names in aliases),
            has_crossed_aliases=any(_are_crossed(names) for names in aliases),
            allows_nan=_config(schema).get("allow_inf_nan") is True,
        )


def _parts(node: Any) -> Iterator[Mapping[str, Any]]:
    """Every mapping in a schema, except in what describes it for people."""
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, Mapping):
            yield part
            todo += [value for name, value in part.items() if name not in SKIPPED]
        elif isinstance(part, list | tuple):
            todo += part


def _depth(node: Any) -> int:
    """How many containers lie within one another. What refers to itself counts once, and is open anyway."""
    if isinstance(node, Mapping):
        below = max((_depth(value) for name, value in node.items() if name not in SKIPPED), default=0)
        return below + (_kind(node) in CONTAINERS)
    return max(map(_depth, node), default=0) if isinstance(node, list | tuple) else 0


def _kind(part: Mapping[str, Any]) -> str:
    """The kind of a part of the schema; "" for a table of fields, which may well have one that is called `type`."""
    kind = part.get("type")
    return kind if isinstance(kind, str) else ""


def _is_open(part: Mapping[str, Any]) -> bool:
    kind = _kind(part)
    if kind == "dict":
        return part.get("keys_schema", {}).get("type") not in TEXT_KEYS or "values_schema" not in part
    if kind in ("list", "set", "frozenset", "tuple"):
        return "items_schema" not in part
    if part.get("extra_fields_behavior") == "allow":
        return True
    return kind.startswith("function-") and "serialization" in part


def _aliases(part: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Field name -> the other names it is read from."""
    fields = part.get("fields", ())
    named = fields.items() if isinstance(fields, Mapping) else [(field["name"], field) for field in fields]
    found: dict[str, list[Any]] = {}
    for name, field in named:
        alias = field.get("validation_alias")
        found[name] = [] if alias is None else [alias] if isinstance(alias, str) else list(alias)
    return found


def _are_crossed(names: Mapping[str, list[Any]]) -> bool:
    pairs = ((name, _first(alias)) for name, aliases in names.items() for alias in aliases)
    return any(first in names and first != name for name, first in pairs)


def _first(alias: Any) -> Any:
    """The key that an alias looks at: "a", ["a", 0] and [["a", 0]] all look at "a"."""
    while isinstance(alias, list) and alias:
        alias = alias[0]
    return alias if isinstance(alias, str) else None


def _config(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config of the class itself, which validators and definitions may wrap."""
    part: Any = schema
    while isinstance(part, Mapping):
        if part.get("config"):
            config: Mapping[str, Any] = part["config"]
            return config
        part = part.get("schema")
    return {}
