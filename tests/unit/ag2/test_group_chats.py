"""Group chats of patterns as runs."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.ag2 import (
    AgentTarget,
    DefaultPattern,
    Pattern,
    ReplyResult,
    RevertToUserTarget,
    a_run_group_chat,
    run_group_chat,
)
from callboard.errors import DeclarationError
from callboard.groupchat import ContextVariables, ConversableAgent, GroupChatDeclarationError
from callboard.runs import is_async_input_request
from callboard.teams import TeamRunError
from tests.helpers.patterns import an_agent, call


def a_pattern(user: ConversableAgent | None = None, **options: Any) -> Pattern:
    desk = an_agent("desk", "Order 7 is on its way.")
    triage = an_agent("triage", call("route", order=7))

    @triage.register_for_llm(description="Routes.")
    def route(order: int) -> ReplyResult:
        return ReplyResult("routed", AgentTarget(desk), ContextVariables({"order": order}))

    variables = ContextVariables({"shop": "A", "note": None})
    return DefaultPattern(triage, [triage, desk], user, context_variables=variables, **options)


def test_a_run_of_a_pattern() -> None:
    pattern = a_pattern()
    response = run_group_chat(pattern, "Where is my parcel?", context_variables={"shop": "B"})
    senders = [message["sender"] for message in response.messages]
    assert senders == ["user", "triage", "_Group_Tool_Executor", "desk"]
    assert (response.summary, response.last_speaker) == ("Order 7 is on its way.", "desk")
    assert dict(response.context_variables) == {"shop": "B", "order": 7}
    assert pattern.context_variables.to_dict() == {"shop": "A", "note": None}
    assert [event.type for event in response.events][-1] == "completed"


def test_it_goes_on_with_the_variables_and_messages_of_an_earlier_one() -> None:
    def count(context_variables: ContextVariables) -> str:
        """Counts."""
        context_variables["n"] += 1
        return str(context_variables["n"])

    agent = an_agent("a", *[call("count"), "done"] * 3, functions=count)
    pattern = DefaultPattern(agent, [agent], context_variables=ContextVariables({"n": 0}))
    first = run_group_chat(pattern, "hi")  # the second one waits for it
    second = run_group_chat(pattern, "more", previous_run=first)
    assert dict(second.context_variables) == {"n": 2}
    # A message that only calls functions has no text.
    third = run_group_chat(pattern, [*first.messages, {"role": "user", "content": "more"}])
    assert (third.summary, dict(third.context_variables)) == ("done", {"n": 1})


async def test_a_person_answers_for_the_user_and_the_previous_agent_goes_on() -> None:
    user = ConversableAgent("customer", human_input_mode="ALWAYS")
    response = await a_run_group_chat(
        a_pattern(user, group_after_work=RevertToUserTarget()), [{"content": "Where is it?"}], max_rounds=5
    )
    async for event in response.events:
        if is_async_input_request(event):
            await event.a_respond("Thanks.")
    senders = [message["sender"] for message in await response.messages]
    assert senders == ["customer", "triage", "_Group_Tool_Executor", "desk", "customer"]


async def test_what_is_refused() -> None:
    with pytest.raises(DeclarationError, match="leave out"):
        await a_run_group_chat(a_pattern(), "hi", message="hi")
    with pytest.raises(DeclarationError, match="there is none"):
        await a_run_group_chat(a_pattern(), [])
    with pytest.raises(GroupChatDeclarationError, match="user_agent"):
        await a_run_group_chat(a_pattern(group_after_work=RevertToUserTarget()), "hi")


@pytest.mark.parametrize("name", ["n", "\ud800"])
async def test_a_variable_that_no_encoding_takes(name: str) -> None:
    def change(context_variables: ContextVariables) -> ReplyResult:
        """Changes."""
        context_variables[name] = "\ud800"
        return ReplyResult("\ud800")

    agent = an_agent("a", call("change"), "done", functions=change)
    response = await a_run_group_chat(DefaultPattern(agent, [agent]), "hi")
    with pytest.raises(TeamRunError, match="surrogates not allowed"):
        await response.result()
