"""The form of an answer: text, a JSON object, or an object of a class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import BaseModel, ValidationError

from callboard.foundation.json_texts import read_json
from callboard.models.errors import BadResponseError, UnsupportedFeatureError
from callboard.models.info import ModelInfo

from .markup import without_fence
from .schema import strict_schema
from .wire import as_tool_name, first_problem

OutputFormat: TypeAlias = bool | type[BaseModel] | Mapping[str, Any] | None
"""True: a JSON object. False: text. A class: an object of it. A mapping: a `response_format` of the API as it is."""


@dataclass(frozen=True, slots=True)
class Output:
    """The form that one request asks for."""

    model: str
    format: OutputFormat = None

    def check(self, info: ModelInfo) -> None:
        """Refuse a form that the model can't make.

        Raises:
            UnsupportedFeatureError: JSON of a model whose ModelInfo has none.
        """
        if self.format is True and not info["json_output"]:
            raise UnsupportedFeatureError(self.model, "it has no JSON output (model_info['json_output'])")
        if self.class_ is not None and not info["structured_output"]:
            reason = "it has no structured output (model_info['structured_output']); use json_output=True"
            raise UnsupportedFeatureError(self.model, reason)

    @property
    def class_(self) -> type[BaseModel] | None:
        """The class that the answer has to be an object of."""
        return self.format if isinstance(self.format, type) else None

    @property
    def is_json(self) -> bool:
        """Whether the answer has to be JSON."""
        return bool(self.format)

    def response_format(self) -> Mapping[str, Any] | None:
        """The argument of the API; None leaves it out."""
        if isinstance(self.format, Mapping) or self.format is None:
            return self.format
        if isinstance(self.format, bool):
            return {"type": "json_object" if self.format else "text"}
        return class_format(self.format)

    def checked(self, text: str, *, cut_off: bool = False) -> str:
        """The text of an answer, without a fence around its JSON.

        Args:
            text: as the model said it.
            cut_off: whether the limit of tokens ended it.

        Raises:
            BadResponseError: it has another form. The error says at which place, and does not repeat the answer.
        """
        if self.format is not True and self.class_ is None:
            return text
        bare = without_fence(text)
        problem = self._problem(bare)
        if problem is None:
            return bare
        hint = "; it was cut off at the limit of tokens: raise max_tokens" if cut_off else ""
        raise BadResponseError(self.model, f"the answer is {problem}{hint}")

    def _problem(self, text: str) -> str | None:
        if self.class_ is not None:
            return _misfit(self.class_, text)
        try:
            return None if isinstance(read_json(text), dict) else "no JSON object"
        except ValueError:
            return "no JSON"


def class_format(class_: type[BaseModel]) -> dict[str, Any]:
    """The `response_format` for objects of a class, strict unless an object in it may have any keys."""
    schema = class_.model_json_schema()
    strict = strict_schema(schema)
    return schema_format(class_.__name__, schema if strict is None else strict, strict=strict is not None)


def schema_format(name: str, schema: Mapping[str, Any], *, strict: bool) -> dict[str, Any]:
    """The `response_format` for a schema."""
    inner = {"name": as_tool_name(name), "schema": schema, "strict": strict}
    return {"type": "json_schema", "json_schema": inner}


def _misfit(class_: type[BaseModel], text: str) -> str | None:
    try:
        class_.model_validate_json(text)
    except ValidationError as error:
        return f"no {class_.__name__}: {first_problem(error)}"
    return None
