"""Reads a call as a model writes it: a tool's name, and arguments as JSON text that may not even be JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callboard.foundation.json_texts import read_json
from callboard.memory.llm_messages import FunctionCall

from .errors import ToolArgumentsError


@dataclass(frozen=True, slots=True)
class AskedCall:
    """A call of a tool, read.

    Attributes:
        name: The tool, as the caller named it.
        arguments: By name, as plain data; None: none.
        call_id: The id that the model gave to the call; None: it gave none.
    """

    name: str
    arguments: Mapping[str, Any] | None
    call_id: str | None


def read_call(
    asked: str | FunctionCall, arguments: Mapping[str, Any] | None = None, call_id: str | None = None
) -> AskedCall:
    """The call that the arguments of `Workbench.call_tool` describe.

    Args:
        asked: The tool's name, or the whole call of a model.
        arguments: By name; beside a call of a model: in place of those that it wrote.
        call_id: The id of the call; beside a call of a model: in place of its own.

    Raises:
        ToolArgumentsError: The model wrote no JSON object (a ValueError).
    """
    if isinstance(asked, str):
        return AskedCall(asked, arguments, call_id)
    if arguments is None:
        arguments = written_arguments(asked)
    return AskedCall(asked.name, arguments, call_id or asked.id or None)


def name_of_call(asked: str | FunctionCall) -> str:
    """The tool that is called."""
    return asked if isinstance(asked, str) else asked.name


def written_arguments(call: FunctionCall) -> Mapping[str, Any]:
    """The arguments that a model wrote; no text at all stands for none.

    Raises:
        ToolArgumentsError: They are no JSON object (a ValueError).
    """
    if not call.arguments.strip():
        return {}
    try:
        found = read_json(call.arguments)
    except ValueError as error:
        raise ToolArgumentsError(call.name, (f"they are not valid JSON: {error}",)) from error
    if not isinstance(found, dict):
        raise ToolArgumentsError(call.name, (f"they have to be one JSON object, not {type(found).__name__}",))
    return found
