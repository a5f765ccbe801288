"""Termination conditions as plain data and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callboard.conditions import (
    AndTerminationCondition,
    ExternalTermination,
    FunctionalTermination,
    FunctionCallTermination,
    HandoffTermination,
    LatchedTermination,
    MaxMessageTermination,
    OrTerminationCondition,
    SourceMatchTermination,
    StopMessageTermination,
    TerminationCondition,
    TextMentionTermination,
    TextMessageTermination,
    TimeoutTermination,
    TokenUsageTermination,
)
from callboard.conditions.base import Messages
from callboard.foundation.component import (
    ComponentConfigError,
    ComponentNotAllowedError,
    NotDumpableError,
)
from callboard.messages import TextMessage

TABLE: list[tuple[TerminationCondition, dict[str, Any]]] = [
    (MaxMessageTermination(3), {"max_messages": 3, "include_agent_event": False}),
    (MaxMessageTermination(3, True), {"max_messages": 3, "include_agent_event": True}),
    (TextMentionTermination("X"), {"text": "X"}),
    (TextMentionTermination("X", ["a", "b"]), {"text": "X", "sources": ["a", "b"]}),
    (StopMessageTermination(), {}),
    (HandoffTermination("a"), {"target": "a"}),
    (TimeoutTermination(2.5), {"timeout_seconds": 2.5}),
    (
        TokenUsageTermination(1, 2, 3),
        {"max_total_token": 1, "max_prompt_token": 2, "max_completion_token": 3},
    ),
    (TokenUsageTermination(max_prompt_token=2), {"max_prompt_token": 2}),
    (ExternalTermination(), {}),
    (SourceMatchTermination(["a"]), {"sources": ["a"]}),
    (TextMessageTermination(), {}),
    (TextMessageTermination("a"), {"source": "a"}),
    (FunctionCallTermination("f"), {"function_name": "f"}),
]


@pytest.mark.parametrize(("condition", "config"), TABLE, ids=lambda value: type(value).__name__)
def test_a_condition_becomes_plain_data_and_is_made_again(
    condition: TerminationCondition, config: dict[str, Any]
) -> None:
    dump = condition.dump_component()
    again = TerminationCondition.load_component(json.loads(dump.model_dump_json()))

    assert dump.component_type == "termination"
    assert dump.provider == f"callboard.conditions.{type(condition).__name__}"
    assert dump.config == config
    assert type(again) is type(condition)
    assert again.dump_component() == dump


@pytest.mark.parametrize(("condition", "config"), TABLE, ids=lambda value: type(value).__name__)
def test_autogens_dumps_are_understood(condition: TerminationCondition, config: dict[str, Any]) -> None:
    theirs = {
        "provider": f"autogen_agentchat.conditions.{type(condition).__name__}",
        "component_type": "termination",
        "version": 1,
        "component_version": 1,
        "description": None,
        "label": type(condition).__name__,
        "config": config,
    }

    assert TerminationCondition.load_component(theirs).dump_component() == condition.dump_component()


@pytest.mark.parametrize("kind", [AndTerminationCondition, OrTerminationCondition])
@pytest.mark.parametrize("room", ["callboard.base", "autogen_agentchat.base"])
def test_combinations_are_made_of_their_parts(kind: type[Any], room: str) -> None:
    inner = MaxMessageTermination(3) | TextMentionTermination("X")
    condition: TerminationCondition = kind(inner, StopMessageTermination())

    dump = condition.dump_component()
    assert dump.provider == f"callboard.base.{kind.__name__}"
    text = dump.model_dump_json().replace("callboard.base", room)

    again = TerminationCondition.load_component(json.loads(text))
    assert isinstance(again, kind)
    assert again.dump_component() == dump


async def test_what_is_made_begins_at_the_beginning() -> None:
    condition = MaxMessageTermination(2)
    await condition([TextMessage(content="a", source="b")] * 2)

    again = TerminationCondition.load_component(condition.dump_component())

    assert condition.terminated
    assert not again.terminated


def short(messages: Messages) -> bool:
    return len(messages) < 2


async def test_a_function_is_named_and_found_where_that_is_allowed() -> None:
    dump = FunctionalTermination(short).dump_component()
    assert dump.config == {"func": f"{__name__}:short"}

    again = TerminationCondition.load_component(dump, modules=[__name__])

    assert await again([]) is not None


def test_a_function_that_nobody_allowed_is_not_imported() -> None:
    with pytest.raises(ComponentNotAllowedError, match=r"modules=\['os'\]"):
        TerminationCondition.load_component(
            {"provider": "callboard.conditions.FunctionalTermination", "config": {"func": "os:system"}}
        )


def test_a_function_without_a_place_can_not_be_named() -> None:
    with pytest.raises(NotDumpableError):
        FunctionalTermination(lambda _: True).dump_component()


class Own(LatchedTermination):
    async def reason(self, messages: Messages) -> str | None:
        return None


@pytest.mark.parametrize("condition", [Own(), Own() | StopMessageTermination()])
def test_a_condition_without_a_config_says_so(condition: TerminationCondition) -> None:
    with pytest.raises(NotDumpableError, match="Own"):
        condition.dump_component()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ComponentConfigError, match="max_messages"):
        TerminationCondition.load_component(
            {"provider": "callboard.conditions.MaxMessageTermination", "config": {"max_messages": "many"}}
        )
