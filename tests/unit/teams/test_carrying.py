"""What carries things that were said is written as pydantic would write it."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel

from callboard.agents.base import Said
from callboard.broker import MessageRegistry
from callboard.broker.codec import pack_body, plain
from callboard.broker.errors import EncodeError
from callboard.broker.limits import Limits
from callboard.memory.llm_messages import FunctionCall
from callboard.messages import (
    HandoffMessage,
    MultiModalMessage,
    StructuredMessage,
    TextMessage,
    ToolCallRequestEvent,
)
from callboard.models.types import RequestUsage
from callboard.teams.protocol import Answer, RunBegan, Shown, Speak


class Remark(BaseModel):
    """A content of a user's own."""

    notes: dict[int, Any]


class LoudMessage(TextMessage):
    """A message that adds something to what is dumped."""

    type: Literal["LoudMessage"] = "LoudMessage"  # type: ignore[assignment]  # pyright: ignore[reportIncompatibleVariableOverride]

    def dump(self) -> dict[str, Any]:
        """With a key that is no text, and a set."""
        return {**super().dump(), "more": {1: {"a"}}}


SAID: list[Said] = [
    TextMessage(content="so it is", source="ann", metadata={"k": "v"}),
    TextMessage(content="so", source="ann", models_usage=RequestUsage(prompt_tokens=1, completion_tokens=2)),
    HandoffMessage(content="yours", source="ann", target="bob"),
    MultiModalMessage(content=["a picture"], source="ann"),
    ToolCallRequestEvent(content=[FunctionCall(id="1", name="f", arguments="{}")], source="ann"),
    StructuredMessage[Remark](content=Remark(notes={1: ["a", {2: None}]}), source="ann"),
    LoudMessage(content="so it is", source="ann"),
]
CARRYING = [
    Speak(run="r", turn=2, messages=SAID, inside=(1, 2), told={7: 1}, record=True),
    Speak(run="r", turn=2, messages=[]),
    Answer(turn=2, attempt="a", messages=SAID, drafts=3),
    Shown(turn=(0,), source="", attempt="", messages=SAID, is_task=True),
    Shown(
        turn=(0,),
        source="",
        attempt="",
        messages=[],
        began=RunBegan(team="poets", conversation="c", run_id="r"),
    ),
]


@pytest.mark.parametrize("carrying", CARRYING, ids=lambda one: type(one).__name__)
def test_it_is_written_as_pydantic_writes_it(carrying: BaseModel) -> None:
    entry = MessageRegistry().entry_for(carrying)
    body = entry.encode(carrying)
    assert body == pack_body(plain(carrying.model_dump(by_alias=False, round_trip=True)))
    if LoudMessage not in map(type, getattr(carrying, "messages")):  # noqa: B009
        assert entry.decode(body) == carrying


def test_what_no_reader_would_take_is_refused() -> None:
    deep: Any = []
    for _ in range(10):
        deep = [deep]
    said = StructuredMessage[Remark](content=Remark(notes={1: deep}), source="ann")
    entry = MessageRegistry().entry_for(Answer(turn=1, attempt="a", messages=[]))
    answer = Answer(turn=1, attempt="a", messages=[said])
    assert entry.encode(answer, Limits(max_depth=16))
    with pytest.raises(EncodeError, match="nested deeper"):
        entry.encode(answer, Limits(max_depth=15))
    text = Answer(turn=1, attempt="a", messages=[TextMessage(content="so", source="ann")])
    assert entry.encode(text, Limits(max_depth=4))
    with pytest.raises(EncodeError, match="nested deeper"):
        entry.encode(text, Limits(max_depth=3))
