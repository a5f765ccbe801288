"""The functions that an agent of a run executes itself."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from callboard.agents.chat_agent import ChatAgent
from callboard.cancellation import CancellationToken
from callboard.groupchat.functions import as_text, execute
from callboard.groupchat.peer import Peer
from callboard.groupchat.waiting import value_of
from callboard.tools.base import Tool

TRANSFERRED: Final = "Transferred to {target}."


@dataclass(frozen=True, slots=True)
class Called:
    """What came of a call.

    Attributes:
        text: For the model.
        is_error: Whether it failed.
        target: Name of the agent that the function returned: the conversation is handed over to it; "": none.
    """

    text: str
    is_error: bool = False
    target: str = ""


Functions = Mapping[str, Callable[..., Awaitable[Any]]]


def own_functions(agent: Peer, more: Mapping[str, Tool]) -> Functions:
    """What an agent executes: the functions that were registered with it, for execution or for its model.

    AG2 has one agent to call a function and another one to execute it; an agent that runs alone does both.

    Args:
        agent: The agent.
        more: Tools that it is given for the run.
    """
    tools = {tool.name: tool for tool in agent.llm_tools if isinstance(tool, Tool)}
    functions = {name: _of_tool(tool) for name, tool in {**tools, **more}.items()}
    return {**functions, **{name: _of_function(function) for name, function in agent.function_map.items()}}


async def call(functions: Functions, name: str, arguments: str) -> Called:
    """Execute a function; on the bus what it returned is recorded.

    Args:
        functions: See `own_functions`.
        name: Its name.
        arguments: As a model wrote them.
    """
    is_done, text = await execute(functions, name, arguments)
    if not is_done:
        return Called(text, is_error=True)
    returned: dict[str, str] = json.loads(text)
    return Called(returned["text"], target=returned.get("target", ""))


def agents_named_in(agent: Peer) -> list[ChatAgent]:
    """The agents whom the functions of an agent can name: they are variables of its functions."""
    tools = [getattr(tool, "function", None) for tool in agent.llm_tools]
    functions = [*agent.function_map.values(), *tools]
    found: list[ChatAgent] = []
    for function in functions:
        if inspect.isfunction(function):
            seen = inspect.getclosurevars(function)
            values = [*seen.nonlocals.values(), *seen.globals.values()]
            found += [value for value in values if isinstance(value, ChatAgent)]
    return found


def _of_tool(tool: Tool) -> Callable[..., Awaitable[Any]]:
    async def run(**arguments: Any) -> dict[str, str]:
        value = await tool.run_json(arguments, CancellationToken())
        return _returned(value, tool.return_value_as_string)

    return run


def _of_function(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def run(**arguments: Any) -> dict[str, str]:
        return _returned(await value_of(function(**arguments)), as_text)

    return run


def _returned(value: Any, as_text: Callable[[Any], str]) -> dict[str, str]:
    # In an envelope of ours: a text that merely looks like a handoff is none.
    if isinstance(value, ChatAgent):
        return {"text": TRANSFERRED.format(target=value.name), "target": value.name}
    return {"text": as_text(value)}
