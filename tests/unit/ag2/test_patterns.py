"""Group chats of patterns, in one process, with models that say what a script tells them."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from callboard.ag2 import (
    AgentNameTarget,
    AgentTarget,
    AskUserTarget,
    AutoPattern,
    ContextExpression,
    ContextStrLLMCondition,
    DefaultPattern,
    ExpressionContextCondition,
    FunctionTarget,
    FunctionTargetMessage,
    FunctionTargetResult,
    GroupChatConfig,
    GroupChatTarget,
    GroupManagerSelectionMessageContextStr,
    GroupManagerTarget,
    ManualPattern,
    NestedChatTarget,
    OnCondition,
    OnContextCondition,
    Pattern,
    RandomAgentTarget,
    RandomPattern,
    ReplyResult,
    RevertToUserTarget,
    RoundRobinPattern,
    StayTarget,
    StringAvailableCondition,
    StringContextCondition,
    StringLLMCondition,
    TerminateTarget,
    TransitionTarget,
    a_initiate_group_chat,
    initiate_group_chat,
)
from callboard.groupchat import (
    ContextStr,
    ContextVariables,
    ConversableAgent,
    GroupChatDeclarationError,
    IOStream,
    UpdateSystemMessage,
)
from callboard.memory.llm_messages import FunctionCall
from tests.helpers.chat import Echo
from tests.helpers.group_chats import Scripted
from tests.helpers.patterns import a_model, an_agent, call, chatted, offered_to, read_by

EXECUTOR = "_Group_Tool_Executor"
NOW = StringLLMCondition("Now.")
READY = StringContextCondition("ready")


def a_user(name: str = "user") -> ConversableAgent:
    return an_agent(name)


# Handoffs by the model


async def test_a_model_hands_over_and_nobody_sees_the_call() -> None:
    tech = an_agent("tech", "Have you tried turning it off?")
    triage = an_agent("triage", call("transfer_to_tech_1"))
    triage.handoffs.add_llm_condition(OnCondition(AgentTarget(tech), StringLLMCondition("For computers.")))
    pattern = DefaultPattern(triage, [triage, tech], a_user())
    result, names = await chatted(pattern, "My mouse is broken.")
    assert names == ["user", "triage", EXECUTOR, "tech"]
    assert result.chat_history[2]["content"] == "Transfer to tech"
    assert result.stop_reason == "No next speaker selected"
    assert result.summary == "Have you tried turning it off?"
    assert offered_to(triage) == [{"transfer_to_tech_1": "For computers."}]
    assert [message.content for message in read_by(tech)[0][1:]] == ["My mouse is broken."]


async def test_everybody_sees_it_if_wanted() -> None:
    tech, triage = an_agent("tech", "done"), an_agent("triage", call("transfer_to_tech_1"))
    triage.handoffs.add_llm_condition(OnCondition(AgentTarget(tech), NOW))
    await chatted(DefaultPattern(triage, [triage, tech], a_user(), exclude_transit_message=False))
    assert len(read_by(tech)[0]) == 4


@pytest.mark.parametrize(
    ("target", "tool", "says"),
    [
        (AgentNameTarget("b"), "transfer_to_b_1", "b"),
        (RandomAgentTarget([an_agent("a"), an_agent("b")]), "transfer_to_random_agent_1", "b"),
        (StayTarget(), "transfer_to_stay_1", "a"),
        (RevertToUserTarget(), "transfer_to_revert_to_user_1", "user"),
        (TerminateTarget(), "transfer_to_terminate_1", None),
    ],
)
async def test_targets(target: TransitionTarget, tool: str, says: str | None) -> None:
    a = an_agent("a", call(tool), "second")
    a.handoffs.add_llm_condition(OnCondition(target, NOW))
    _, names = await chatted(DefaultPattern(a, [a, an_agent("b")], a_user()), max_rounds=4)
    assert names[3:] == ([] if says is None else [says])


async def test_what_is_available_and_what_the_model_is_told_changes_at_every_turn() -> None:
    a = an_agent("a", call("login", name="Ann"), call("transfer_to_b_1"), call("transfer_to_b_2"))
    b = an_agent("b")
    a.handoffs.add_llm_conditions(
        [
            OnCondition(AgentTarget(b), NOW, available=StringAvailableCondition("is_stranger")),
            OnCondition(
                AgentTarget(b),
                ContextStrLLMCondition(ContextStr("{customer} may.")),
                available=StringAvailableCondition("customer"),
            ),
        ]
    )

    @a.register_for_llm(description="Log in.")
    def login(name: str, context_variables: ContextVariables) -> str:
        context_variables["customer"] = name
        context_variables["is_stranger"] = False
        return "ok"

    pattern = DefaultPattern(a, [a, b], context_variables=ContextVariables(data={"is_stranger": True}))
    result, names = await chatted(pattern, max_rounds=9)
    assert offered_to(a)[:2] == [
        {"login": "Log in.", "transfer_to_b_1": "Now."},
        {"login": "Log in.", "transfer_to_b_2": "Ann may."},
    ]
    # A call of what is not offered hands over to nobody.
    assert result.chat_history[4]["content"] == "Error: transfer_to_b_1 is not available now."
    assert names == ["_User", "a", EXECUTOR, "a", EXECUTOR, "a", EXECUTOR, "b"]


async def test_an_agent_changes_itself_before_it_answers() -> None:
    async def count(agent: ConversableAgent, messages: Any) -> None:
        agent.context_variables["n"] += len(messages)

    a = an_agent(
        "a", "end", update_agent_state_before_reply=[count, UpdateSystemMessage("{n} for {who}, {unknown}.")]
    )
    b = an_agent(
        "b", "end", update_agent_state_before_reply=UpdateSystemMessage(lambda agent, messages: agent.name)
    )
    a.handoffs.set_after_work(AgentTarget(b))
    await chatted(DefaultPattern(a, [a, b], context_variables=ContextVariables({"n": 1, "who": "Ann"})))
    assert [read_by(agent)[0][0].content for agent in (a, b)] == ["2 for Ann, {unknown}.", "b"]


# Handoffs by context variables


async def test_context_variables_hand_over_before_the_model_is_asked() -> None:
    a, b = an_agent("a", "never"), an_agent("b")
    a.handoffs.add_context_conditions(
        [
            OnContextCondition(TerminateTarget(), StringContextCondition("gone")),
            OnContextCondition(AgentTarget(b), ExpressionContextCondition(ContextExpression("${n} > 2"))),
        ]
    )
    pattern = DefaultPattern(a, [a, b], context_variables=ContextVariables({"n": 3}))
    result, names = await chatted(pattern)
    assert names == ["_User", "a", "b"]
    assert result.chat_history[1]["content"] == "[Handing off to b]"
    assert read_by(a) == []


async def test_a_variable_that_is_not_there_ends_no_run(stream: Scripted) -> None:
    a, b = an_agent("a", "I stay."), an_agent("b")
    gone = ExpressionContextCondition(ContextExpression("${gone} or True"))
    a.handoffs.add_context_condition(OnContextCondition(AgentTarget(b), gone))
    _, names = await chatted(DefaultPattern(a, [a, b]))
    assert names == ["_User", "a"]
    assert "no context variable 'gone'" in stream.only("condition_not_met")[0].reason


# Functions


def returns(value: Any) -> Callable[[], Any]:
    def act() -> Any:
        """Acts."""
        return value() if callable(value) else value

    return act


async def test_what_a_function_returns() -> None:
    b = an_agent("b")
    for value, names, text in [
        (ReplyResult("done", AgentNameTarget("b"), ContextVariables({"x": 1})), ["b"], "done"),
        (AgentTarget(b), ["b"], "Transfer to b"),
        (b, ["b"], "Transfer to b"),
        (ReplyResult("done"), ["a"], "done"),
        (ReplyResult("done", StayTarget()), ["a"], "done"),
        (ReplyResult("done", TerminateTarget()), [], "done"),
        ({"n": 1}, ["a"], '{"n":1}'),
    ]:
        a = an_agent("a", call("act"), "end", functions=[returns(value)])
        result, spoken = await chatted(DefaultPattern(a, [a, b]))
        assert (spoken[3:], result.chat_history[2]["content"]) == (names, text)


async def test_several_calls_are_executed_in_order_and_the_last_target_counts() -> None:
    seen = []

    async def one(context_variables: ContextVariables) -> ReplyResult:
        """One."""
        seen.append(context_variables.get("two"))
        return ReplyResult("1", AgentNameTarget("b"), ContextVariables({"one": 1}))

    def two(context_variables: ContextVariables) -> ReplyResult:
        """Two."""
        seen.append(context_variables.get("one"))
        return ReplyResult("2", AgentNameTarget("c"))

    def three() -> str:
        """Three."""
        raise RuntimeError("broken")

    calls = [*call("one"), *call("two"), *call("three"), *call("four")]
    a = an_agent("a", calls, functions=[one, two, three])
    result, names = await chatted(DefaultPattern(a, [a, an_agent("b"), an_agent("c")]))
    assert names == ["_User", "a", EXECUTOR, "c"]
    assert seen == [None, 1]
    said = result.chat_history[2]["content"]
    assert said == "1\n2\nError: broken\nError: Function four not found."


async def test_each_agent_has_its_own_function_of_a_name() -> None:
    b = an_agent("b", call("act"), "end", functions=returns("of b"))
    a = an_agent("a", call("act"), "over to b", functions=returns("of a"))
    a.handoffs.set_after_work(AgentTarget(b))
    result, _ = await chatted(DefaultPattern(a, [a, b]))
    assert [message["content"] for message in result.chat_history if message["role"] == "tool"] == [
        "of a",
        "of b",
    ]


async def test_nobody_calls_what_others_were_given() -> None:
    executed = []

    def pay() -> None:
        """Pays."""
        executed.append(1)

    a, b = an_agent("a", call("pay"), "end"), an_agent("b", functions=pay)
    b.register_function({"pay": pay})
    result, _ = await chatted(DefaultPattern(a, [a, b]))
    assert result.chat_history[2]["content"] == "Error: Function pay not found."
    assert not executed


async def test_one_agent_knows_a_function_and_another_one_executes_it() -> None:
    a, b = an_agent("a", call("pay"), "end"), an_agent("b")
    a.functions.offered.append({"name": "pay", "description": "Pays.", "parameters": {}})
    b.register_function({"pay": lambda: "paid"})
    result, _ = await chatted(DefaultPattern(a, [a, b]))
    assert result.chat_history[2]["content"] == "paid"


async def test_functions_for_execution_get_the_variables_as_well() -> None:
    a = an_agent("a", call("act", n=1), "end")

    @a.register_for_execution()
    def act(n: int, context_variables: ContextVariables) -> str:
        return f"{n} {context_variables['x']}"

    result, _ = await chatted(DefaultPattern(a, [a], context_variables=ContextVariables(x=2)))
    assert result.chat_history[2]["content"] == "1 2"


# After work


async def test_what_is_done_after_work() -> None:
    a, b = an_agent("a"), an_agent("b")
    a.handoffs.add_after_works(
        [
            OnContextCondition(TerminateTarget()),
            OnContextCondition(AgentTarget(b), READY, StringAvailableCondition("may")),
        ]
    )
    for variables, names in [
        ({}, ["a"]),
        ({"ready": True}, ["a"]),
        ({"ready": True, "may": True}, ["a", "b"]),
    ]:
        pattern = DefaultPattern(a, [a, b], context_variables=ContextVariables(variables))
        assert (await chatted(pattern))[1][1:] == names


async def test_the_user_returns_to_whoever_spoke_before() -> None:
    a, user = an_agent("a"), a_user()
    pattern = DefaultPattern(a, [a], user, group_after_work=RevertToUserTarget())
    assert (await chatted(pattern, max_rounds=5))[1] == ["user", "a", "user", "a", "user"]
    user.handoffs.set_after_work(TerminateTarget())
    assert (await chatted(pattern, max_rounds=5))[1] == ["user", "a", "user"]


# A function decides


async def test_a_function_decides() -> None:
    a, b, user = an_agent("a", "draft"), an_agent("b", "checked"), a_user()
    asked = []

    async def check(output: str, context_variables: ContextVariables) -> FunctionTargetResult:
        asked.append((output, context_variables["n"]))
        return FunctionTargetResult(
            messages="Be strict.", context_variables=ContextVariables({"n": 2}), target=AgentTarget(b)
        )

    a.handoffs.set_after_work(FunctionTarget(check))
    pattern = DefaultPattern(a, [a, b], user, context_variables=ContextVariables({"n": 1}))
    _, variables, last = await a_initiate_group_chat(pattern, "hi", silent=True)
    assert asked == [("draft", 1)]
    assert (variables.to_dict(), last) == ({"n": 2}, b)
    texts = [str(message.content) for message in read_by(b)[0]]
    assert texts[-1] == "[FUNCTION_HANDOFF] - Reply from function check: \n\n Be strict."
    assert "Be strict" not in str(read_by(a))


async def test_a_function_decides_for_conditions_and_tells_others() -> None:
    a, b = an_agent("a", call("transfer_to_check_1"), "end"), an_agent("b", "told")

    def check(output: str, context_variables: ContextVariables) -> FunctionTargetResult:
        return FunctionTargetResult(messages=[FunctionTargetMessage("Hello.", b)], target=StayTarget())

    a.handoffs.add_llm_condition(OnCondition(FunctionTarget(check), NOW)).set_after_work(AgentTarget(b))
    _, names = await chatted(DefaultPattern(a, [a, b]))
    assert names == ["_User", "a", EXECUTOR, "a", "b"]
    assert "Hello." in str(read_by(b)[0])


@pytest.mark.parametrize(
    "result", [None, FunctionTargetResult(), FunctionTargetResult(target=FunctionTarget(print))]
)
async def test_what_a_function_can_not_decide(result: Any) -> None:
    a = an_agent("a")

    def decides(output: str, context_variables: ContextVariables) -> Any:
        return result

    a.handoffs.set_after_work(FunctionTarget(decides))
    with pytest.raises(GroupChatDeclarationError):
        await chatted(DefaultPattern(a, [a]))


# Chats of their own


async def test_a_nested_chat() -> None:
    asked: list[Any] = []

    def opening(recipient: Any, messages: Any, sender: Any, config: Any) -> str:
        asked.append((recipient.name, messages[-1]["content"], config))
        return "second"

    checker, counter = an_agent("checker", "fine"), an_agent("counter", "3 words")
    queue = [{"recipient": checker}, {"recipient": counter, "message": opening, "carryover": "Count."}]
    queue.append({"recipient": checker})  # no message: it does not take place
    a = an_agent("a", "again", "never")
    b = an_agent("b", "the draft")
    a.handoffs.add_after_work(OnContextCondition(NestedChatTarget({"chat_queue": queue, "config": 7}), READY))
    b.handoffs.set_after_work(AgentTarget(a))
    pattern = DefaultPattern(b, [a, b], context_variables=ContextVariables(ready=True))
    result, names = await chatted(pattern, max_rounds=4)
    assert names == ["_User", "b", "a", "wrapped_nested_a_1"]
    assert result.chat_history[-1]["content"] == "3 words"
    assert asked == [("counter", "again", 7)]
    heard = str(read_by(counter)[0][-1].content)
    assert heard == "second\nContext: \nCount.\nfine"
    assert result.cost["usage_including_cached_inference"]["replay"]["completion_tokens"] > 3


async def test_it_returns_to_who_handed_over() -> None:
    a = an_agent("a", call("transfer_to_wrapped_nested_a_1_1"), "back")
    nested = NestedChatTarget({"chat_queue": [{"recipient": an_agent("c", "checked")}]})
    a.handoffs.add_llm_condition(OnCondition(nested, NOW))
    _, names = await chatted(DefaultPattern(a, [a]))
    assert names == ["_User", "a", EXECUTOR, "wrapped_nested_a_1", "a"]


async def test_a_group_chat_in_a_group_chat() -> None:
    c, d = an_agent("c"), an_agent("d", "agreed")
    inner = RoundRobinPattern(c, [c, d])
    a = an_agent("a", "end")
    target = GroupChatTarget(GroupChatConfig(inner, "Discuss it.", max_rounds=3))
    a.handoffs.add_context_condition(OnContextCondition(target, READY))
    variables = ContextVariables(ready=True)
    result, names = await chatted(DefaultPattern(a, [a], context_variables=variables), max_rounds=3)
    assert names == ["_User", "a", "wrapped_group_a_1"]
    assert result.chat_history[-1]["content"] == "agreed"
    assert len(c.chat_messages) == 0  # copies chat


# Patterns


@pytest.mark.parametrize(
    ("kind", "users", "names"),
    [
        (RoundRobinPattern, True, ["b", "a", "c", "user", "b", "a"]),
        (RoundRobinPattern, False, ["b", "a", "c", "b", "a", "c"]),
    ],
)
async def test_round_robin(kind: type[Pattern], users: bool, names: list[str]) -> None:
    a, b, c = an_agent("a"), an_agent("b"), an_agent("c")
    pattern = kind(b, [a, b, c], a_user() if users else None)
    assert (await chatted(pattern, max_rounds=7))[1][1:] == names


async def test_random(monkeypatch: pytest.MonkeyPatch) -> None:
    among: list[list[str]] = []

    def choose(names: list[str]) -> str:
        among.append(names)
        return names[-1]

    monkeypatch.setattr(random, "choice", choose)
    a, b = an_agent("a"), an_agent("b")
    _, names = await chatted(RandomPattern(a, [a, b], a_user()), max_rounds=4)
    assert names == ["user", "a", "user", "b"]
    assert among == [["b", "user"], ["a", "b"]]


async def test_auto_lets_a_model_choose_among_agents_and_the_user() -> None:
    a, b, chooser = an_agent("a"), an_agent("b"), a_model("b", "user")
    message = GroupManagerSelectionMessageContextStr("For {topic}: one of {agentlist}.")
    pattern = AutoPattern(
        a,
        [a, b],
        a_user(),
        {"llm_config": chooser},
        ContextVariables({"topic": "art", "agentlist": "no"}),
        message,
    )
    assert (await chatted(pattern, max_rounds=4))[1] == ["user", "a", "b", "user"]
    assert chooser.create_calls[0]["messages"][-1].content == "For art: one of ['a', 'b', 'user']."


async def test_auto_takes_the_model_of_an_agent() -> None:
    a, b = an_agent("a"), an_agent("b", "b", "said")
    assert (await chatted(AutoPattern(a, [a, b], a_user()), max_rounds=3))[1] == ["user", "a", "b"]


async def test_manual_lets_a_person_choose(stream: Scripted) -> None:
    stream.answers = ["2", "q"]
    a, b = an_agent("a"), an_agent("b")
    assert (await chatted(ManualPattern(a, [a, b], a_user()), max_rounds=4))[1] == ["user", "a", "b", "user"]
    assert stream.only("select_speaker")[0].agents == ["a", "b", "user"]


async def test_other_handoffs_go_before_the_order() -> None:
    a, b, c = an_agent("a", call("transfer_to_c_1")), an_agent("b"), an_agent("c")
    a.handoffs.add_llm_condition(OnCondition(AgentTarget(c), NOW)).set_after_work(TerminateTarget())
    _, names = await chatted(RoundRobinPattern(a, [a, b, c]), max_rounds=4)
    assert names == ["_User", "a", EXECUTOR, "c"]


# How it begins


@pytest.mark.parametrize(
    ("messages", "names"),
    [
        ("hi", ["user", "a"]),
        ([{"content": "hi"}], ["user", "a"]),
        ([{"content": "hi", "name": "b"}], ["b", "a"]),
        ([{"content": "hi", "name": "user"}, {"content": "yes", "name": "b"}], ["user", "b", "a"]),
    ],
)
async def test_how_it_begins(messages: Any, names: list[str]) -> None:
    a, b = an_agent("a"), an_agent("b")
    result, _, _ = await a_initiate_group_chat(DefaultPattern(a, [a, b], a_user()), messages, silent=True)
    assert [message.get("name", "user") for message in result.chat_history] == names


@pytest.mark.parametrize("user", [None, "user"])
async def test_it_goes_on_from_the_messages_of_an_earlier_one(user: str | None) -> None:
    def count() -> str:
        """Counts."""
        return "1"

    a = an_agent("a", call("count"), "one", "two", functions=count)
    pattern = DefaultPattern(a, [a], a_user() if user else None)
    first, _, _ = await a_initiate_group_chat(pattern, "hi", silent=True)
    messages = [*first.chat_history, {"role": "user", "content": "more"}]
    result, _, last = await a_initiate_group_chat(pattern, messages, silent=True)
    names = [message.get("name") for message in result.chat_history]
    assert names == [user, "a", EXECUTOR, "a", user, "a"]
    assert (result.summary, last) == ("two", a)


async def test_agents_forget_their_parts() -> None:
    a = an_agent("a")
    pattern = DefaultPattern(a, [a])
    await chatted(pattern)
    pattern.team()
    assert a.part is None


def test_without_async() -> None:
    a = an_agent("a", "done")
    result, variables, last = initiate_group_chat(DefaultPattern(a, [a]), "hi", 5, silent=True)
    assert (result.summary, variables.to_dict(), last) == ("done", {}, a)


async def test_an_earlier_chat_goes_on_as_a_team_with_its_variables() -> None:
    def made() -> Pattern:
        a, b = an_agent("a", call("count"), functions=count), an_agent("b")
        once = ExpressionContextCondition(ContextExpression("${n} == 1"))
        b.handoffs.add_after_work(OnContextCondition(TerminateTarget(), once))
        return DefaultPattern(
            a, [a, b], a_user(), context_variables=ContextVariables({"n": 0}), group_after_work=StayTarget()
        )

    def count(context_variables: ContextVariables) -> ReplyResult:
        """Counts."""
        return ReplyResult("1", AgentNameTarget("b"), ContextVariables({"n": 1}))

    manager, user = made().prepare_group_chat(9, [{"content": "hi"}])
    await user.a_initiate_chat(manager, message="hi", silent=True)
    state, last = made().prepare_group_chat(9, [{"content": "hi"}])[0].resumed(await manager.save_state())
    team = made().prepare_group_chat(9, [{"content": "hi"}])[0].team()
    await team.load_state(state)
    result = await team.run(task=last)
    assert (len(result.messages), result.stop_reason) == (1, "No next speaker selected")


# Side by side


async def test_agents_are_in_one_chat_at_a_time() -> None:
    async def act(context_variables: ContextVariables) -> str:
        """Acts."""
        with pytest.raises(GroupChatDeclarationError, match="'a' is in a group chat that is under way"):
            await chatted(DefaultPattern(a, [a]))
        DefaultPattern(a, [a, b], context_variables=ContextVariables()).team()
        context_variables["ready"] = True
        return "done"

    a, b = an_agent("a", call("act"), functions=act), an_agent("b")
    a.handoffs.add_context_condition(OnContextCondition(AgentTarget(b), READY))
    result, names = await chatted(DefaultPattern(a, [a, b]))
    assert names == ["_User", "a", EXECUTOR, "a", "b"]
    assert result.summary == "b"


async def test_a_chat_that_could_not_begin_does_not_keep_its_agents() -> None:
    a = an_agent("a", "done")
    with pytest.raises(GroupChatDeclarationError, match="not in the group"):
        await chatted(DefaultPattern(a, [a]), [{"content": "hi", "name": "x"}])
    assert (await chatted(DefaultPattern(a, [a])))[0].summary == "done"


async def test_a_chat_in_a_chat_may_have_the_same_agents() -> None:
    a, b = an_agent("a"), an_agent("b")
    a.handoffs.add_after_work(OnContextCondition(AgentTarget(b), READY))
    inner = DefaultPattern(a, [a, b], context_variables=ContextVariables({"ready": True}))
    b.handoffs.set_after_work(GroupChatTarget(GroupChatConfig(inner, "in it", 3)))
    _, names = await chatted(inner, max_rounds=4)
    assert names == ["_User", "a", "b", "wrapped_group_b_1"]


# What is refused


async def test_tools_that_hand_over_have_names_that_apis_take() -> None:
    a, long = an_agent("a", "done"), an_agent("ü" * 70)
    a.handoffs.add_llm_condition(OnCondition(AgentTarget(long), NOW))
    await chatted(DefaultPattern(a, [a, long]))
    assert list(offered_to(a)[0]) == [f"transfer_to_{'_' * 48}_1"]


async def test_what_a_function_tells_somebody_from_outside() -> None:
    told = [FunctionTargetMessage("psst", an_agent("x"))]
    a = handing(FunctionTarget(lambda said, variables: FunctionTargetResult(told, target=TerminateTarget())))
    with pytest.raises(GroupChatDeclarationError, match="'x' is not in the group"):
        await chatted(DefaultPattern(a, [a]))


async def test_what_a_model_wrote_or_a_function_returned_wrong_is_for_the_model() -> None:
    def act() -> ReplyResult:
        """Acts."""
        return ReplyResult(None)  # type: ignore[arg-type]

    deep = [FunctionCall(id="1", name="act", arguments="[" * 100_000)]
    a = an_agent("a", deep, call("act"), "done", functions=act)
    result, _ = await chatted(DefaultPattern(a, [a]))
    texts = [message["content"] for message in result.chat_history if message.get("name") == EXECUTOR]
    assert "nested deeper" in texts[0]
    assert "is a text, and no NoneType" in texts[1]
    assert result.summary == "done"


def handing(target: TransitionTarget) -> ConversableAgent:
    agent = an_agent("a")
    agent.handoffs.set_after_work(target)
    return agent


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: handing(AgentNameTarget("x")), "'a' hands over to 'x', who has to be one of the agents"),
        (lambda: handing(RandomAgentTarget([an_agent("x")])), "hands over to 'x'"),
        (lambda: handing(RevertToUserTarget()), "give the pattern a user_agent"),
        (lambda: handing(GroupManagerTarget()), "who has no model"),
    ],
)
async def test_targets_that_are_not_there(make: Callable[[], ConversableAgent], reason: str) -> None:
    agent = make()
    with pytest.raises(ValueError, match=reason):
        await chatted(DefaultPattern(agent, [agent]))


@pytest.mark.parametrize(
    ("options", "messages", "reason"),
    [
        ({"agents": []}, "hi", "has to be one of the agents"),
        ({"group_after_work": NestedChatTarget({"chat_queue": []})}, "hi", "for the handoffs of an agent"),
        ({"group_manager_args": {"groupchat": 1}}, "hi", "'groupchat'"),
        ({}, [{"content": "hi", "name": "x"}], "'x', who is not in the group"),
        ({}, [], "there is none"),
    ],
)
async def test_patterns_that_can_not_be(options: dict[str, Any], messages: Any, reason: str) -> None:
    a = an_agent("a")
    pattern = DefaultPattern(**{"initial_agent": a, "agents": [a], **options})
    with pytest.raises(GroupChatDeclarationError, match=reason):
        await chatted(pattern, messages)


def named(name: str) -> FunctionTarget:
    def decides(output: str, context_variables: ContextVariables) -> FunctionTargetResult:
        return FunctionTargetResult(target=StayTarget())

    decides.__name__ = name
    return FunctionTarget(decides)


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ([OnCondition(StayTarget(), NOW, llm_function_name="act")], "two tools of one name"),
        ([OnCondition(StayTarget(), NOW, llm_function_name="go")] * 2, "two tools of one name"),
        ([OnCondition(named("same"), NOW), OnCondition(named("same"), NOW)], "have the name 'same'"),
    ],
)
async def test_two_of_one_name(conditions: list[OnCondition], reason: str) -> None:
    a = an_agent("a", functions=returns("x"))
    a.handoffs.add_llm_conditions(conditions)
    with pytest.raises(GroupChatDeclarationError, match=reason):
        await chatted(DefaultPattern(a, [a]))


async def test_auto_without_any_model() -> None:
    a = an_agent("a")
    with pytest.raises(GroupChatDeclarationError, match="needs a model"):
        await chatted(AutoPattern(a, [a]))


async def test_a_function_that_names_somebody_from_outside() -> None:
    a = an_agent("a", call("act"), functions=returns(AgentNameTarget("x")))
    with pytest.raises(GroupChatDeclarationError, match="'x' is not in the group"):
        await chatted(DefaultPattern(a, [a]))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda agent: agent.handoffs.set_after_work("b"),
        lambda agent: agent.handoffs.add_llm_condition(OnContextCondition(StayTarget())),
        lambda agent: agent.handoffs.add_context_condition(OnCondition(StayTarget(), NOW)),
        lambda agent: agent.handoffs.add_after_works([OnContextCondition(StayTarget())] * 2),
        lambda agent: OnCondition(StayTarget(), agent),
        lambda agent: OnContextCondition(StayTarget(), agent),
        OnContextCondition,
        lambda agent: ReplyResult("x", agent),
        lambda agent: ReplyResult(5),  # type: ignore[arg-type]
        lambda agent: ReplyResult("x", context_variables=[agent]),  # type: ignore[arg-type]
        lambda agent: OnCondition(StayTarget(), NOW, available="ready"),  # type: ignore[arg-type]
        lambda agent: OnContextCondition(StayTarget(), available="ready"),  # type: ignore[arg-type]
        lambda agent: AgentTarget("b"),  # type: ignore[arg-type]
        lambda agent: RandomAgentTarget(["b"]),  # type: ignore[list-item]
        lambda agent: FunctionTargetResult(target="b"),  # type: ignore[arg-type]
        lambda agent: FunctionTargetResult(messages=["x"]),  # type: ignore[list-item]
        lambda agent: FunctionTargetResult(context_variables=[1]),  # type: ignore[arg-type]
        lambda agent: NestedChatTarget({}),
        lambda agent: NestedChatTarget({"chat_queue": [{"message": "x"}]}),
        lambda agent: GroupChatConfig(agent, "hi"),
        lambda agent: GroupChatConfig(DefaultPattern(agent, [agent]), []),
        FunctionTarget,
        lambda agent: DefaultPattern(agent, [agent], group_after_work=agent),
        lambda agent: DefaultPattern(agent, [agent, Echo("b")]),  # type: ignore[list-item]
    ],
)
def test_what_is_of_the_wrong_kind(wrong: Callable[[Any], Any]) -> None:
    with pytest.raises(GroupChatDeclarationError) as caught:
        wrong(an_agent("a"))
    assert issubclass(caught.type, TypeError)
    assert issubclass(caught.type, ValueError)


async def test_a_system_message_is_a_text() -> None:
    with pytest.raises(ValueError, match="made of a text"):
        UpdateSystemMessage(5)  # type: ignore[arg-type]
    a = an_agent("a", "end", update_agent_state_before_reply=UpdateSystemMessage(lambda *_: None))
    with pytest.raises(ValueError, match="and no NoneType"):
        await chatted(DefaultPattern(a, [a]))
    assert a.part is None


def test_handoffs_are_kept_in_order() -> None:
    first, last = OnContextCondition(StayTarget(), READY), OnContextCondition(TerminateTarget())
    other, llm = OnContextCondition(AskUserTarget()), OnCondition(StayTarget(), NOW)
    agent = an_agent("a")
    agent.handoffs.add_after_work(last).add_after_work(first)
    assert agent.handoffs.after_works == [first, last]
    assert agent.handoffs.add_after_work(other).after_works == [first, other]
    agent.register_handoffs([llm, first])
    agent.register_handoff(llm)
    assert (agent.handoffs.llm_conditions, agent.handoffs.context_conditions) == ([llm, llm], [first])
    agent.handoffs.clear()
    assert not agent.handoffs.llm_conditions + agent.handoffs.context_conditions + agent.handoffs.after_works


async def test_a_default_stream_is_not_needed() -> None:
    a = an_agent("a", "done")
    with IOStream.set_default(shown := Scripted()):
        await a_initiate_group_chat(DefaultPattern(a, [a]), "hi")
    assert "termination" in shown.kinds


def test_agents_load_patterns_when_handoffs_are_asked_for() -> None:
    code = (
        "import sys; from callboard.groupchat import ConversableAgent as Agent, GroupChatManager; agent = Agent('a');"
        "print('callboard.ag2' in sys.modules); agent.handoffs.clear();"
        "from callboard import ag2; print(ag2.ConversableAgent is Agent, type(agent.handoffs) is ag2.Handoffs)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]
