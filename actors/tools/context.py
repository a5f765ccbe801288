"""Which message is being handled while tools run, for tools that ask for its context."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..context import ContextScope, MessageContext

if TYPE_CHECKING:
    from ..runtime_protocol import AgentRuntime


@dataclass(frozen=True, slots=True)
class ToolContext:
    """What tools may learn about the handler that calls them.

    Attributes:
        message: The context of the message being handled; None outside of a handler.
        runtime: What tools on the bus are reached by; None: not known.
    """

    message: MessageContext | None = None
    runtime: AgentRuntime | None = None


_current: ContextVar[ToolContext] = ContextVar("callboard_tool_context", default=ToolContext())  # noqa: B039 - frozen


def tool_context(
    ctx: MessageContext | None = None, *, runtime: AgentRuntime | None = None
) -> ContextScope[ToolContext]:
    """For the length of a `with` block tools get `ctx` and send by `runtime`.

    ```python
    with tool_context(ctx, runtime=self.runtime):
        result = await workbench.call_tool("charge", {"cents": 500}, ctx.cancellation_token)
    ```

    Args:
        ctx: What tools with a parameter of the class MessageContext are given.
        runtime: What tools on the bus are reached by, where the workbench knows none of its own.
    """
    return ContextScope(_current, ToolContext(ctx, runtime))


def current_tool_context() -> ToolContext:
    """What the nearest `tool_context` around this call says."""
    return _current.get()
