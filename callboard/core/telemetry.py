"""Spans of OpenTelemetry by its conventions for generative AI, with AutoGen's names.

Spans of a program's own work: the bus itself makes none yet. Needs opentelemetry-api:
``pip install 'callboard[telemetry]'``. The conventions
(https://opentelemetry.io/docs/specs/semconv/gen-ai/) are still being developed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from callboard.errors import MisuseError
from callboard.foundation import MissingPackageError

from .subscriptions import AgentInstantiationContext

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer


SYSTEM: Final = "callboard"


@contextmanager
def trace_tool_span(
    tool_name: str,
    *,
    tracer: Tracer | None = None,
    parent: Span | None = None,
    tool_description: str | None = None,
    tool_call_id: str | None = None,
) -> Iterator[Span]:
    """A span around the run of a tool.

    Args:
        tool_name: The tool.
        tracer: Makes the span; None: that of the global provider.
        parent: The span around it; None: the current one.
        tool_description: Its purpose.
        tool_call_id: The id that the model gave to the call.

    Raises:
        MissingPackageError: opentelemetry-api is not installed (an ImportError).
    """
    about = {
        "gen_ai.tool.name": tool_name,
        "gen_ai.tool.description": tool_description,
        "gen_ai.tool.call.id": tool_call_id,
    }
    with _span("execute_tool", tool_name, about, tracer, parent, is_client=False) as span:
        yield span


@contextmanager
def trace_create_agent_span(
    agent_name: str,
    *,
    tracer: Tracer | None = None,
    parent: Span | None = None,
    agent_id: str | None = None,
    agent_description: str | None = None,
) -> Iterator[Span]:
    """A span around the making of an agent.

    Args:
        agent_name: The agent.
        tracer: Makes the span; None: that of the global provider.
        parent: The span around it; None: the current one.
        agent_id: Its id; None: that of the agent that is being made here, if there is one.
        agent_description: Its purpose.

    Raises:
        MissingPackageError: opentelemetry-api is not installed (an ImportError).
    """
    about = _of_agent(agent_name, agent_id or _agent_being_made(), agent_description)
    with _span("create_agent", agent_name, about, tracer, parent) as span:
        yield span


@contextmanager
def trace_invoke_agent_span(
    agent_name: str,
    *,
    tracer: Tracer | None = None,
    parent: Span | None = None,
    agent_id: str | None = None,
    agent_description: str | None = None,
) -> Iterator[Span]:
    """A span around a turn of an agent.

    Args:
        agent_name: The agent.
        tracer: Makes the span; None: that of the global provider.
        parent: The span around it; None: the current one.
        agent_id: Its id.
        agent_description: Its purpose.

    Raises:
        MissingPackageError: opentelemetry-api is not installed (an ImportError).
    """
    about = _of_agent(agent_name, agent_id, agent_description)
    with _span("invoke_agent", agent_name, about, tracer, parent) as span:
        yield span


def _of_agent(name: str, agent_id: str | None, description: str | None) -> dict[str, str | None]:
    return {
        "gen_ai.agent.name": name,
        "gen_ai.agent.id": agent_id,
        "gen_ai.agent.description": description,
    }


def _agent_being_made() -> str | None:
    try:
        return str(AgentInstantiationContext.current_agent_id())
    except MisuseError:
        return None


@contextmanager
def _span(
    operation: str,
    name: str,
    about: dict[str, str | None],
    tracer: Tracer | None,
    parent: Span | None,
    *,
    is_client: bool = True,
) -> Iterator[Span]:
    """A span, with the error that ends it."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        raise MissingPackageError("opentelemetry-api", "telemetry") from None
    known = {key: value for key, value in about.items() if value is not None}
    with (tracer or trace.get_tracer("callboard")).start_as_current_span(
        f"{operation} {name}",
        context=None if parent is None else trace.set_span_in_context(parent),
        kind=trace.SpanKind.CLIENT if is_client else trace.SpanKind.INTERNAL,
        attributes={"gen_ai.operation.name": operation, "gen_ai.system": SYSTEM, **known},
    ) as span:
        try:
            yield span
        except Exception as error:
            # The span itself records the error when it ends.
            span.set_attribute("error.type", type(error).__name__)
            raise
