"""The message that is being handled while tools run, for tools that ask for its context."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from callboard.context import ContextScope, MessageContext

if TYPE_CHECKING:
    from callboard.protocol import AgentRuntime


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
