"""Records of calls."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import EVENT_LOGGER_NAME, AgentId, CancellationToken, MessageHandlerContext, TopicId
from callboard.logging import (
    AgentConstructionExceptionEvent,
    DeliveryStage,
    LLMCallEvent,
    LLMStreamEndEvent,
    LLMStreamStartEvent,
    LogEvent,
    MessageDroppedEvent,
    MessageEvent,
    MessageHandlerExceptionEvent,
    MessageKind,
    ToolCallEvent,
)
from callboard.tools import BaseStreamTool, FunctionTool

ADA = AgentId("writer", "ada")
SAID = [{"role": "user", "content": "hi"}]


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        (
            LLMCallEvent(messages=SAID, response={}, prompt_tokens=1, completion_tokens=2, tools=[]),
            {
                "type": "LLMCall",
                "messages": SAID,
                "response": {},
                "prompt_tokens": 1,
                "completion_tokens": 2,
                "tools": [],
                "agent_id": None,
            },
        ),
        (
            LLMStreamStartEvent(messages=SAID),
            {"type": "LLMStreamStart", "messages": SAID, "agent_id": None},
        ),
        (
            LLMStreamEndEvent(response={"a": 1}, prompt_tokens=1, completion_tokens=2),
            {
                "type": "LLMStreamEnd",
                "response": {"a": 1},
                "prompt_tokens": 1,
                "completion_tokens": 2,
                "agent_id": None,
            },
        ),
        (
            ToolCallEvent(tool_name="t", arguments={"a": date(2025, 1, 2)}, result="r"),
            {
                "type": "ToolCall",
                "tool_name": "t",
                "arguments": {"a": "2025-01-02"},
                "result": "r",
                "agent_id": None,
            },
        ),
        (
            MessageEvent(
                payload="p",
                sender=None,
                receiver=TopicId("a", "b"),
                kind=MessageKind.PUBLISH,
                delivery_stage=DeliveryStage.SEND,
            ),
            {
                "type": "Message",
                "payload": "p",
                "sender": None,
                "receiver": "a/b",
                "kind": "MessageKind.PUBLISH",
                "delivery_stage": "DeliveryStage.SEND",
            },
        ),
        (
            MessageDroppedEvent(payload="p", sender=ADA, receiver=ADA, kind=MessageKind.DIRECT),
            {
                "type": "MessageDropped",
                "payload": "p",
                "sender": "writer/ada",
                "receiver": "writer/ada",
                "kind": "MessageKind.DIRECT",
            },
        ),
        (
            MessageHandlerExceptionEvent(payload="p", handling_agent=ADA, exception=ValueError("no")),
            {
                "type": "MessageHandlerException",
                "payload": "p",
                "handling_agent": "writer/ada",
                "exception": "no",
            },
        ),
        (
            AgentConstructionExceptionEvent(agent_id=ADA, exception=ValueError("no")),
            {"type": "AgentConstructionException", "agent_id": "writer/ada", "exception": "no"},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_is_json_with_autogens_fields(event: LogEvent, fields: dict[str, Any]) -> None:
    assert json.loads(str(event)) == fields


def test_tokens_are_attributes_and_the_agent_is_known() -> None:
    with MessageHandlerContext.populate_context(ADA):
        event = LLMStreamEndEvent(response={}, prompt_tokens=1, completion_tokens=2)
    assert (event.prompt_tokens, event.completion_tokens) == (1, 2)
    assert event.kwargs["agent_id"] == "writer/ada"


def double(number: int) -> int:
    return 2 * number


class Nothing(BaseModel):
    pass


class Counting(BaseStreamTool[Nothing, int, int]):
    def __init__(self) -> None:
        super().__init__(Nothing, int, "counting", "Counts.")

    async def run_stream(
        self, args: Nothing, cancellation_token: CancellationToken
    ) -> AsyncGenerator[int, None]:
        yield 1
        yield 2


async def test_tools_log_their_calls_at_debug_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, EVENT_LOGGER_NAME)
    await FunctionTool(double).run_json({"number": 2}, CancellationToken())
    assert not caplog.records
    caplog.set_level(logging.DEBUG, EVENT_LOGGER_NAME)
    await FunctionTool(double).run_json({"number": 2}, CancellationToken())
    assert [item async for item in Counting().run_json_stream({}, CancellationToken())] == [1, 2]
    events: list[Any] = [record.msg for record in caplog.records if record.name == EVENT_LOGGER_NAME]
    assert all(isinstance(event, ToolCallEvent) for event in events)
    found = [
        (event.kwargs["tool_name"], event.kwargs["arguments"], event.kwargs["result"]) for event in events
    ]
    assert found == [("double", {"number": 2}, "4"), ("counting", {}, "2")]
