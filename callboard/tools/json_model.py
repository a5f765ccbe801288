"""Pydantic models from JSON schemas."""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Mapping
from functools import cache, reduce
from operator import or_
from typing import Annotated, Any, Final, ForwardRef, Literal, Union

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.errors import PydanticUserError
from pydantic_core import SchemaError, SchemaValidator, core_schema
from typing_extensions import TypeAliasType

from .errors import ToolDeclarationError
from .json_schema import PREFIX, opened, properties_of, references, required_of, with_definitions
from .schema import ParametersSchema, to_parameters

_PLAIN: Final[Mapping[str, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "null": None,
}
_RULES: Final[Mapping[str, str]] = {
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minItems": "min_length",
    "maxItems": "max_length",
}


def model_of_parameters(parameters: ParametersSchema, tool: str) -> type[BaseModel]:
    """A model for the arguments of a tool.

    Types, enums, unions, lists, nested objects and limits are checked, also of what contains itself; what else JSON schema
    has is let through.

    Args:
        parameters: The arguments, as `to_parameters` gives them.
        tool: Name of the tool.

    Raises:
        ToolDeclarationError: No model can be made of it (a ValueError).
    """
    return _Models(parameters, tool).whole(f"{tool}args")


def schema_to_pydantic_model(
    schema: Mapping[str, Any], model_name: str = "GeneratedModel"
) -> type[BaseModel]:
    """A pydantic model for the objects that a JSON schema describes; a name of `autogen_core.utils`.

    Unlike with AutoGen's, a key that the schema does not name is refused unless `additionalProperties` allows it, and a
    format is a note: nothing is converted.

    Args:
        schema: A schema of an object; references inside it are resolved.
        model_name: The name of the class.

    Raises:
        ToolDeclarationError: It is of something else, or a reference leads nowhere (a ValueError).
    """
    whole, definitions = with_definitions(schema)
    for reference in references([whole, *definitions.values()]):
        if reference.removeprefix(PREFIX) not in definitions:
            raise ToolDeclarationError(model_name, f"{reference} leads nowhere in its JSON schema")
    one = opened(whole, definitions)
    if one.get("type", "object") != "object":
        raise ToolDeclarationError(model_name, 'its JSON schema has to be of {"type": "object"}')
    models = _Models(to_parameters(dict(schema), model_name), model_name)
    return models.whole(model_name, one.get("description"))


class _Models:
    """Makes the models of one schema.

    Args:
        parameters: The schema; references are to what contains itself only.
        subject: What it is the schema of, for errors.
    """

    def __init__(self, parameters: ParametersSchema, subject: str) -> None:
        self._parameters: Mapping[str, Any] = parameters
        self._definitions: Mapping[str, Any] = parameters.get("$defs", {})
        self._aliases = {name: f"_Definition{at}" for at, name in enumerate(self._definitions)}
        self._subject = subject
        self._made: list[type[BaseModel]] = []

    def whole(self, name: str, description: str | None = None) -> type[BaseModel]:
        """The model of it all."""
        made = self._object({"description": description, **self._parameters}, name)
        space = {alias: self._definition(one, alias) for one, alias in self._aliases.items()}
        for model in self._made if space else ():
            model.model_rebuild(force=True, _types_namespace=space)
        return made

    def _definition(self, name: str, alias: str) -> Any:
        node = self._definitions[name]
        made = self._type(node, re.sub(r"\W", "_", name))
        if isinstance(made, ForwardRef):  # nothing but another name, perhaps its own
            return Any
        return made if _is_model(made) else TypeAliasType(alias, made)  # pyright: ignore[reportGeneralTypeIssues]

    def _object(self, node: Mapping[str, Any], name: str) -> type[BaseModel]:
        required, properties = required_of(node), properties_of(node)
        fields: dict[str, Any] = {}
        for number, (key, part) in enumerate(properties.items()):
            annotation = self._type(part, f"{name}_{key}")
            notes = _notes(part)
            if key not in required:
                # Many models write null for what they leave out.
                annotation = Union[annotation, None]  # noqa: UP007 - it may be a reference
                notes["default"] = part.get("default") if isinstance(part, Mapping) else None
            fields[_field_name_of_key(key, number, properties)] = (annotation, Field(alias=key, **notes))
        extra: Final = "allow" if node.get("additionalProperties") else "forbid"
        config = ConfigDict(extra=extra, allow_inf_nan=False)
        description = node.get("description")
        try:
            made: type[BaseModel] = create_model(
                name,
                __config__=config,
                __doc__=description if isinstance(description, str) else None,
                **fields,
            )
        except (PydanticUserError, SchemaError, TypeError, ValueError) as error:
            reason = re.sub(r"\s+", " ", str(error).partition(". ")[0])
            raise ToolDeclarationError(
                self._subject, f"no model can be made of its JSON schema: {reason}"
            ) from error
        self._made.append(made)
        return made

    def _type(self, node: Any, name: str) -> Any:
        if not isinstance(node, Mapping):
            return Any
        if "$ref" in node:
            alias = self._aliases.get(str(node["$ref"]).removeprefix(PREFIX))
            return Any if alias is None else ForwardRef(alias)
        values = [node["const"]] if "const" in node else node.get("enum")
        if isinstance(values, list) and values:
            return Literal[tuple(values)] if all(map(_is_literal, values)) else Any
        options = node.get("anyOf") or node.get("oneOf")
        if isinstance(options, list) and options:
            return Union[tuple(self._noted(option, f"{name}_{i}") for i, option in enumerate(options))]  # noqa: UP007
        kind = node.get("type", "object" if "properties" in node else None)
        if isinstance(kind, list) and kind:
            return reduce(or_, (self._type({**node, "type": one}, name) for one in kind))
        return self._of_kind(kind, node, name)

    def _noted(self, node: Any, name: str) -> Any:
        """The type of a schema inside another one, with its description."""
        found, notes = self._type(node, name), _notes(node)
        # A model has its own
        return Annotated[found, Field(**notes)] if notes and not _is_model(found) else found

    def _of_kind(self, kind: Any, node: Mapping[str, Any], name: str) -> Any:
        rules = {
            ours: node[theirs]
            for theirs, ours in _RULES.items()
            if theirs in node and _fits(theirs, kind, node)
        }
        if kind == "array":
            found: Any = list[self._noted(node.get("items"), f"{name}_item")]  # type: ignore[misc]
        elif kind == "object":
            if properties_of(node):
                return self._object(node, name)
            return dict[str, self._noted(node.get("additionalProperties"), f"{name}_value")]  # type: ignore[misc]
        elif isinstance(kind, str) and kind in _PLAIN:
            found = _PLAIN[kind]
        else:
            return Any
        return Annotated[found, Field(**rules)] if rules else found


def _is_model(found: Any) -> bool:
    return isinstance(found, type) and issubclass(found, BaseModel)


def _notes(node: Any) -> dict[str, Any]:
    """What a schema tells its readers."""
    texts = {key: node.get(key) for key in ("title", "description")} if isinstance(node, Mapping) else {}
    return {key: text for key, text in texts.items() if isinstance(text, str)}


def _field_name_of_key(key: str, number: int, keys: Collection[str]) -> str:
    """The key itself, unless Python or pydantic gives it a meaning."""
    is_taken = hasattr(BaseModel, key) or key.startswith(("_", "model_")) or keyword.iskeyword(key)
    if key.isidentifier() and not is_taken:
        return key
    name = f"field_{number}"
    while name in keys:
        name += "_"
    return name


def _fits(rule: str, kind: Any, node: Mapping[str, Any]) -> bool:
    if rule in ("minItems", "maxItems"):
        return bool(kind == "array")
    if rule == "pattern":
        return bool(kind == "string") and _can_be_looked_for(node[rule])
    if rule in ("minLength", "maxLength"):
        return bool(kind == "string")
    return kind in ("integer", "number")


@cache
def _can_be_looked_for(pattern: Any) -> bool:
    """Whether pydantic knows all of a pattern: it looks for them in linear time, which not all of JSON schema's allow."""
    try:
        SchemaValidator(core_schema.str_schema(pattern=pattern))
    except (SchemaError, TypeError):
        return False
    return True


def _is_literal(value: Any) -> bool:
    return value is None or isinstance(value, str | int | bool)


def given_arguments(args: BaseModel, parameters: ParametersSchema) -> dict[str, Any]:
    """The arguments as plain data: those that were given, and defaults of the schema; a null for nothing is left out.

    Args:
        args: An instance of what `model_of_parameters` made.
        parameters: The same schema.
    """
    properties: Mapping[str, Any] = parameters.get("properties", {})
    defaults = {name: part.get("default") for name, part in properties.items() if isinstance(part, Mapping)}
    dumped = args.model_dump(mode="json", by_alias=True, exclude_unset=True)
    required = parameters.get("required", ())
    given = {name: value for name, value in dumped.items() if value is not None or name in required}
    return {**{name: value for name, value in defaults.items() if value is not None}, **given}
