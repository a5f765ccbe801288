"""Runs of this process, read asynchronously."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from callboard.agents import AssistantAgent
from callboard.conditions import MaxMessageTermination
from callboard.errors import (
    DeclarationError,
    InputAnsweredError,
    InputExpiredError,
    InputRequestUnknownError,
    InputValueError,
)
from callboard.groupchat import Agent, ConversableAgent
from callboard.messages import TextMessage
from callboard.models import ReplayChatCompletionClient
from callboard.runs import (
    AsyncInputRequestEvent,
    AsyncRunResponse,
    Event,
    RunCancelledError,
    RunUnknownError,
    a_run,
    ask_user,
    context_variables,
    is_async_input_request,
    is_error,
    is_input_response,
    load_event,
)
from callboard.teams import RoundRobinGroupChat, TeamRunError
from tests.helpers.eventually import eventually
from tests.helpers.run_agents import call, chatterer, speaker


async def events_of(response: AsyncRunResponse) -> list[Event]:
    return [event async for event in response.events]


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [f"{message['sender']}: {message['text']}" for message in messages]


async def test_one_agent_speaks_until_its_last_message() -> None:
    alice = speaker("Alice", "thinking about it...", "42")
    response = await a_run(
        alice, message="What is the meaning of life?", is_termination_message=lambda text: text == "42"
    )
    assert texts(await response.messages) == [
        "user: What is the meaning of life?",
        "Alice: thinking about it...",
        "Alice: 42",
    ]
    assert await response.summary == "42"
    assert await response.last_speaker == "Alice"
    assert await response.state == "completed"


async def test_one_agent_without_a_limit_answers_once() -> None:
    response = await a_run(speaker("Alice", "Hello."), message="Hi")
    assert (await response.result()).stop_reason == "Alice has answered."


async def test_an_assistant_and_a_team_can_be_run() -> None:
    writer = AssistantAgent("writer", ReplayChatCompletionClient(["The sea is wide."]))
    assert await (await a_run(writer, message="A line")).summary == "The sea is wide."
    team = RoundRobinGroupChat([chatterer("a"), chatterer("b")], max_turns=3)
    assert await (await a_run(team, message="Hi")).last_speaker == "a"


async def test_one_agent_executes_its_own_functions() -> None:
    def meaning(of: str) -> str:
        """What something means."""
        return f"{of}: 42"

    alice = speaker("Alice", call("meaning", of="life"), "It is 42.")
    response = await a_run(alice, message="What is the meaning of life?", tools=[meaning])
    shown = [(event.type, event.text) async for event in response.events]
    assert ("tool_call", "Alice called meaning") in shown
    assert ("tool_result", "meaning returned life: 42") in shown
    assert await response.summary == "It is 42."


async def test_two_take_turns_and_the_message_goes_to_the_first() -> None:
    jack = speaker("Jack", "one", "two", is_termination_msg=lambda message: "FINISH" in message["text"])
    response = await a_run(jack, speaker("Emma", "haha", "FINISH"), message="A joke!")
    said = ["user: A joke!", "Jack: one", "Emma: haha", "Jack: two", "Emma: FINISH"]
    assert texts(await response.messages) == said


async def test_more_speak_one_after_the_other_until_a_condition_or_the_last_turn() -> None:
    agents = [chatterer(name) for name in ("a", "b", "c")]
    response = await a_run(*agents, message="Hi", max_turns=4)
    assert [message["sender"] for message in await response.messages] == ["user", "a", "b", "c", "a"]
    response = await a_run(*agents, message="Hi", termination=MaxMessageTermination(3))
    assert len(await response.messages) == 3


async def test_agents_remember_nothing_of_other_runs() -> None:
    alice = chatterer("Alice")
    first, second = [await a_run(alice, message=text, max_turns=1) for text in ("One", "Two")]
    assert texts(await first.messages) == ["user: One", "Alice: Alice speaks"]
    assert texts(await second.messages) == ["user: Two", "Alice: Alice speaks"]
    assert not alice.member.messages


# The rows of the table in the specification of runs


async def test_results_are_there_whoever_reads_the_events() -> None:
    response = await a_run(chatterer("a"), chatterer("b"), message="Hi", max_turns=2)
    await response.wait()
    assert await response.summary == "b speaks"
    assert dict(await response.context_variables) == {}
    usage = await response.cost
    assert {part.agent for part in usage.parts} == {"a", "b"}


async def test_all_readers_see_the_same_live_or_later_from_the_start_or_from_a_number() -> None:
    response = await a_run(chatterer("a"), chatterer("b"), message="Hi", max_turns=5)
    live = await asyncio.gather(*(events_of(response) for _ in range(3)))
    later = await events_of(response)
    assert live == [later] * 3
    for place, event in enumerate(later):
        assert [one async for one in response.events_from(event.number)] == later[place + 1 :]


async def test_every_event_says_when_where_and_what_and_is_json() -> None:
    events = await events_of(await a_run(chatterer("a"), chatterer("b"), message="Hi", max_turns=2))
    numbers = [event.number for event in events]
    assert numbers == sorted(set(numbers))
    assert len({event.uuid for event in events}) == len(events)
    for event in events:
        assert event.run_id
        assert event.at.tzinfo is not None
        assert load_event(event.model_dump_json()) == event


async def test_an_answer_names_its_question_and_the_first_one_wins() -> None:
    async def ask(which: str) -> str:
        """Asks."""
        return str(await ask_user(which, choices=["yes", "no"]))

    alice = speaker("Alice", call("ask", which="first?"), call("ask", which="second?"), "Thanks.")
    response = await a_run(alice, message="Hi", tools=[ask])
    answered: list[str] = []
    async for event in response.events:
        if is_async_input_request(event):
            assert await response.state == "input_required"
            with pytest.raises(InputValueError):
                await event.a_respond("perhaps")
            await event.a_respond("yes")
            with pytest.raises(InputAnsweredError):
                await event.a_respond("no")
            answered.append(event.prompt)
    assert answered == ["first?", "second?"]
    with pytest.raises(InputRequestUnknownError):
        await response.respond("another", "yes")


async def test_a_question_can_expire() -> None:
    async def ask() -> str:
        """Asks."""
        return str(await ask_user("Who?", timeout=0.01, default="nobody"))

    response = await a_run(speaker("Alice", call("ask"), "Thanks."), message="Hi", tools=[ask])
    events = await events_of(response)
    [question] = [event for event in events if isinstance(event, AsyncInputRequestEvent)]
    assert [(event.status, event.value) for event in events if is_input_response(event)] == [
        ("expired", None)
    ]
    assert "ask returned nobody" in [event.text for event in events]
    with pytest.raises(InputExpiredError):
        await response.respond(question.request_id, "ada")


async def test_leaving_the_loop_does_not_stop_the_run_and_cancel_does() -> None:
    response = await a_run(chatterer("a"), chatterer("b"), message="Hi", max_turns=50)
    async for event in response.events:
        if event.source == "b":
            break
    assert len(await response.messages) == 51

    endless = await a_run(chatterer("a"), chatterer("b"), message="Hi")
    async for event in endless.events:
        if event.source == "b":
            await endless.cancel()
            break
    count = len(await endless.messages)
    events = await events_of(endless)
    assert (events[-1].type, events[-1].text) == ("completed", "cancelled")
    assert (await endless.state, len(await endless.messages)) == ("cancelled", count)
    with pytest.raises(RunCancelledError):
        await endless.result()


async def test_a_run_that_is_cancelled_at_once_has_an_end() -> None:
    response = await a_run(chatterer("a"), message="Hi")
    await response.cancel()
    assert [event.type for event in await events_of(response)][-1:] == ["completed"]


async def test_steps_wait_for_the_reader() -> None:
    response = await a_run(chatterer("a"), chatterer("b"), message="Hi", max_turns=3, step=True)
    seen: list[str] = []
    async for event in response.events:
        seen.append(event.type)
        for _ in range(10):
            await asyncio.sleep(0)  # whatever could go on would go on
        turns = len((await response.so_far()).messages) - 1
        assert turns <= seen.count("speaker_selected")
    assert seen.count("agent_message") == 4


async def test_pause_holds_until_resume() -> None:
    response = await a_run(chatterer("a"), chatterer("b"), message="Hi", max_turns=20)
    assert await response.pause()
    assert await response.state == "paused"
    assert not await response.pause()
    assert await response.resume()
    assert len(await response.messages) == 21
    assert not await response.resume()


async def test_an_error_is_an_event_and_then_an_exception_and_other_runs_go_on() -> None:
    def fail(*_: Any, **__: Any) -> tuple[bool, str]:
        raise ValueError("no idea")

    alice = speaker("Alice")
    alice.register_reply([Agent, None], fail)
    other = await a_run(chatterer("b"), message="Hi", max_turns=3)
    response = await a_run(alice, message="Hi")
    last = (await events_of(response))[-1]
    assert is_error(last)
    assert (last.error_type, last.content, last.where) == ("ValueError", "no idea", "Alice")
    assert await response.state == "failed"
    assert texts(await response.messages) == ["user: Hi"]
    with pytest.raises(TeamRunError, match="no idea"):
        await response.result()
    assert len(await other.messages) == 4


# Going on


async def test_a_previous_run_goes_on_with_its_messages_and_variables() -> None:
    def remember() -> str:
        """Remembers."""
        context_variables()["customer"] = "ada"
        return "noted"

    heard: list[int] = []

    def count(messages: Any) -> str:
        heard.append(len(messages))
        return "fine"

    model = ReplayChatCompletionClient([call("remember")], default=count)
    alice = ConversableAgent("Alice", llm_config=model, human_input_mode="NEVER")
    first = await a_run(alice, message="One", tools=[remember], context_variables={"order": 7})
    assert dict(await first.context_variables) == {"order": 7, "customer": "ada"}

    second = await a_run(alice, chatterer("Bob"), message="Two", previous_run=first.run_id, max_turns=2)
    assert texts(await second.messages) == ["user: Two", "Alice: fine", "Bob: Bob speaks"]
    assert heard[-1] > heard[0] + 1  # what was said before, and the new message
    assert dict(await second.context_variables) == {"order": 7, "customer": "ada"}


async def test_an_unknown_previous_run_is_an_error() -> None:
    with pytest.raises(RunUnknownError, match="xyz"):
        await a_run(chatterer("a"), message="Hi", previous_run="xyz")


@pytest.mark.parametrize(
    ("agents", "options", "problem"),
    [
        ([], {}, "Nobody"),
        (["a", "a"], {}, "Two agents"),
        (["a"], {"conversation": "x"}, "runtime"),
        (["a"], {"colour": "red"}, "colour"),
        (["a"], {"context_variables": {"x": 1}}, "message"),
    ],
)
async def test_what_can_not_run_is_refused(agents: list[str], options: dict[str, Any], problem: str) -> None:
    with pytest.raises(DeclarationError, match=problem):
        await a_run(*map(chatterer, agents), **options)


async def test_a_function_hands_over_by_returning_an_agent() -> None:
    sales = speaker("sales", "What would you like?")
    triage = speaker("triage", call("to_sales"))

    @triage.register_for_llm(description="Hands over.")
    def to_sales() -> Any:
        return sales

    response = await a_run(triage, message=TextMessage(content="A bike", source="ada"))
    assert texts(await response.messages) == ["ada: A bike", "sales: What would you like?"]
    assert [event.text async for event in response.events if event.type == "handoff"] == [
        "triage handed over to sales"
    ]


async def test_many_runs_at_once_are_not_mixed() -> None:
    def echo(messages: Any) -> str:
        return f"heard {messages[-1].content}"

    agent = ConversableAgent("a", llm_config=ReplayChatCompletionClient([], default=echo))
    responses = await asyncio.gather(*(a_run(agent, message=f"task {number}") for number in range(100)))
    summaries = [await response.summary for response in responses]
    assert summaries == [f"heard task {number}" for number in range(100)]


async def test_nothing_is_left_behind() -> None:
    response = await a_run(chatterer("a"), message="Hi", max_turns=2)
    await response.wait()
    await eventually(lambda: len(asyncio.all_tasks()) == 1)
