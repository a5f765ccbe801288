"""Random JSON schemas, each with data that fit it: no model refuses them, or makes something else of them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from callboard.tools.json_model import given_arguments, model_of_parameters, schema_to_pydantic_model
from callboard.tools.schema import to_parameters

Pair = tuple[dict[str, Any], Any]

NAMES = st.sampled_from(
    [
        "a",
        "b",
        "class",
        "user-id",
        "_x",
        "schema",
        "$ref",
        "properties",
        "allOf",
        "enum",
        "model_y",
        "default",
    ]
)
NOTES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"description": "What it is."}, {"title": "T"}, {"default": 3}, {"examples": [{"$ref": "#"}]}]
)

PLAIN: st.SearchStrategy[Pair] = st.one_of(
    st.tuples(st.just({"type": "integer"}), st.integers(-5, 5)),
    st.tuples(st.just({"type": "integer", "minimum": 0, "maximum": 9}), st.integers(0, 9)),
    st.tuples(st.just({"type": "string"}), st.text(max_size=3)),
    st.tuples(st.just({"type": "string", "minLength": 1, "pattern": "^a"}), st.sampled_from(["a", "ab"])),
    st.tuples(st.just({"type": "number"}), st.sampled_from([0.5, 2.25])),
    st.tuples(st.just({"type": "boolean"}), st.booleans()),
    st.tuples(st.just({"type": "null"}), st.none()),
    st.tuples(st.just({"type": ["string", "null"]}), st.sampled_from(["x", None])),
    st.tuples(st.just({"enum": ["x", 2, None]}), st.sampled_from(["x", 2, None])),
    st.tuples(st.just({"const": "k"}), st.just("k")),
    st.tuples(st.just({}), st.just({"any": ["thing"]})),
    st.tuples(st.just({"type": "object"}), st.just({"any": 1})),
)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Pair]) -> Pair:
    """An object, perhaps in parts."""
    fields = draw(st.dictionaries(NAMES, inner, max_size=3))
    required = draw(st.lists(st.sampled_from(sorted(fields)), unique=True)) if fields else []
    left_out = draw(st.sets(st.sampled_from(sorted(fields)))) - set(required) if fields else set()
    parts: list[Any] = [
        {"type": "object", "properties": {name: schema}, "required": [name] if name in required else []}
        for name, (schema, _) in fields.items()
    ]
    data = {name: value for name, (_, value) in fields.items() if name not in left_out}
    in_parts: bool = draw(st.booleans())
    if parts and in_parts:
        return {"allOf": parts}, data
    whole = {
        "type": "object",
        "properties": {name: schema for name, (schema, _) in fields.items()},
        "required": required,
    }
    return whole, data


@st.composite
def around(draw: st.DrawFn, inner: st.SearchStrategy[Pair]) -> Pair:
    """What holds another one."""
    schema, value = draw(inner)
    kind = draw(st.sampled_from(["list", "any", "one of all", "noted", "values"]))
    if kind == "list":
        return {"type": "array", "items": schema}, [value] * draw(st.integers(0, 2))
    if kind == "any":
        return {
            "anyOf": draw(st.permutations([schema, {"type": "array", "items": {"const": "never"}}]))
        }, value
    if kind == "values":
        return {"type": "object", "additionalProperties": schema}, {"k": value}
    if kind == "one of all":
        return {"allOf": [schema], **draw(NOTES)}, value
    return {**draw(NOTES), **schema}, value


PAIRS = st.recursive(PLAIN, lambda inner: st.one_of(objects(inner), around(inner)), max_leaves=8)


def _moved(node: Any, definitions: dict[str, Any], every: int) -> Any:
    """The same schema, where every so many-th part is a reference."""
    if isinstance(node, list):
        return [_moved(part, definitions, every) for part in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, part in node.items():
        if key == "properties":
            made[key] = {name: _moved(one, definitions, every) for name, one in part.items()}
        elif key in ("items", "additionalProperties", "anyOf", "allOf"):
            made[key] = _moved(part, definitions, every)
        else:
            made[key] = part
    if len(definitions) % every:
        definitions[f"n{len(definitions)}"] = None
        return made
    name = f"d{len(definitions)}"
    definitions[name] = made
    return {"$ref": f"#/{'definitions' if every == 2 else '$defs'}/{name}"}


@settings(deadline=None, max_examples=150)
@given(objects(PAIRS), st.sampled_from([1, 2, 3]), st.booleans())
def test_what_fits_a_schema_fits_its_model(pair: Pair, every: int, moves: bool) -> None:
    schema, data = pair
    if moves:
        definitions: dict[str, Any] = {}
        body = _moved(schema, definitions, every)
        place = "definitions" if every == 2 else "$defs"
        schema = {**body, place: {name: part for name, part in definitions.items() if part is not None}}
    Draft202012Validator(schema).validate(data)

    made = schema_to_pydantic_model(schema)
    assert made.model_validate(data).model_dump(by_alias=True, exclude_unset=True) == data
    again = schema_to_pydantic_model(made.model_json_schema())
    again.model_validate(data)

    parameters = to_parameters(schema, "t")
    Draft202012Validator(parameters).validate(data)
    args = model_of_parameters(parameters, "t").model_validate(data)
    kept = {
        name: value
        for name, value in data.items()
        if value is not None or name in parameters.get("required", ())
    }
    assert given_arguments(args, parameters).items() >= kept.items()
