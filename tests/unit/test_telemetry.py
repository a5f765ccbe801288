"""Spans of OpenTelemetry."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

from callboard import (
    AgentId,
    AgentInstantiationContext,
    trace_create_agent_span,
    trace_invoke_agent_span,
    trace_tool_span,
)
from callboard.foundation import MissingPackageError

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, Tracer


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracer(exporter: InMemorySpanExporter) -> Tracer:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("tests")


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


def test_a_tool(exporter: InMemorySpanExporter, tracer: Tracer) -> None:
    with trace_tool_span("search", tracer=tracer, tool_description="Finds.", tool_call_id="c1"):
        pass
    span = only(exporter)
    assert (span.name, span.kind) == ("execute_tool search", SpanKind.INTERNAL)
    assert span.attributes == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.system": "callboard",
        "gen_ai.tool.name": "search",
        "gen_ai.tool.description": "Finds.",
        "gen_ai.tool.call.id": "c1",
    }


@pytest.mark.parametrize(
    ("begin", "operation"),
    [(trace_create_agent_span, "create_agent"), (trace_invoke_agent_span, "invoke_agent")],
)
def test_an_agent(
    begin: Callable[..., AbstractContextManager[Any]],
    operation: str,
    exporter: InMemorySpanExporter,
    tracer: Tracer,
) -> None:
    with begin("writer", tracer=tracer, agent_id="writer/ada", agent_description="Writes."):
        pass
    span = only(exporter)
    assert (span.name, span.kind) == (f"{operation} writer", SpanKind.CLIENT)
    assert span.attributes == {
        "gen_ai.operation.name": operation,
        "gen_ai.system": "callboard",
        "gen_ai.agent.name": "writer",
        "gen_ai.agent.id": "writer/ada",
        "gen_ai.agent.description": "Writes.",
    }


def test_an_agent_that_is_being_made_is_known(exporter: InMemorySpanExporter, tracer: Tracer) -> None:
    runtime: Any = None
    with (
        AgentInstantiationContext.populate_context((runtime, AgentId("writer", "ada"))),
        trace_create_agent_span("writer", tracer=tracer),
    ):
        pass
    with trace_create_agent_span("writer", tracer=tracer):
        pass
    ids = [(span.attributes or {}).get("gen_ai.agent.id") for span in exporter.get_finished_spans()]
    assert ids == ["writer/ada", None]


def test_a_parent_and_an_error(exporter: InMemorySpanExporter, tracer: Tracer) -> None:
    parent = tracer.start_span("outer")
    with pytest.raises(KeyError), trace_tool_span("search", tracer=tracer, parent=parent):
        raise KeyError("x")
    span = only(exporter)
    assert span.parent == parent.get_span_context()
    assert (span.attributes or {})["error.type"] == "KeyError"
    assert span.status.status_code is StatusCode.ERROR
    assert [event.name for event in span.events] == ["exception"]


def test_without_a_tracer_it_is_the_global_one() -> None:
    with trace_tool_span("search") as span:
        assert not span.is_recording()


def test_without_the_package_it_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(MissingPackageError, match=r"callboard\[telemetry\]"), trace_tool_span("search"):
        pass
