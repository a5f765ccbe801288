"""The events of runs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from callboard import runs
from callboard.errors import DeclarationError, MisuseError
from callboard.runs import (
    AgentMessageEvent,
    AsyncInputRequestEvent,
    CompletedEvent,
    ErrorEvent,
    Event,
    HandoffEvent,
    InputRequestEvent,
    InputResponseEvent,
    InterruptedEvent,
    OutputEvent,
    SpeakerSelectedEvent,
    StreamEvent,
    SystemEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
    load_event,
)

ALL: tuple[Event, ...] = (
    InputRequestEvent(prompt="Who?", choices=("ada", "bob"), details={"tool": "pay"}),
    AsyncInputRequestEvent(prompt="Who?"),
    InputResponseEvent(value="ada", request_id="1"),
    AgentMessageEvent(message={"text": "Hello", "sender": "ada"}),
    OutputEvent(value="4"),
    SystemEvent(value="done"),
    ToolCallEvent(source="ada", call_id="1", name="pay", arguments="{}"),
    ToolResultEvent(call_id="1", name="pay", content="paid"),
    StreamEvent(content="Hel"),
    InterruptedEvent(source="ada", since=1_000_000),
    SpeakerSelectedEvent(speakers=("ada",)),
    HandoffEvent(source="ada", target="bob"),
    UsageEvent(source="ada", prompt_tokens=1, completion_tokens=2),
    ErrorEvent(error_type="ValueError", content="no"),
    CompletedEvent(stop_reason="because"),
)


@pytest.mark.parametrize("event", ALL, ids=lambda event: event.type)
def test_an_event_goes_through_json_and_comes_back(event: Event) -> None:
    assert load_event(event.model_dump_json()) == event
    assert load_event(json.loads(json.dumps(event.model_dump(mode="json")))) == event


def test_there_is_a_predicate_for_each_type() -> None:
    predicates = {name: getattr(runs, name) for name in runs.__all__ if name.startswith("is_")}
    assert len(predicates) == len(ALL)
    for event in ALL:
        said_yes = [name for name, predicate in predicates.items() if predicate(event)]
        assert said_yes == [f"is_{event.type}" + ("_event" if event.type == "system" else "")]


def test_what_is_no_event_is_refused() -> None:
    with pytest.raises(ValidationError):
        load_event({"type": "shout", "value": "x"})


class RfcProcessor:
    """Has the methods of the RFC, and one for tools."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def process_input_request_event(self, event: Any) -> None:
        self.seen.append(("input_request", event.prompt))

    def process_input_response_event(self, event: Any) -> None:
        self.seen.append(("input_response", event.value))

    def process_agent_message_event(self, event: Any) -> None:
        self.seen.append(("agent_message", event.message["text"]))

    def process_output_event(self, event: Any) -> None:
        self.seen.append(("output", event.value))

    def process_system_event(self, event: Any) -> None:
        self.seen.append(("system", event.value))

    def process_tool_result_event(self, event: Any) -> None:
        self.seen.append(("tool_result", event.content))


def test_each_event_finds_its_method_and_new_types_are_system_events_to_an_old_processor() -> None:
    processor = RfcProcessor()
    for event in ALL:
        if event.type != "async_input_request":
            event.process(processor)
    assert processor.seen == [
        ("input_request", "Who?"),
        ("input_response", "ada"),
        ("agent_message", "Hello"),
        ("output", "4"),
        ("system", "done"),
        ("system", "ada called pay"),
        ("tool_result", "paid"),
        ("system", "ada was interrupted, and begins again"),
        ("system", "Next: ada"),
        ("system", "ada handed over to bob"),
        ("system", "ada used 1 + 2 tokens"),
        ("system", "ValueError: no"),
        ("system", "done"),
    ]


def test_an_async_question_is_not_processed_synchronously() -> None:
    with pytest.raises(DeclarationError, match="a_process"):
        AsyncInputRequestEvent(prompt="Who?").process(RfcProcessor())


async def test_async_methods_are_awaited_and_a_missing_one_is_named() -> None:
    class Async:
        def __init__(self) -> None:
            self.seen: list[str] = []

        async def a_process_system_event(self, event: Any) -> None:
            self.seen.append(event.value)

    processor: Any = Async()
    await SystemEvent(value="done").a_process(processor)
    await CompletedEvent().a_process(processor)
    assert processor.seen == ["done", "done"]
    with pytest.raises(DeclarationError, match="a_process_output_event"):
        await OutputEvent(value="4").a_process(processor)


async def test_a_question_from_nowhere_can_not_be_answered() -> None:
    with pytest.raises(MisuseError, match="respond"):
        InputRequestEvent(prompt="Who?").respond("ada")
    with pytest.raises(MisuseError):
        await AsyncInputRequestEvent(prompt="Who?").a_respond("ada")
