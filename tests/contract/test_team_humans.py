"""People who are asked by members of a team: without a process, in any order, from anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from callboard import InputAnsweredError, InputValueError, NotAllowedToAnswerError
from callboard.ag2 import DefaultPattern
from callboard.agents import AnswerGuardrail, Asks, AssistantAgent, TaskResult, UserProxyAgent
from callboard.core.people import InputRequest
from callboard.groupchat import ConversableAgent, GroupChat, GroupChatManager
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResultMessage, LLMMessage
from callboard.messages import InputAnsweredEvent, InputRequestedEvent, ToolCallExecutionEvent
from callboard.models import ReplayChatCompletionClient
from callboard.models.replay import Answer
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import BaseGroupChat, RoundRobinGroupChat, RunCancelledError, list_runs
from callboard.teams.client import TeamClient
from callboard.tools import ApprovalRule, FunctionTool
from tests.helpers.chat import texts
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Runtimes


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


class Desk:
    """Tools of a desk that pays back: two that have to be allowed, and one beside them."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def refund(self, cents: int) -> str:
        """Pays back."""
        self.done.append(f"paid {cents}")
        return f"paid {cents}"

    async def ban(self, customer: str) -> str:
        """Bans a customer."""
        self.done.append(f"banned {customer}")
        return f"banned {customer}"

    async def note(self) -> str:
        """Notes."""
        self.done.append("noted")
        return "noted"

    def member(self) -> AssistantAgent:
        tools = [
            FunctionTool(self.refund, needs_approval=True),
            FunctionTool(self.ban, needs_approval=ApprovalRule(by="eve")),
            FunctionTool(self.note),
        ]
        model = ReplayChatCompletionClient(default=acts)
        return AssistantAgent("desk", model, tools=tools, max_tool_iterations=2)


def acts(messages: Sequence[LLMMessage]) -> Answer:
    last = messages[-1]
    if isinstance(last, FunctionExecutionResultMessage):
        return "; ".join(result.content for result in last.content)
    return [
        FunctionCall("1", '{"cents": 17}', "refund"),
        FunctionCall("2", '{"customer": "mallory"}', "ban"),
        FunctionCall("3", "{}", "note"),
    ]


@asynccontextmanager
async def under_way(team: BaseGroupChat) -> AsyncIterator[list[Any]]:
    """What readers see of a run, as it goes on."""
    shown: list[Any] = []

    async def read() -> None:
        async for item in team.run_stream(task="go"):
            shown.append(item)  # noqa: PERF401 - as they come

    reading = asyncio.ensure_future(read())
    try:
        yield shown
        await reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def asked(client: TeamClient, count: int) -> list[InputRequest]:
    """The questions, once there are so many and nobody works any more."""
    found: list[InputRequest] = []

    async def are_there() -> bool:
        found[:] = await client.questions()
        return len(found) == count

    await eventually(are_there)
    return sorted(found, key=lambda one: one.question)


def of(shown: list[Any], kind: type[Any]) -> list[Any]:
    return [item for item in shown if isinstance(item, kind)]


async def test_two_tools_of_one_answer_wait_for_two_people(runtime: RedisAgentRuntime) -> None:
    desk = Desk()
    team = RoundRobinGroupChat([desk.member()], name="shop", max_turns=1, runtime=runtime)
    client = team.on(runtime)
    async with under_way(team) as shown:
        ban, refund = await asked(client, 2)
        assert (await client.status()).state == "input_required"
        assert ban.details == {
            "kind": "tool_approval",
            "tool": "ban",
            "arguments": {"customer": "mallory"},
        }
        await eventually(lambda: len(of(shown, InputRequestedEvent)) == 2)

        with pytest.raises(NotAllowedToAnswerError):
            await client.answer(ban.id, "yes", by="ada")
        for no_answer in ("maybe", '{"cents": 5}', {"approved": True, "arguments": {"cents": "many"}}):
            with pytest.raises(InputValueError):
                await client.answer(refund.id, no_answer)
        await client.answer(ban.id, "no: he is a friend", by="eve")
        await client.answer(refund.id, {"approved": True, "arguments": {"cents": 5}})
        with pytest.raises(InputAnsweredError):
            await client.answer(refund.id, "no")

    (result,) = of(shown, TaskResult)
    said = texts(result)[-1]
    assert said == "paid 5; ban was not called: a person has not allowed it: he is a friend; noted"
    assert sorted(desk.done) == ["noted", "paid 5"]
    assert {event.request_id for event in of(shown, InputRequestedEvent)} == {ban.id, refund.id}
    assert sorted((event.by, event.status) for event in of(shown, InputAnsweredEvent)) == [
        ("", "answered"),
        ("eve", "answered"),
    ]
    assert len(of(shown, ToolCallExecutionEvent)) == 1


async def test_a_person_is_a_member_who_may_take_days(runtime: RedisAgentRuntime) -> None:
    model = ReplayChatCompletionClient(["Tea or coffee?", "Here is your tea."])
    members = [AssistantAgent("waiter", model), UserProxyAgent("guest", to="gus")]
    team = RoundRobinGroupChat(members, name="cafe", max_turns=3, runtime=runtime)
    client = team.on(runtime)
    async with under_way(team) as shown:
        (question,) = await asked(client, 1)
        assert (question.question, question.to) == ("Tea or coffee?", ("gus",))
        assert question.details == {"kind": "user_input", "agent": "guest", "source": "waiter"}
        await client.answer(question.id, "Tea.", by="gus")
    assert texts(of(shown, TaskResult)[0]) == ["go", "Tea or coffee?", "Tea.", "Here is your tea."]


async def test_a_member_of_a_nested_team_asks_in_the_outermost_run(runtime: RedisAgentRuntime) -> None:
    inner = RoundRobinGroupChat([UserProxyAgent("guest")], name="table", max_turns=1)
    team = RoundRobinGroupChat([inner], name="cafe", max_turns=1, runtime=runtime)
    client = team.on(runtime)
    async with under_way(team) as shown:
        (question,) = await asked(client, 1)
        assert (await client.status()).state == "input_required"
        assert [(run.team, run.state) for run in await list_runs(runtime)] == [("cafe", "input_required")]
        await client.answer(question.id, "Tea.")
    (event,) = of(shown, InputRequestedEvent)
    assert (event.source, event.request_id) == ("guest", question.id)
    assert texts(of(shown, TaskResult)[0])[-1] == "Tea."


async def test_a_run_that_is_aborted_withdraws_its_questions(runtime: RedisAgentRuntime) -> None:
    team = RoundRobinGroupChat([UserProxyAgent("guest")], name="cafe", max_turns=1, runtime=runtime)
    client = team.on(runtime)
    running = asyncio.ensure_future(team.run(task="go"))
    await asked(client, 1)
    await client.abort()
    with pytest.raises(RunCancelledError):
        await running
    assert await asked(client, 0) == []


async def test_a_guardrail_has_a_person_decide(runtime: RedisAgentRuntime) -> None:
    asks = AnswerGuardrail(lambda answer: Asks(f"May I say {answer.to_text()!r}?"))
    model = ReplayChatCompletionClient(["Go away.", "Please leave."])
    member = AssistantAgent("host", model, guardrails=[asks])
    team = RoundRobinGroupChat([member], name="door", max_turns=1, runtime=runtime)
    client = team.on(runtime)
    async with under_way(team) as shown:
        (first,) = await asked(client, 1)
        assert first.question == "May I say 'Go away.'?"
        with pytest.raises(InputValueError):
            await client.answer(first.id, {"approved": True, "arguments": {}})
        await client.answer(first.id, "no: be polite")

        async def is_another_one() -> bool:
            return [one.question for one in await client.questions()] == ["May I say 'Please leave.'?"]

        await eventually(is_another_one)
        await client.answer((await client.questions())[0].id, True)
    assert texts(of(shown, TaskResult)[0])[-1] == "Please leave."


async def test_a_person_behind_an_agent_of_a_group_chat(runtime: RedisAgentRuntime) -> None:
    guest = ConversableAgent("guest", human_input_mode="ALWAYS", silent=True)
    bot = ConversableAgent("bot", human_input_mode="NEVER", silent=True, default_auto_reply="Beep.")
    chat = GroupChat([bot, guest], max_round=3, speaker_selection_method="round_robin")
    team = GroupChatManager(chat, name="chat", silent=True).team(runtime=runtime)
    running = asyncio.ensure_future(team.run(task="go"))
    client = team.on(runtime)
    (question,) = await asked(client, 1)
    assert question.details == {"kind": "user_input", "agent": "guest"}
    await client.answer(question.id, "hello")
    assert "hello" in texts(await running)


async def test_each_call_of_a_conversable_agent_is_asked_for_by_itself(runtime: RedisAgentRuntime) -> None:
    """Neither one that has failed, nor one that was refused or recorded, leaves its answer to the next one."""
    tried: list[int] = []

    async def refund(cents: int) -> str:
        """Pays back."""
        tried.append(cents)
        if cents == 17:
            raise ValueError("the till is empty")
        return f"paid {cents}"

    def pays(messages: Sequence[LLMMessage]) -> Answer:
        if isinstance(messages[-1], FunctionExecutionResultMessage):
            return "; ".join(result.content for result in messages[-1].content)
        return [FunctionCall(str(cents), f'{{"cents": "{cents}"}}', "refund") for cents in (17, 200, 5, 6)]

    desk = ConversableAgent(
        "desk",
        llm_config=ReplayChatCompletionClient(default=pays),
        functions=[FunctionTool(refund, needs_approval=True)],
        human_input_mode="NEVER",
    )
    pattern = DefaultPattern(desk, [desk], group_manager_args={"silent": True})
    team = pattern.team(name="shop", max_rounds=4, runtime=runtime)
    client = team.on(runtime)
    async with under_way(team) as shown:
        for cents, answer in ((17, "yes"), (200, "no: too much"), (5, "yes"), (6, {"approved": False})):
            (question,) = await asked(client, 1)
            assert question.details["arguments"] == {"cents": cents}
            await client.answer(question.id, answer)
            await eventually_other(client, question.id)
    (result,) = of(shown, TaskResult)
    said = " ".join(texts(result))
    assert "the till is empty" in said
    assert "too much" in said
    assert "paid 5" in said
    assert tried == [17, 5]


async def eventually_other(client: TeamClient, question: str) -> None:
    """Once a question is answered, and not open any more."""

    async def is_gone() -> bool:
        return question not in {one.id for one in await client.questions()}

    await eventually(is_gone)
