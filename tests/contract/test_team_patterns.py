"""Group chats of patterns on the bus: they say what they say in one process, whatever fails on the way."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from callboard.ag2 import (
    AgentTarget,
    ContextExpression,
    DefaultPattern,
    ExpressionContextCondition,
    FunctionTarget,
    FunctionTargetResult,
    ManualPattern,
    NestedChatTarget,
    OnCondition,
    OnContextCondition,
    ReplyResult,
    StayTarget,
    StringContextCondition,
    StringLLMCondition,
    TerminateTarget,
    a_initiate_group_chat,
    a_run_group_chat,
)
from callboard.agents import TaskResult
from callboard.groupchat import ContextVariables, ConversableAgent, ConversationMessage, GroupChatTeam
from callboard.memory.llm_messages import (
    FunctionCall,
    FunctionExecutionResultMessage,
    LLMMessage,
)
from callboard.messages import BaseChatMessage, TextMessage
from callboard.models import ReplayChatCompletionClient
from callboard.runs import is_async_input_request
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import TeamRunError
from tests.helpers.runtimes import Runtimes

EXECUTOR = "_Group_Tool_Executor"

enough = pytest.mark.real_server("the same turns as above; memory:// is slow")


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    return await runtimes.started()


def calls(tool: str, **arguments: Any) -> list[FunctionCall]:
    return [FunctionCall(id="1", name=tool, arguments=json.dumps(arguments))]


class Support:
    """A triage agent hands over to one who refunds, whose work is checked; what models answer depends on what they read.

    Attributes:
        executed: What was refunded.
        decided: What the function has seen that decides who checks.
    """

    def __init__(self) -> None:
        self.executed: list[int] = []
        self.decided: list[str] = []
        triage = self._agent("triage", self._triage)
        refunds = self._agent("refunds", self._refunds)
        checker = self._agent("checker", lambda messages: f"{len(messages) - 1} read")
        refunds.register_for_llm(description="Gives money back.")(self.refund)
        triage.handoffs.add_llm_condition(OnCondition(AgentTarget(refunds), StringLLMCondition("For money.")))
        triage.handoffs.set_after_work(TerminateTarget())
        refunds.handoffs.set_after_work(FunctionTarget(self.who_checks))
        done = ExpressionContextCondition(ContextExpression("${refunded} > 5 and ${checked}"))
        checker.handoffs.add_context_condition(OnContextCondition(TerminateTarget(), done))
        queue = [{"recipient": self._agent("auditor", lambda messages: "audited")}]
        checker.handoffs.add_after_work(
            OnContextCondition(NestedChatTarget({"chat_queue": queue}), StringContextCondition("checked"))
        )
        self.pattern = DefaultPattern(
            triage,
            [triage, refunds, checker],
            context_variables=ContextVariables({"refunded": 0, "note": None}),
            group_manager_args={"silent": True},
        )

    def team(self, runtime: RedisAgentRuntime | None = None, **options: Any) -> GroupChatTeam:
        return self.pattern.team(name="support", max_rounds=12, runtime=runtime, **options)

    @staticmethod
    def _agent(name: str, answers: Any) -> ConversableAgent:
        model = ReplayChatCompletionClient([], default=answers)
        return ConversableAgent(name, human_input_mode="NEVER", silent=True, llm_config=model)

    @staticmethod
    def _triage(messages: list[LLMMessage]) -> Any:
        return calls("transfer_to_refunds_1")

    @staticmethod
    def _refunds(messages: list[LLMMessage]) -> Any:
        called = [one for one in messages if isinstance(one, FunctionExecutionResultMessage)]
        return "refunded" if called else calls("refund", order=7)

    def refund(self, order: int, context_variables: ContextVariables) -> ReplyResult:
        """Gives money back."""
        self.executed.append(order)
        return ReplyResult(
            f"refunded {order}", context_variables=ContextVariables({"refunded": order, "note": None})
        )

    async def who_checks(self, output: str, context_variables: ContextVariables) -> FunctionTargetResult:
        self.decided.append(f"{output} {context_variables['refunded']}")
        checked = ContextVariables({"checked": True})
        checker = self.pattern.agents[2]
        return FunctionTargetResult("Be strict.", checked, AgentTarget(checker))


def said(result: TaskResult) -> list[tuple[str, str]]:
    return [
        (message.source, message.to_text())
        for message in result.messages
        if isinstance(message, BaseChatMessage) and message.source != "support"
    ]


SAID = [
    ("user", "My money, please."),
    ("triage", ""),
    (EXECUTOR, "Transfer to refunds"),
    ("refunds", ""),
    (EXECUTOR, "refunded 7"),
    ("refunds", "refunded"),
    ("checker", "[Handing off to Terminate]"),
]


async def test_what_it_says_here() -> None:
    support = Support()
    result, variables, _ = await a_initiate_group_chat(support.pattern, "My money, please.", silent=True)
    assert [(one.get("name", "user"), one["content"]) for one in result.chat_history] == SAID
    assert variables == {"refunded": 7, "note": None, "checked": True}


async def test_it_says_the_same_on_the_bus(runtime: RedisAgentRuntime) -> None:
    support = Support()
    result = await support.team(runtime).run(task="My money, please.")
    assert said(result) == SAID
    assert result.stop_reason == "No next speaker selected"
    assert (support.executed, support.decided) == ([7], ["refunded 7"])
    # What one is told alone is no part of what the others hear, and the declaration stays as it was.
    notes = [one.to_text() for one in result.messages if one.source == "support"]
    assert notes == ["[FUNCTION_HANDOFF] - Reply from function who_checks: \n\n Be strict."]
    assert support.pattern.context_variables == {"refunded": 0, "note": None}


@enough
async def test_conversations_do_not_share_variables(runtime: RedisAgentRuntime) -> None:
    support = Support()
    teams = [support.team(runtime, conversation=name) for name in ("one", "two", "three")]
    results = await asyncio.gather(*(team.run(task="My money, please.") for team in teams))
    assert [said(result) for result in results] == [SAID] * 3


@enough
async def test_a_second_run_goes_on_with_who_spoke_last_in_another_process(runtimes: Runtimes) -> None:
    for task, expected in (("My money, please.", SAID), ("Thanks.", [("user", "Thanks."), SAID[-1]])):
        runtime = await runtimes.started()
        assert said(await Support().team(runtime).run(task=task)) == expected
        await runtime.stop()


@enough
async def test_saved_it_goes_on_here_with_its_variables(runtime: RedisAgentRuntime) -> None:
    there = Support().team(runtime)
    await there.run(task="My money, please.")
    state = json.loads(json.dumps(await there.save_state()))
    here = Support().team()
    await here.load_state(state)
    assert said(await here.run(task="Thanks.")) == [("user", "Thanks."), SAID[-1]]


@enough
@pytest.mark.parametrize(
    ("module", "step"),
    [("member", "member answers"), ("bus_run", "turn ends")],
)
async def test_what_fails_in_the_middle_happens_once(
    module: str, step: str, runtime: RedisAgentRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step fails at every turn, as if the process had died there."""
    support, seen = Support(), dict[str, int]()

    async def fail_every_second_time(reached: str) -> None:
        if reached == step:
            seen[step] = seen.get(step, 0) + 1
            if seen[step] % 2:
                raise ConnectionError("the process would have died here")

    monkeypatch.setattr(f"callboard.teams.{module}.reached", fail_every_second_time)
    assert said(await support.team(runtime).run(task="My money, please.")) == SAID
    assert (support.executed, support.decided) == ([7], ["refunded 7"])
    assert seen[step] >= 2 * (len(SAID) - 1)


@enough
async def test_a_nested_chat_is_had_where_the_helper_is(runtime: RedisAgentRuntime) -> None:
    support = Support()
    checker = support.pattern.agents[2]
    checker.handoffs.context_conditions.clear()
    result = await support.team(runtime).run(task="My money, please.")
    assert said(result)[6:9] == [
        ("checker", "5 read"),
        ("wrapped_nested_checker_1", "audited"),
        ("checker", "7 read"),
    ]


@enough
async def test_a_variable_that_does_not_fit_into_json_fails_the_run(runtime: RedisAgentRuntime) -> None:
    agent = Support._agent("a", lambda messages: calls("act"))

    @agent.register_for_llm(description="Acts.")
    def act(context_variables: ContextVariables) -> str:
        context_variables["thing"] = object()
        return "done"

    with pytest.raises(TeamRunError, match="'thing' can't be shared"):
        await DefaultPattern(agent, [agent]).team(name="support", runtime=runtime).run(task="hi")


@enough
async def test_a_manager_in_another_process_knows_the_variables(runtimes: Runtimes) -> None:
    """A variable that a function has set in one run decides in another what is done after work."""
    agent = Support._agent("a", lambda messages: "done" if len(messages) > 2 else calls("note", text="x"))

    @agent.register_for_llm(description="Notes.")
    def note(text: str, context_variables: ContextVariables) -> str:
        context_variables["text"] = text
        return "noted"

    other = Support._agent("b", lambda messages: "b")
    noted = ExpressionContextCondition(ContextExpression("${text} == 'x'"))
    agent.handoffs.add_after_work(OnContextCondition(AgentTarget(other), noted))
    for number in range(2):
        runtime = await runtimes.started()
        result = (
            await DefaultPattern(agent, [agent, other]).team(name="support", runtime=runtime).run(task="hi")
        )
        assert said(result)[-1] == ("b", "b"), number
        if number == 0:
            agent.handoffs.context_conditions.append(
                OnContextCondition(StayTarget(), StringContextCondition("no"))
            )
        await runtime.stop()


@enough
async def test_a_person_chooses_from_anywhere(runtime: RedisAgentRuntime) -> None:
    agents = [Support._agent(name, lambda messages: "said") for name in "abc"]
    response = await a_run_group_chat(ManualPattern(agents[0], agents), "hi", 4, runtime=runtime)
    async for event in response.events:
        if is_async_input_request(event):
            assert list(event.choices) == ["a", "b", "c", "q"]
            await event.a_respond("c")
    assert [message["sender"] for message in await response.messages] == ["user", "a", "c", "c"]


@enough
@pytest.mark.parametrize(
    "metadata", [{"context_variables": "{"}, {"context_variables": "[1]"}, {"for_members": "{"}]
)
async def test_a_task_that_can_not_be_read_is_refused(
    metadata: dict[str, str], runtime: RedisAgentRuntime
) -> None:
    team = Support().team(runtime)
    with pytest.raises(ValueError, match="metadata can't be read"):
        await team.run(task=TextMessage(content="hi", source="user", metadata=metadata))
    assert said(await team.run(task="My money, please.")) == SAID


@enough
async def test_a_task_that_nobody_could_read_is_no_part_of_the_conversation(
    runtime: RedisAgentRuntime,
) -> None:
    team = Support().team(runtime)
    unreadable: list[dict[str, Any]] = [
        {},
        {"content": "hi", "name": ["x"]},
        {"content": "hi", "tool_calls": "x"},
        {"content": "hi", "tool_calls": [{"id": "1"}]},
        {"content": "hi", "role": "tool", "tool_responses": 5},
    ]
    for data in unreadable:
        with pytest.raises(ValueError, match="A message of 'user' can't be sent"):
            await team.run(task=ConversationMessage(source="user", data=data))
    assert said(await team.run(task="My money, please.")) == SAID
