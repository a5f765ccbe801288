"""What is said as events: made without pydantic's checks, and yet the same as if they had been checked."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime
from typing import Literal

import pytest

from callboard.agents.base import Said
from callboard.groupchat.messages import ConversationMessage
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult
from callboard.messages import (
    BaseTextChatMessage,
    HandoffMessage,
    SelectSpeakerEvent,
    StopMessage,
    TextMessage,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
)
from callboard.models.types import RequestUsage
from callboard.runs import AgentMessageEvent, load_event
from callboard.runs.projection import Projection, message_of

AT = datetime(2026, 11, 22, 20, 0, tzinfo=UTC)
SAID: tuple[Said, ...] = (
    TextMessage(
        content="Hello", source="ada", models_usage=RequestUsage(prompt_tokens=1, completion_tokens=2)
    ),
    ConversationMessage(source="ada", data={"content": "Hello", "name": "ada", "role": "user"}),
    StopMessage(content="enough", source="ada"),
    HandoffMessage(content="your turn", source="ada", target="bob"),
    SelectSpeakerEvent(content=["bob"], source="team"),
    ToolCallRequestEvent(content=[FunctionCall(id="1", name="pay", arguments="{}")], source="ada"),
    ToolCallExecutionEvent(
        content=[FunctionExecutionResult(call_id="1", name="pay", content="paid", is_error=False)],
        source="ada",
    ),
)


class Loud(BaseTextChatMessage):
    """A text of a type of the user's own."""

    type: Literal["tests.Loud"] = "tests.Loud"

    def to_text(self) -> str:
        """In capitals."""
        return self.content.upper()


@pytest.mark.parametrize("said", SAID, ids=lambda said: type(said).__name__)
@pytest.mark.parametrize("is_draft", [False, True])
def test_an_event_is_what_pydantic_would_make_of_it(said: Said, is_draft: bool) -> None:
    events = Projection("run").of(said, 7, AT, is_draft=is_draft)
    assert [event.number for event in events] == list(range(7, 7 + len(events)))
    for event in events:
        assert load_event(event.model_dump_json()) == event
        assert copy.deepcopy(event) == pickle.loads(pickle.dumps(event)) == event
        assert (event.model_fields_set, event.is_draft) == (set(type(event).model_fields), is_draft)


def test_numbers_and_drafts_have_their_own_ids() -> None:
    one, other = Projection("run"), Projection("other")
    made = [
        which.of(SAID[2], number, AT, is_draft=is_draft)[0]
        for which in (one, other)
        for number in (1, 2)
        for is_draft in (False, True)
    ]
    assert len({event.uuid for event in made}) == len(made)


def test_a_text_says_what_any_message_says() -> None:
    texts = (TextMessage(content="Hello", source="ada"), Loud(content="Hello", source="ada"))
    for said in texts:
        (event,) = Projection("run").of(said, 1, AT)
        assert isinstance(event, AgentMessageEvent)
        assert event.message == message_of(said)
        assert event.message["text"] == said.to_text()
