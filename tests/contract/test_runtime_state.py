"""Persistent agents: their state is part of the commit and goes from process to process; saving and loading it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    MessageContext,
    RedisAgentRuntime,
    RoutedAgent,
    TopicId,
    TypeSubscription,
    event,
    rpc,
)
from callboard.broker.redis.client.states import StoredState
from callboard.errors import DeclarationError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, letters, stored


class Counter(RoutedAgent):
    """Counts; may fail half-way or wait."""

    class State(BaseModel):
        """What was counted."""

        total: int = 0
        words: list[str] = []

    alive: ClassVar[list[Counter]] = []
    go_on = asyncio.Event()
    changed_half = asyncio.Event()

    def __init__(self) -> None:
        super().__init__("counts")
        type(self).alive.append(self)

    def _count(self, text: str) -> None:
        self.state.total += 1
        self.state.words.append(text)

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        self._count(message.text)
        if message.text == "wait":
            type(self).changed_half.set()
            await type(self).go_on.wait()
            self._count("after")
        if message.text == "fail" or (message.text == "retry" and ctx.attempt < 3):
            raise RuntimeError("after a change")

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        if message.text:
            self._count(message.text)
            if message.text == "fail":
                raise RuntimeError("after a change")
        return Answer(text=f"{self.state.total} {' '.join(self.state.words)}".strip())

    async def close(self) -> None:
        type(self).alive.remove(self)


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Counter.alive = []
    Counter.go_on, Counter.changed_half = asyncio.Event(), asyncio.Event()


async def _register(runtime: RedisAgentRuntime) -> RedisAgentRuntime:
    await Counter.register(runtime, "counter", Counter)
    await runtime.add_subscription(TypeSubscription("notes", "counter"))
    return runtime


async def _note(runtime: RedisAgentRuntime, key: str, *texts: str) -> None:
    for text in texts:
        await runtime.publish_message(Note(text=text), TopicId("notes", key))


async def _asked(runtime: RedisAgentRuntime, key: str = "a", text: str = "") -> str:
    answer: Answer = await runtime.send_message(Ask(text=text), AgentId("counter", key))
    return answer.text


async def test_the_state_of_each_key_is_kept(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started())
    await _note(runtime, "a", "x", "y")
    await _note(runtime, "b", "z")
    assert await _asked(runtime, "a") == "2 x y"
    assert await _asked(runtime, "b") == "1 z"
    assert await _asked(runtime, "c") == "0"
    await runtime.stop_when_idle()
    assert await stored(runtime, "state:") == ["state:counter:a", "state:counter:b"], (
        "what is default is not stored"
    )


async def test_a_failure_rolls_back(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started())
    await _note(runtime, "a", "one", "retry", "fail", "two")
    with pytest.raises(RuntimeError):
        await _asked(runtime, "a", "fail")
    assert await _asked(runtime, "a") == "3 one retry two"
    await runtime.stop_when_idle()
    assert len(await letters(runtime, "counter")) == 1


async def test_two_processes_alternate_on_one_key(runtimes: Runtimes) -> None:
    first, second = await _register(runtimes.new()), await _register(runtimes.new())
    for number in range(6):
        runtime = (first, second)[number % 2]
        runtime.start()
        await _note(runtime, "a", f"w{number}")
        await runtime.stop_when_idle()
    first.start()
    assert await _asked(first) == "6 w0 w1 w2 w3 w4 w5"


async def test_two_processes_at_once_lose_nothing(runtimes: Runtimes) -> None:
    first, second = await _register(await runtimes.started()), await _register(await runtimes.started())
    for number in range(60):
        await _note((first, second)[number % 2], f"k{number % 3}", str(number))
        if number % 7 == 0:
            await _asked(first, f"k{number % 3}", "q")
    await first.stop_when_idle()
    await second.stop_when_idle()
    first.start()
    totals = [int((await _asked(first, f"k{key}")).split()[0]) for key in range(3)]
    assert sum(totals) == 69


async def test_an_idle_agent_leaves_the_memory_and_comes_back(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started(settings={"passivate_after": 0.1}))
    await _note(runtime, "a", "x")
    await eventually(lambda: runtime.handled == 1)
    await eventually(lambda: not Counter.alive)
    assert await _asked(runtime) == "1 x"
    assert len(Counter.alive) == 1
    await runtime.stop_when_idle()


async def test_a_registered_instance_stays_in_memory(runtimes: Runtimes) -> None:
    class Sleepy(Counter):
        """Of another class, whose agents may sleep."""

    runtime = await runtimes.started(settings={"passivate_after": 0.05})
    await Sleepy.register(runtime, "sleepy", Sleepy)
    await Counter().register_instance(runtime, AgentId("counter", "a"))
    await runtime.send_message(Ask(text="x"), AgentId("sleepy", "a"))
    assert await _asked(runtime, "a", "x") == "1 x"
    await eventually(lambda: not any(isinstance(agent, Sleepy) for agent in Counter.alive))
    assert await _asked(runtime, "a", "y") == "2 x y"


async def test_an_agent_that_works_is_not_put_to_sleep(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started(settings={"passivate_after": 0.05}))
    await _note(runtime, "b", "idle")
    await _note(runtime, "a", "wait")
    await Counter.changed_half.wait()
    await eventually(lambda: [agent.id.key for agent in Counter.alive] == ["a"])
    Counter.go_on.set()
    await runtime.stop_when_idle()
    assert (await runtime.agent_save_state(AgentId("counter", "a")))["words"] == ["wait", "after"]


# Saving and loading


async def test_state_can_be_saved_and_loaded(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started())
    await _note(runtime, "a", "x")
    await runtime.stop_when_idle()
    saved = await runtime.agent_save_state(AgentId("counter", "a"))
    assert saved == {"total": 1, "words": ["x"]}
    await runtime.agent_load_state(AgentId("counter", "b"), {"total": 7, "words": ["seven"]})
    assert await runtime.save_state() == {"counter/a": saved, "counter/b": {"total": 7, "words": ["seven"]}}
    runtime.start()
    assert await _asked(runtime, "b", "eight") == "8 seven eight"


async def test_another_process_sees_a_loaded_state(runtimes: Runtimes) -> None:
    first, second = await _register(runtimes.new()), await _register(await runtimes.started())
    assert await _asked(second, "a", "x") == "1 x"
    await first.agent_load_state(AgentId("counter", "a"), {"total": 40, "words": []})
    assert await _asked(second, "a", "y") == "41 y"
    assert (await first.agent_save_state(AgentId("counter", "a")))["total"] == 41


async def test_all_persistent_agents_are_saved_also_those_of_others(runtimes: Runtimes) -> None:
    first, second = await _register(await runtimes.started()), await _register(runtimes.new())
    for key in ("a", "b/c", ""):
        await _asked(first, key, "x")
    saved = await second.save_state()
    assert set(saved) == {"counter/a", "counter/b/c", "counter/"}
    await first.stop_when_idle()
    for runtime in (first, second):
        await runtime.load_state({name: {"total": 5, "words": []} for name in saved} | {"unknown/x": {}})
    second.start()
    assert await _asked(second, "b/c", "six") == "6 six"


async def test_looking_at_an_agent_does_not_disturb_its_handler(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started())
    await _note(runtime, "a", "x", "wait", "y")
    await Counter.changed_half.wait()
    agent_id = AgentId("counter", "a")
    for _ in range(3):
        await runtime.agent_save_state(agent_id)
        await runtime.agent_metadata(agent_id)
        await runtime.get(agent_id, lazy=False)
    looking = asyncio.create_task(_look_all_the_time(runtime, agent_id))
    Counter.go_on.set()
    await _note(runtime, "a", *"0123456789")
    assert await _asked(runtime, "a") == "14 x wait after y 0 1 2 3 4 5 6 7 8 9"
    looking.cancel()
    await asyncio.wait({looking})
    await runtime.stop_when_idle()


async def _look_all_the_time(runtime: RedisAgentRuntime, agent_id: AgentId) -> None:
    while True:
        await runtime.agent_save_state(agent_id)
        await asyncio.sleep(0)


async def test_a_state_that_does_not_fit_is_refused(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started())
    with pytest.raises(TypeError, match="total"):
        await runtime.agent_load_state(AgentId("counter", "a"), {"total": "many"})
    assert await _asked(runtime) == "0"


async def test_a_stored_state_that_does_not_fit_is_a_dead_letter(runtimes: Runtimes) -> None:
    runtime = await _register(await runtimes.started())
    transport = runtime.transport
    await transport.save_state("counter", "a", b'{"total":"many"}')
    await _note(runtime, "a", "x")
    await _note(runtime, "b", "x")
    with pytest.raises(TypeError, match="total"):
        await _asked(runtime, "a")
    await runtime.stop_when_idle()
    (letter,) = await letters(runtime, "counter")
    assert letter["key"] == "a"
    assert "StateError" in letter["error"]
    assert await transport.load_state("counter", "a") == StoredState(1, b'{"total":"many"}')


async def test_a_factory_that_says_nothing_of_the_state_is_refused(runtimes: Runtimes) -> None:
    """Its agents would seem persistent and not be."""
    runtime = await runtimes.started()
    await runtime.register_factory("counter", Counter)
    await runtime.register_factory("told", Counter, expected_class=Counter)
    runtime.add_message_types([Ask, Answer])
    with pytest.raises(DeclarationError, match="expected_class=Counter"):
        await _asked(runtime)
    assert await runtime.send_message(Ask(text="x"), AgentId("told", "a")) == Answer(text="1 x")


# Agents without a State


class Plain(RoutedAgent):
    """Keeps what it heard in memory, as in AutoGen."""

    def __init__(self) -> None:
        super().__init__("plain")
        self.words: list[str] = []

    @rpc
    async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
        self.words.append(message.text)
        return Answer(text=" ".join(self.words))

    async def save_state(self) -> Mapping[str, Any]:
        return {"words": self.words}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.words = list(state["words"])


async def test_agents_without_a_state_live_in_memory(runtimes: Runtimes) -> None:
    first, second = await runtimes.started(), runtimes.new()
    for runtime in (first, second):
        await Plain.register(runtime, "plain", Plain)
    await first.send_message(Ask(text="x"), AgentId("plain", "a"))
    await first.stop()
    first.start()
    answer = await first.send_message(Ask(text="y"), AgentId("plain", "a"))
    assert answer == Answer(text="x y"), "a stop is no end"
    saved = await first.save_state()
    assert saved == {"plain/a": {"words": ["x", "y"]}}
    await first.stop()
    await second.load_state(saved)
    second.start()
    answer = await second.send_message(Ask(text="z"), AgentId("plain", "a"))
    assert answer == Answer(text="x y z")
    assert await stored(second, "state:") == []


async def test_an_agent_that_can_not_be_saved_warns(runtimes: Runtimes) -> None:
    class Forgetful(RoutedAgent):
        """Has nothing to save."""

    runtime = runtimes.new()
    await Forgetful.register(runtime, "forgetful", lambda: Forgetful(""))
    with pytest.warns(UserWarning, match="save_state not implemented"):
        assert await runtime.agent_save_state(AgentId("forgetful", "a")) == {}
    with pytest.warns(UserWarning, match="load_state not implemented"):
        await runtime.agent_load_state(AgentId("forgetful", "a"), {})
