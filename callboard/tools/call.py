"""A call as a model writes it, and the context of the message in which it is made."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from callboard.core.context import ContextScope, MessageContext
from callboard.foundation.texts import read_json
from callboard.memory.llm_messages import FunctionCall

from .errors import ToolArgumentsError

if TYPE_CHECKING:
    from pydantic import BaseModel

    from callboard.core.protocol import AgentRuntime


IfUnknown: TypeAlias = Literal["retry", "idempotency_key", "tell", "ask"]
"""What to do when a crash left it unknown whether a tool did its work.

- "retry": call it again.
- "idempotency_key": call it again, which is right because it hands on the key that it is given.
- "tell": tell the model, which has to find out.
- "ask": have a person decide: call it again, tell the model, or let the turn fail.
"""

NOT_AGAIN: Final[frozenset[IfUnknown]] = frozenset({"tell", "ask"})
"""Where the tool is not called again unasked."""


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


class CheckedArguments(dict[str, Any]):
    """Arguments as a tool's model has taken them: what a rule and a person see of a call, and what then runs.

    As a mapping they are the plain data that were given, for tools that check them elsewhere.

    Args:
        given: The arguments that were given, as plain data.
        shown: These, and the defaults of those that were left out.
        written: As the model wrote them.
        checked: The instance that runs; None: the tool is not here, and runs with those that were given.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        shown: Mapping[str, Any],
        written: Mapping[str, Any],
        checked: BaseModel | None = None,
    ) -> None:
        super().__init__(given)
        self.shown = dict(shown)
        self.written = written
        self.checked = checked


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


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The handler that calls tools, as far as they may know it.

    Attributes:
        message: The context of the message being handled; None outside of a handler.
        runtime: The runtime by which tools in other processes are reached; None: not known.
        idempotency_key: The same whenever this call is made for this message; None: it may differ.
        allowed: Name of the tool whose call may be made, as far as a person has to allow it; "": none.
    """

    message: MessageContext | None = None
    runtime: AgentRuntime | None = None
    idempotency_key: str | None = None
    allowed: str = ""


_current: ContextVar[ToolContext] = ContextVar("callboard_tool_context", default=ToolContext())  # noqa: B039 - frozen


def tool_context(
    ctx: MessageContext | None = None,
    *,
    runtime: AgentRuntime | None = None,
    idempotency_key: str | None = None,
    allowed: str = "",
) -> ContextScope[ToolContext]:
    """For the length of a `with` block tools get `ctx` and send by `runtime`.

    ```python
    with tool_context(ctx, runtime=self.runtime):
        result = await workbench.call_tool("charge", {"cents": 500}, ctx.cancellation_token)
    ```

    Args:
        ctx: Given to tools that have a parameter of the class MessageContext.
        runtime: The runtime by which tools in other processes are reached, unless their workbench has its own.
        idempotency_key: Given to tools that have a parameter of this name; `run_tools` makes one for each call.
        allowed: Name of a tool whose call may be made though a person has to allow it, since one has; "": none.
    """
    return ContextScope(_current, ToolContext(ctx, runtime, idempotency_key, allowed))


def current_tool_context() -> ToolContext:
    """The context of the nearest `tool_context` around this call."""
    return _current.get()
