"""Functions that agents execute: arguments as of any tool, in chats, runs and patterns; calls of one answer run together."""

from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from callboard.ag2.hidden_agents import GroupToolExecutor, abilities_of
from callboard.groupchat import ContextVariables, ConversableAgent
from callboard.runs.team import call, own_functions


class Order(BaseModel):
    number: int
    express: bool = False


class Mode(enum.Enum):
    SOFT = "soft"


class Desk:
    """Functions, and the arguments that they were called with."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def add(self, a: int, b: int = 2) -> int:
        self.got.append((a, b))
        return a + b

    async def book(self, order: Order) -> dict[str, int]:
        self.got.append(order)
        return {"booked": order.number}

    def switch(self, mode: Mode, price: Decimal) -> str:
        self.got.append((mode, price))
        return f"{mode.value} {price}"

    def untyped(self, a, b=1):  # type: ignore[no-untyped-def]
        self.got.append((a, b))
        return [a, b]

    def any_keys(self, **options: Any) -> str:
        self.got.append(options)
        return "done"

    def fail(self) -> str:
        raise ValueError("no such order")


def agent_with(function: Callable[..., Any], name: str, how: str) -> ConversableAgent:
    if how == "map":
        return ConversableAgent("clerk", function_map={name: function}, human_input_mode="NEVER")
    agent = ConversableAgent("clerk", human_input_mode="NEVER")
    if how == "decorator":
        agent.register_for_execution(name)(function)
    else:
        agent.register_function({name: function})
    return agent


async def in_a_chat(agent: ConversableAgent, name: str, written: str) -> str:
    asked = {"id": "1", "type": "function", "function": {"name": name, "arguments": written}}
    answer = await agent.a_generate_reply([{"role": "assistant", "content": None, "tool_calls": [asked]}])
    assert isinstance(answer, dict)
    return str(answer["tool_responses"][0]["content"])


async def by_itself(agent: ConversableAgent, name: str, written: str) -> str:
    _, said = await agent.a_execute_function({"name": name, "arguments": written})
    return str(said["content"])


async def in_a_run(agent: ConversableAgent, name: str, written: str) -> str:
    return (await call(own_functions(agent, {}), name, written)).text


async def in_a_pattern(agent: ConversableAgent, name: str, written: str) -> str:
    executor = GroupToolExecutor({agent.name: abilities_of(agent, {}, [agent])})
    asked = {"id": "1", "type": "function", "function": {"name": name, "arguments": written}}
    answer = await executor.answer({"role": "assistant", "name": agent.name, "tool_calls": [asked]})
    assert answer is not None
    return str(answer["tool_responses"][0]["content"])


Way = Callable[[ConversableAgent, str, str], Awaitable[str]]
WAYS = [in_a_chat, by_itself, in_a_run, in_a_pattern]
each_way = pytest.mark.parametrize("way", WAYS)


@each_way
@pytest.mark.parametrize("how", ["map", "decorator", "registered"])
@pytest.mark.parametrize(
    ("name", "written", "got", "said"),
    [
        ("add", '{"a": "1", "b": "2"}', (1, 2), "3"),
        ("add", '{"a": 1}', (1, 2), "3"),
        (
            "book",
            '{"order": {"number": "7", "express": "yes"}}',
            Order(number=7, express=True),
            '{"booked": 7}',
        ),
        ("switch", '{"mode": "soft", "price": "1.50"}', (Mode.SOFT, Decimal("1.50")), "soft 1.50"),
        ("untyped", '{"a": "1"}', ("1", 1), '["1", 1]'),
        ("any_keys", '{"x": 1, "y": "2"}', {"x": 1, "y": "2"}, "done"),
    ],
)
async def test_arguments_are_what_the_function_says(
    way: Way, how: str, name: str, written: str, got: Any, said: str
) -> None:
    desk = Desk()
    assert await way(agent_with(getattr(desk, name), name, how), name, written) == said
    assert desk.got == [got]


@each_way
@pytest.mark.parametrize(
    ("name", "written", "says"),
    [
        ("add", '{"a": "one"}', "a"),
        ("add", "{}", "a"),
        ("add", '{"a": 1, "c": 2}', "c"),
        ("book", '{"order": {"express": true}}', "number"),
        ("switch", '{"mode": "loud", "price": 1}', "mode"),
        ("add", "[1]", "JSON object"),
        ("add", "{", "JSON"),
        ("fail", "{}", "no such order"),
    ],
)
async def test_what_does_not_fit_is_an_error_that_the_model_reads(
    way: Way, name: str, written: str, says: str
) -> None:
    desk = Desk()
    said = await way(agent_with(getattr(desk, name), name, "map"), name, written)
    assert said.startswith("Error: ")
    assert says in said
    assert desk.got == []


@each_way
async def test_a_function_gets_the_context_variables(way: Way) -> None:
    def who(context_variables: ContextVariables, greeting: str) -> str:
        return f"{greeting} {type(context_variables).__name__}"

    assert await way(agent_with(who, "who", "map"), "who", '{"greeting": "Hi"}') == "Hi ContextVariables"


async def test_another_function_of_the_name_takes_the_place_of_the_first() -> None:
    agent = agent_with(lambda: "first", "say", "map")
    assert await in_a_chat(agent, "say", "{}") == "first"
    agent.function_map["say"] = lambda: "second"
    assert await in_a_chat(agent, "say", "{}") == "second"
    agent.register_function({"say": None})
    assert "not found" in await in_a_chat(agent, "say", "{}")


async def test_an_ordinary_function_does_not_hold_up_the_others() -> None:
    assert await in_a_chat(
        agent_with(lambda: threading.current_thread().name, "where", "map"), "where", "{}"
    ) != (threading.current_thread().name)


# Several calls in one answer


def asked(*calls: tuple[str, str]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "name": "clerk",
        "tool_calls": [
            {"id": str(number), "type": "function", "function": {"name": name, "arguments": written}}
            for number, (name, written) in enumerate(calls)
        ],
    }


async def test_calls_of_one_answer_run_at_the_same_time_and_answer_in_their_order() -> None:
    met = asyncio.Barrier(3)
    left: list[str] = []

    async def meet(name: str) -> str:
        async with asyncio.timeout(10):
            await met.wait()
        await asyncio.sleep(0.01 * (3 - int(name)))
        left.append(name)
        return name

    agent = agent_with(meet, "meet", "map")
    answer = await agent.a_generate_reply([asked(*(("meet", f'{{"name": "{n}"}}') for n in range(3)))])
    assert isinstance(answer, dict)
    assert [one["content"] for one in answer["tool_responses"]] == ["0", "1", "2"]
    assert [one["tool_call_id"] for one in answer["tool_responses"]] == ["0", "1", "2"]
    assert left == ["2", "1", "0"]


async def test_one_that_fails_leaves_the_others_alone() -> None:
    async def fail() -> str:
        raise ValueError("no")

    async def work() -> str:
        await asyncio.sleep(0.01)
        return "done"

    agent = ConversableAgent("clerk", function_map={"fail": fail, "work": work}, human_input_mode="NEVER")
    answer = await agent.a_generate_reply([asked(("fail", "{}"), ("work", "{}"), ("gone", "{}"))])
    assert isinstance(answer, dict)
    assert [one["content"] for one in answer["tool_responses"]] == [
        *("Error: no", "done", "Error: Function gone not found.")
    ]


async def test_a_cancelled_answer_leaves_no_call_behind() -> None:
    begun, ended = asyncio.Event(), list[str]()

    async def wait(name: str) -> str:
        try:
            begun.set()
            await asyncio.Event().wait()
        finally:
            ended.append(name)
        return name

    agent = agent_with(wait, "wait", "map")
    work = asyncio.create_task(
        agent.a_generate_reply([asked(("wait", '{"name": "a"}'), ("wait", '{"name": "b"}'))])
    )
    await begun.wait()
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert sorted(ended) == ["a", "b"]


async def test_calls_that_share_context_variables_run_one_after_the_other() -> None:
    running, most = 0, 0

    async def count(context_variables: ContextVariables) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return running

    agent = agent_with(count, "count", "map")
    await agent.a_generate_reply([asked(*[("count", "{}")] * 4)])
    assert most == 1
