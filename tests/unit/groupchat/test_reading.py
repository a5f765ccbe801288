"""What a model reads of a growing chat: the same as if all of it were read anew, and made once."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from callboard.groupchat import ConversableAgent
from callboard.groupchat.model import ModelReading, to_model
from callboard.models import ReplayChatCompletionClient

CALL = {"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
KINDS: list[dict[str, Any]] = [
    {"role": "user", "content": "hello", "name": "ann"},
    {"role": "assistant", "content": "hello", "name": "ann"},
    {"role": "assistant", "content": None, "name": "bob", "tool_calls": [CALL]},
    {
        "role": "tool",
        "content": "3",
        "tool_responses": [{"tool_call_id": "1", "role": "tool", "content": "3"}],
    },
    {"role": "user", "content": [{"type": "text", "text": "look"}], "name": "ann"},
    {"role": "system", "content": "be kind"},
    {"role": "function", "name": "add", "content": "3"},
]


@pytest.mark.parametrize("seed", range(20))
def test_a_chat_that_grows_and_changes_is_read_as_if_anew(seed: int) -> None:
    chance, reading, messages = random.Random(seed), ModelReading("bob"), list[dict[str, Any]]()
    for _ in range(60):
        match chance.randrange(6):
            case 0 if messages:
                chance.choice(messages)["content"] = f"changed {chance.random()}"
            case 1 if messages:
                del messages[chance.randrange(len(messages))]
            case 2 if messages:
                for one in messages:
                    for call in one.get("tool_calls") or ():
                        call["function"]["arguments"] = f'{{"a": {chance.random()}}}'
            case 3:
                messages.insert(0, copy.deepcopy(chance.choice(KINDS)))
            case _:
                messages.append(copy.deepcopy(chance.choice(KINDS)))
        assert reading.of(messages) == to_model(messages, "bob")


def test_what_was_read_is_not_made_again() -> None:
    reading, messages = ModelReading("bob"), [copy.deepcopy(kind) for kind in KINDS]
    before = reading.of(messages)
    after = reading.of([*messages, {"role": "user", "content": "more", "name": "ann"}])
    assert [one is two for one, two in zip(before, after, strict=False)] == [True] * len(KINDS)


async def test_outside_of_a_handler_no_name_is_made_for_a_record() -> None:
    class Model(ReplayChatCompletionClient):
        named = 0

        def fingerprint(self) -> dict[str, Any]:
            type(self).named += 1
            return {"model": "model"}

    ann, bob = [
        ConversableAgent(name, llm_config=Model([], default="Hi"), human_input_mode="NEVER")
        for name in ("ann", "bob")
    ]
    await ann.a_initiate_chat(bob, message="Hi", max_turns=3, silent=True)
    assert Model.named == 0
