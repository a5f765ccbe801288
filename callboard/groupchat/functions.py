"""Functions that agents execute for a model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from callboard.foundation.json_texts import read_json
from callboard.runtime.steps import NumberedStep

from .agent import Message
from .waiting import value_of

FunctionMap: TypeAlias = Mapping[str, Callable[..., Any]]


async def execute(functions: FunctionMap, name: str, arguments: str) -> tuple[bool, str]:
    """Call a function with arguments that a model wrote.

    On the bus what it returns is recorded for the message that is being handled.

    Args:
        functions: The functions by name; they may be async.
        name: Of the one to call.
        arguments: A JSON object.

    Returns:
        Whether it succeeded, and what it returned or raised, as text for the model.
    """
    function = functions.get(name)
    if function is None:
        return False, f"Error: Function {name} not found."
    try:
        given = read_json(arguments or "{}")
    except ValueError as error:
        return False, f"Error: {error}\n The arguments must be in JSON format."
    if not isinstance(given, dict):
        return False, "Error: The arguments must be a JSON object."
    try:
        return True, await _recorded(function, name, given)
    except Exception as error:  # noqa: BLE001 - the model hears of it
        return False, f"Error: {error}"


async def _recorded(function: Callable[..., Any], name: str, arguments: Mapping[str, Any]) -> str:
    step = NumberedStep.begin(f"function:{name}")

    async def call() -> str:
        return as_text(await value_of(function(**arguments)))

    return await (call() if step is None else step.run(call))


def as_text(value: Any) -> str:
    """What a function returned, as a model reads it: as JSON where it can be."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return str(value)


async def answer_calls(functions: FunctionMap, message: Message) -> Message | None:
    """The message that answers the calls of functions in another one.

    Returns:
        None: it calls none.
    """
    old = message.get("function_call")
    if old:
        _, text = await execute(functions, old["name"], old.get("arguments", ""))
        return {"name": old["name"], "role": "function", "content": text}
    calls = [call for call in message.get("tool_calls") or () if call.get("type", "function") == "function"]
    if not calls:
        return None
    responses = [await _answer(functions, call) for call in calls]
    content = "\n\n".join(response["content"] for response in responses)
    return {"role": "tool", "tool_responses": responses, "content": content}


async def _answer(functions: FunctionMap, call: Mapping[str, Any]) -> Message:
    name = call["function"]["name"]
    _, text = await execute(functions, name, call["function"].get("arguments", ""))
    return {"tool_call_id": call.get("id", ""), "role": "tool", "content": text}
