"""Context variables: what of them travels, and what can't."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.errors import DeclarationError
from callboard.runs import a_run, context_variables
from tests.helpers.run_agents import call, chatterer, speaker


@pytest.mark.parametrize("values", [{"a": {1, 2}}, {"a": b"x"}, {1: 2}, [1], "x"], ids=str)
async def test_what_does_not_fit_into_json_is_refused(values: Any) -> None:
    with pytest.raises(DeclarationError):
        await a_run(chatterer("a"), message="Hi", max_turns=1, context_variables=values)


async def test_a_list_that_is_added_to_is_known_to_those_who_follow() -> None:
    def note(text: str) -> str:
        context_variables()["notes"].append(text)
        return "noted"

    ann = speaker("ann", call("note", text="milk"), "bob, go on.")
    bob = speaker("bob", call("note", text="bread"), "Done.")
    response = await a_run(
        ann, bob, message="Note!", tools=[note], max_turns=2, context_variables={"notes": []}
    )
    assert dict(await response.context_variables) == {"notes": ["milk", "bread"]}


async def test_a_value_that_a_function_sets_and_nobody_can_send_ends_the_run_with_its_name() -> None:
    def note() -> str:
        context_variables()["seen"] = {1, 2}
        return "noted"

    response = await a_run(speaker("ann", call("note"), "Done."), message="Note!", tools=[note])
    with pytest.raises(Exception, match="The context variable 'seen' can't be kept"):
        await response.result()


async def test_an_object_that_an_agent_had_from_the_beginning_stays_with_it() -> None:
    ann = chatterer("ann")
    ann.context_variables["connection"] = object()
    response = await a_run(ann, message="Hi", max_turns=1)
    assert await response.summary == "ann speaks"
    assert "connection" not in await response.context_variables
