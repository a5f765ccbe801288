"""Chats in a row, chats that an agent has in order to answer, hooks, silence and prices: as AG2 0.14 does the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from callboard import App
from callboard.groupchat import (
    ConversableAgent,
    GroupChat,
    GroupChatManager,
    IOStream,
    TextEvent,
    a_initiate_chats,
    initiate_chats,
    register_function,
)
from callboard.groupchat.errors import GroupChatDeclarationError
from callboard.memory.llm_messages import FunctionCall
from callboard.models import CreateResult, ReplayChatCompletionClient, RequestUsage
from callboard.runs import a_run, run, run_team
from callboard.tools import DynamicWorkbench, tool

Message = dict[str, Any]


def agent(
    name: str, reply: str | Callable[[Sequence[Message]], str] | None, **options: Any
) -> ConversableAgent:
    """An agent with one answer to everything; None: a default."""
    made = ConversableAgent(name, human_input_mode="NEVER", **options)
    if reply is not None:

        def answer(
            recipient: Any, messages: Any = None, sender: Any = None, config: Any = None
        ) -> tuple[bool, str]:
            return True, reply(messages) if callable(reply) else reply

        made.register_reply([ConversableAgent, None], answer, remove_other_reply_funcs=True)
    return made


def said(history: Sequence[Message]) -> list[tuple[str, str]]:
    return [(message["name"], message["content"]) for message in history]


# In a row


def test_each_chat_is_told_what_came_of_those_before() -> None:
    boss, ann, bob = (
        agent("boss", "ok"),
        agent("ann", "A"),
        agent("bob", lambda messages: f"B{len(messages)}"),
    )
    results = initiate_chats(
        [
            {"sender": boss, "recipient": ann, "message": "first", "max_turns": 1},
            {"sender": boss, "recipient": bob, "message": "second", "max_turns": 2, "carryover": "given"},
            {
                "sender": boss,
                "recipient": ann,
                "message": {"content": "third"},
                "max_turns": 1,
                "finished_chat_indexes_to_exclude_from_carryover": [0],
            },
        ]
    )
    assert [said(result.chat_history) for result in results] == [
        [("boss", "first"), ("ann", "A")],
        [("boss", "second\nContext: \ngiven\nA"), ("bob", "B1"), ("boss", "ok"), ("bob", "B3")],
        [("boss", "third\nContext: \nB3"), ("ann", "A")],
    ]
    assert [result.summary for result in results] == ["A", "B3", "A"]


def test_an_agent_begins_a_row_of_its_own() -> None:
    boss, ann = agent("boss", "ok"), agent("ann", "A")
    (result,) = boss.initiate_chats([{"recipient": ann, "message": "Hi", "max_turns": 1}])
    assert said(result.chat_history) == [("boss", "Hi"), ("ann", "A")]


@pytest.mark.parametrize(
    ("carryover", "ends"),
    [
        ("x", "\nContext: \nx"),
        (["x", "y"], "\nContext: \nx\ny"),
        ([{"content": "x"}, 7], "\nContext: \nx\n7"),
        ([], ""),
        (None, ""),
    ],
)
@pytest.mark.parametrize("message", ["Hi", {"content": "Hi"}, lambda sender, recipient, context: "Hi"])
def test_a_first_message_ends_with_what_is_carried_over(carryover: Any, ends: str, message: Any) -> None:
    boss, ann = agent("boss", "ok"), agent("ann", "A")
    result = boss.initiate_chat(ann, message=message, carryover=carryover, max_turns=1)
    assert said(result.chat_history)[0] == ("boss", f"Hi{ends}")


def test_what_can_not_be_carried_over_is_refused() -> None:
    with pytest.raises(GroupChatDeclarationError, match="carryover is a int"):
        agent("boss", "ok").initiate_chat(agent("ann", "A"), message="Hi", carryover=7)


async def test_chats_at_the_same_time_wait_for_those_that_they_name() -> None:
    boss, ann, bob, eve = agent("boss", "ok"), agent("ann", "A"), agent("bob", "B"), agent("eve", "E")
    results = await a_initiate_chats(
        [
            {
                "chat_id": 3,
                "sender": boss,
                "recipient": eve,
                "message": "last",
                "max_turns": 1,
                "prerequisites": [1, 2],
            },
            {"chat_id": 1, "sender": boss, "recipient": ann, "message": "one", "max_turns": 1},
            {"chat_id": 2, "sender": boss, "recipient": bob, "message": "two", "max_turns": 1},
        ]
    )
    assert {number: said(result.chat_history)[0][1] for number, result in results.items()} == {
        1: "one",
        2: "two",
        3: "last\nContext: \nA\nB",
    }
    assert [result.chat_id for result in results.values()] == [3, 1, 2]


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ([{"chat_id": 1}, {"chat_id": 1}], "chat_id of its own"),
        ([{"prerequisites": [5]}], "chat_id of its own"),
        ([{"prerequisites": [1]}, {"prerequisites": [0]}], "wait for each other"),
        ([{"recipient": None}], "needs a"),
    ],
)
async def test_a_row_that_can_not_be_is_refused(numbers: list[Message], says: str) -> None:
    boss, ann = agent("boss", "ok"), agent("ann", "A")
    queue = [{"sender": boss, "recipient": ann, "message": "Hi", "max_turns": 1, **one} for one in numbers]
    with pytest.raises(GroupChatDeclarationError, match=says):
        await a_initiate_chats(queue)


# In order to answer


def nesting(*critics: ConversableAgent, trigger: Any, **options: Any) -> ConversableAgent:
    writer = agent("writer", None, default_auto_reply="default")
    queue = [{"recipient": critic, "max_turns": 1, **options} for critic in critics]
    writer.register_nested_chats(queue, trigger)
    return writer


def test_an_agent_answers_with_the_summary_of_other_chats() -> None:
    outer, critic, other = agent("outer", "thanks"), agent("critic", "harsh"), agent("other", "more")
    writer = agent("writer", None, default_auto_reply="default")
    opening: Callable[..., str] = lambda agent, messages, sender, config: f"and {messages[-1]['content']}"  # noqa: E731
    writer.register_nested_chats(
        [
            {"recipient": critic, "max_turns": 1},
            {"recipient": other, "message": opening, "max_turns": 1},
            {"recipient": other, "max_turns": 1},
        ],
        outer,
    )
    result = outer.initiate_chat(writer, message="write", max_turns=2)
    assert said(result.chat_history) == [
        *(("outer", "write"), ("writer", "more"), ("outer", "thanks"), ("writer", "more"))
    ]
    assert said(writer.chat_messages[critic]) == [("writer", "thanks"), ("critic", "harsh")]
    assert said(writer.chat_messages[other]) == [
        ("writer", "and thanks\nContext: \nharsh"),
        ("other", "more"),
    ]


def test_the_first_one_may_be_told_of_the_chat_around_it() -> None:
    outer, critic = agent("outer", "thanks"), agent("critic", lambda messages: messages[-1]["content"])
    writer = nesting(critic, trigger="outer", message="look", carryover_config={"summary_method": "all"})
    result = outer.initiate_chat(writer, message="write", max_turns=2)
    assert said(result.chat_history)[1] == ("writer", "look")
    assert said(result.chat_history)[3] == ("writer", "look\nContext: \nwrite\nlook")


async def test_a_function_may_answer_instead() -> None:
    async def reply(queue: Any, agent: Any, messages: Any, sender: Any, config: Any) -> tuple[bool, str]:
        return True, f"{len(queue)} chats, {config}"

    writer = agent("writer", None)
    writer.register_nested_chats(
        [{"recipient": agent("critic", "x")}], [None], reply, config="set", use_async=True
    )
    assert await writer.a_generate_reply([{"content": "Hi"}]) == "1 chats, set"
    with pytest.raises(GroupChatDeclarationError, match="reply_func_from_nested_chats is 'average'"):
        writer.register_nested_chats([], None, "average")
    with pytest.raises(GroupChatDeclarationError, match="summary_method 'most'"):
        await nesting(
            agent("critic", "x"), trigger=[None], carryover_config={"summary_method": "most"}
        ).a_generate_reply([{"content": "Hi"}])


async def test_a_member_of_a_chat_or_a_run_lets_copies_chat() -> None:
    critic = agent("critic", lambda messages: f"{messages[-1]['content']} criticised")
    any_sender: Callable[[Any], bool] = lambda sender: True  # noqa: E731
    writer = nesting(critic, trigger=any_sender)
    user = agent("user", None)
    manager = GroupChatManager(GroupChat([user, writer], max_round=2, speaker_selection_method="round_robin"))
    result = await user.a_initiate_chat(manager, message="write", silent=True)
    assert said(result.chat_history)[-1] == ("writer", "write criticised")

    response = await a_run(writer, message="again", max_turns=1)
    assert (await response.summary) == "again criticised"
    assert said(critic.chat_messages[writer])[-1][1] == "write criticised", "a run has copies"

    team = run_team(writer, name="writers", max_turns=1)
    app = App("nested")
    app.team(team)
    async with app.running("memory://nested-chats") as runtime:
        first, second = [
            await a_run(team, message=text, runtime=runtime, conversation=text) for text in ("one", "two")
        ]
        assert [(await one.result()).messages[-1].to_text() for one in (first, second)] == [
            *("one criticised", "two criticised")
        ]


# Tools


def test_a_tool_is_registered_in_both_ways_as_the_rfc_has_it() -> None:
    @tool(description="Returns the meaning of life.")
    def meaning_of_life() -> str:
        return "42"

    def apart(one: ConversableAgent) -> None:
        meaning_of_life.register_for_llm(one)
        meaning_of_life.register_for_execution(one)

    def by_agent(one: ConversableAgent) -> None:
        one.register_tool(meaning_of_life)

    for register in (meaning_of_life.register_tool, by_agent, apart):
        model = ReplayChatCompletionClient([[FunctionCall("1", "{}", "meaning_of_life")], "42"])
        alice = ConversableAgent("Alice", llm_config=model, human_input_mode="NEVER")
        register(alice)
        response = run(
            alice, message="What is the meaning of life?", is_termination_message=lambda text: text == "42"
        )
        assert response.summary == "42"


async def test_a_function_is_called_by_one_and_executed_by_another() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    model = ReplayChatCompletionClient([[FunctionCall("1", '{"a": "1", "b": 2}', "plus")], "TERMINATE"])
    caller = ConversableAgent("caller", llm_config=model, human_input_mode="NEVER")
    executor = ConversableAgent("executor", human_input_mode="NEVER")
    register_function(add, caller=caller, executor=executor, name="plus", description="Adds.")
    result = await executor.a_initiate_chat(caller, message="1 + 2?", silent=True)
    assert "3" in [message["content"] for message in result.chat_history]


def test_a_workbench_may_have_a_name() -> None:
    assert DynamicWorkbench(name="shop_workbench").name == "shop_workbench"


# Hooks


def test_hooks_change_what_is_read_and_said() -> None:
    seen: list[int] = []

    def sent(sender: Any, message: Any, recipient: Any, silent: Any) -> str:
        return f"{message} sent to {recipient.name}"

    hooked = agent("hooked", lambda messages: "saw " + "|".join(message["content"] for message in messages))
    hooked.register_hook("process_last_received_message", lambda content: f"{content}!")
    hooked.register_hook("process_all_messages_before_reply", lambda messages: messages[-1:])
    hooked.register_hook("process_message_before_send", sent)
    hooked.register_hook("update_agent_state", lambda agent, messages: seen.append(len(messages)))
    result = agent("other", "hey").initiate_chat(hooked, message="one", max_turns=2)
    assert said(result.chat_history) == [
        ("other", "one"),
        ("hooked", "saw one! sent to other"),
        ("other", "hey"),
        ("hooked", "saw hey! sent to other"),
    ]
    assert seen == [1, 3]


def test_a_hook_that_is_none_is_refused() -> None:
    one = agent("one", "x")
    hook: Callable[[Any], Any] = lambda content: content  # noqa: E731
    with pytest.raises(GroupChatDeclarationError, match="no hook 'process_message': there are process_last"):
        one.register_hook("process_message", hook)
    one.register_hook("process_last_received_message", hook)
    with pytest.raises(
        GroupChatDeclarationError, match="registered as 'process_last_received_message' already"
    ):
        one.register_hook("process_last_received_message", hook)


# Silence and prices


class Heard(IOStream):
    """Notes what is shown."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def send(self, event: Any) -> None:
        if isinstance(event, TextEvent):
            self.texts.append(str(event.message["content"]))


@pytest.mark.parametrize(
    ("own", "of_chat", "shown"),
    [
        (None, False, ["hello", "loud"]),
        (None, True, []),
        (True, False, ["hello"]),
        (False, True, ["loud"]),
    ],
)
def test_what_a_silent_agent_says_is_not_shown(own: bool | None, of_chat: bool, shown: list[str]) -> None:
    heard = Heard()
    with IOStream.set_default(heard):
        agent("other", "x").initiate_chat(
            agent("one", "loud", silent=own), message="hello", max_turns=1, silent=of_chat
        )
    assert heard.texts == shown


@pytest.mark.parametrize(("price", "cost"), [([1.0, 2.0], 0.05), (1, 0.03), (None, 0)])
def test_the_price_of_a_configuration_counts(price: Any, cost: float) -> None:
    class Model(ReplayChatCompletionClient):
        def __init__(self, **options: Any) -> None:
            usage = RequestUsage(prompt_tokens=10, completion_tokens=20)
            super().__init__([CreateResult(finish_reason="stop", content="Hi", usage=usage, cached=False)])

    config = {"model": "mine", "model_client_cls": "Model", **({} if price is None else {"price": price})}
    one = ConversableAgent("one", llm_config=config, model_client_cls=Model, human_input_mode="NEVER")
    result = agent("other", "x").initiate_chat(one, message="hello", max_turns=1, silent=True)
    assert result.cost["usage_including_cached_inference"]["total_cost"] == pytest.approx(cost)


def test_a_price_that_is_none_is_refused() -> None:
    with pytest.raises(GroupChatDeclarationError, match=r'"price" is \[1\]'):
        ConversableAgent("one", llm_config={"model": "gpt-4o", "price": [1], "api_key": "x"})
