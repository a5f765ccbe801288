"""Functions that an agent executes, and those that its model may call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from callboard.tools import FunctionTool, Tool
from callboard.tools.signatures import name_of

from .giving import with_variables
from .peer import Peer

F = TypeVar("F", bound=Callable[..., Any])


class Offering(Peer):
    """The part of a `ConversableAgent` that registers functions."""

    def register_function(self, function_map: Mapping[str, Callable[..., Any] | None]) -> None:
        """Let the agent execute functions, by name; None: no longer."""
        for name, function in function_map.items():
            if function is None:
                self._functions.pop(name, None)
            else:
                self._functions[name] = function

    def can_execute_function(self, name: str | list[str]) -> bool:
        """Whether it executes a function, or all of several."""
        return {name} <= set(self._functions) if isinstance(name, str) else set(name) <= set(self._functions)

    def register_for_execution(self, name: str | None = None) -> Callable[[F], F]:
        """A decorator: the agent executes the function when a message calls it."""

        def register(function: F) -> F:
            self._functions[name or function.__name__] = function
            return function

        return register

    def register_for_llm(
        self, *, name: str | None = None, description: str | None = None
    ) -> Callable[[F], F]:
        """A decorator: the agent's model may call the function, or the tool; whoever executes it answers.

        A parameter named ``context_variables`` is given by us, and not shown to the model.
        """

        def register(function: F) -> F:
            self.llm_tools.append(_tool(function, name, description))
            return function

        return register


def _tool(function: Any, name: str | None, description: str | None) -> Tool:
    if isinstance(function, Tool):
        return function
    text = description or (function.__doc__ or "").strip()
    return FunctionTool(with_variables(function), description=text, name=name or name_of(function))
