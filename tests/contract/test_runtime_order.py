"""One message at a time per agent, in order; many agents at once; limits; interceptors on the way."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from itertools import chain
from typing import Any

import pytest

from callboard import (
    AgentId,
    App,
    ClosureContext,
    DefaultInterventionHandler,
    DropMessage,
    MessageContext,
    MessageDroppedException,
    TopicId,
)
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure, listener


class Gauge:
    """How many handlers run at once, in all and for one agent."""

    def __init__(self) -> None:
        self.running: dict[str, int] = defaultdict(int)
        self.most_of_one = 0
        self.most = 0
        self.go_on = asyncio.Event()

    async def hold(self, name: str) -> None:
        self.running[name] += 1
        self.most_of_one = max(self.most_of_one, self.running[name])
        self.most = max(self.most, sum(self.running.values()))
        await self.go_on.wait()
        self.running[name] -= 1

    @property
    def now(self) -> int:
        return sum(self.running.values())


async def test_one_message_at_a_time_per_agent_and_many_agents_at_once(runtimes: Runtimes) -> None:
    gauge = Gauge()

    async def hold(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await gauge.hold(str(agent.id))

    runtime = await runtimes.started()
    await closure(runtime, "first", hold, "work")
    await closure(runtime, "second", hold, "work")
    for _ in range(3):
        for key in range(10):
            await runtime.publish_message(Note(), TopicId("work", str(key)))
    await eventually(lambda: gauge.now == 20)
    gauge.go_on.set()
    await runtime.stop_when_idle()
    assert (gauge.most_of_one, gauge.most) == (1, 20)
    assert runtime.handled == 60


async def test_requests_and_events_share_the_turn_of_an_agent(runtimes: Runtimes) -> None:
    gauge = Gauge()

    async def hold(agent: ClosureContext, message: Note | Ask, ctx: MessageContext) -> Answer | None:
        await gauge.hold(str(agent.id))
        return Answer() if ctx.is_rpc else None

    runtime = await runtimes.started()
    await closure(runtime, "first", hold, "work")
    calls = [asyncio.create_task(runtime.send_message(Ask(), AgentId("first", "a"))) for _ in range(3)]
    await eventually(lambda: gauge.now == 1)
    await runtime.publish_message(Note(), TopicId("work", "a"))
    gauge.go_on.set()
    await asyncio.gather(*calls)
    await runtime.stop_when_idle()
    assert gauge.most == 1


async def test_a_limit_per_type_holds_back_only_that_type(runtimes: Runtimes) -> None:
    gauges = {"single": Gauge(), "double": Gauge(), "many": Gauge()}
    app = App("limits")

    async def hold(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await gauges[agent.id.type].hold(agent.id.key)

    app.closure("single", topics=["work"], concurrency=1)(hold)
    app.closure("double", topics=["work"], concurrency=2)(hold)
    app.closure("many", topics=["work"])(hold)
    runtime = runtimes.of(app)
    runtime.start()
    for key in range(6):
        await runtime.publish_message(Note(), TopicId("work", str(key)))
    await eventually(lambda: gauges["many"].now == 6)
    await eventually(lambda: gauges["double"].now == 2)
    for gauge in gauges.values():
        gauge.go_on.set()
    await runtime.stop_when_idle()
    assert {name: gauge.most for name, gauge in gauges.items()} == {"single": 1, "double": 2, "many": 6}
    assert runtime.handled == 18


async def test_the_limit_of_a_process_is_kept(runtimes: Runtimes) -> None:
    gauge = Gauge()

    async def hold(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await gauge.hold(str(agent.id))

    runtime = await runtimes.started(settings={"concurrency": 3})
    await closure(runtime, "first", hold, "work")
    for key in range(8):
        await runtime.publish_message(Note(), TopicId("work", str(key)))
    await eventually(lambda: gauge.now == 3)
    gauge.go_on.set()
    await runtime.stop_when_idle()
    assert gauge.most == 3
    assert runtime.handled == 8


async def test_who_waits_for_a_reply_leaves_its_place_to_the_one_who_is_asked(runtimes: Runtimes) -> None:
    async def ask_on(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        depth = int(agent.id.key)
        if not depth:
            return Answer(text="bottom")
        answer: Answer = await agent.send_message(message, AgentId(agent.id.type, str(depth - 1)))
        return answer

    runtime = await runtimes.started(settings={"concurrency": 1, "request_timeout": 3.0})
    await closure(runtime, "asker", ask_on)
    assert await runtime.send_message(Ask(), AgentId("asker", "4")) == Answer(text="bottom")
    await runtime.stop_when_idle()


async def test_order_over_topics_and_the_inbox(runtimes: Runtimes) -> None:
    seen: list[str] = []

    async def hear(agent: ClosureContext, message: Note | Ask, ctx: MessageContext) -> Answer | None:
        if message.text == "20":
            await asyncio.sleep(0)
        seen.append(message.text)
        return Answer() if ctx.is_rpc else None

    runtime = runtimes.new()
    await closure(runtime, "hearer", hear, "one", "two", "three")
    await runtime.open()
    calls = []
    for number in range(60):
        if number % 4 == 3:
            ask = runtime.send_message(Ask(text=str(number)), AgentId("hearer", "a"))
            calls.append(asyncio.create_task(ask))
            await eventually(lambda: runtime.transport.in_flight == len(calls))
            continue
        topic = TopicId(("one", "two", "three")[number % 4], "a")
        await runtime.publish_message(Note(text=str(number)), topic)
    runtime.start()
    await asyncio.gather(*calls)
    await runtime.stop_when_idle()
    assert seen == [str(number) for number in range(60)]


async def test_order_holds_while_messages_come_and_handlers_wait(runtimes: Runtimes) -> None:
    seen: dict[str, list[int]] = defaultdict(list)

    async def hear(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        number = int(message.text)
        for _ in range(number % 5):
            await asyncio.sleep(0)
        if number % 11 == 0 and ctx.attempt == 1:
            raise RuntimeError("again")
        seen[agent.id.key].append(number)

    runtime = await runtimes.started()
    await closure(runtime, "hearer", hear, "one", "two")
    for number in range(100):
        topic = TopicId("one" if number % 3 else "two", f"k{number % 4}")
        await runtime.publish_message(Note(text=str(number)), topic)
    await runtime.stop_when_idle()
    assert {key: numbers == sorted(numbers) for key, numbers in seen.items()} == dict.fromkeys(seen, True)
    assert sorted(chain.from_iterable(seen.values())) == list(range(100))


async def test_what_one_handler_publishes_keeps_its_order(runtimes: Runtimes) -> None:
    async def first(agent: ClosureContext, message: Ask, ctx: MessageContext) -> None:
        for number in range(10):
            await agent.publish_message(Note(text=f"{message.text}{number}"), TopicId(f"t{number % 2}", "x"))

    runtime = await runtimes.started()
    await closure(runtime, "first", first, "work")
    heard = await listener(runtime, "listener", "t0", "t1")
    for text in ("a", "b", "c"):
        await runtime.publish_message(Ask(text=text), TopicId("work", "one"))
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == [f"{text}{number}" for text in "abc" for number in range(10)]


# Interceptors


class Adding(DefaultInterventionHandler):
    """Adds a letter to everything that passes."""

    def __init__(self, letter: str) -> None:
        self.letter = letter

    def _more(self, message: Any) -> Any:
        return message.model_copy(update={"text": message.text + self.letter})

    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        await asyncio.sleep(0)
        return self._more(message)

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any:
        await asyncio.sleep(0)
        return self._more(message)

    async def on_response(self, message: Any, *, sender: AgentId, recipient: AgentId | None) -> Any:
        return self._more(message)


class Strict(DefaultInterventionHandler):
    """Drops or refuses what a message asks it to."""

    async def _look(self, message: Any) -> Any:
        await asyncio.sleep(0)
        if message.text == "refuse":
            raise PermissionError("not allowed")
        return {"drop": DropMessage, "drop it": DropMessage(), "forget": None}.get(message.text, message)

    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        return await self._look(message)

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any:
        return await self._look(message)

    async def on_response(self, message: Any, *, sender: AgentId, recipient: AgentId | None) -> Any:
        return await self._look(message)


async def _echo(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
    return Answer(text=message.text)


async def _say(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
    """Answers what it is asked to answer."""
    return Answer(text=message.text.removeprefix("say "))


async def test_interceptors_see_what_the_one_before_returned(runtimes: Runtimes) -> None:
    runtime = await runtimes.started(intervention_handlers=[Adding("A"), Adding("B")])
    await closure(runtime, "echo", _echo)
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Note(text="x"), TopicId("news", "a"))
    assert await runtime.send_message(Ask(text="x"), AgentId("echo", "a")) == Answer(text="xABAB")
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["xAB"]


async def test_interceptors_see_what_handlers_send(runtimes: Runtimes) -> None:
    async def first(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        answer: Answer = await agent.send_message(Ask(text="q"), AgentId("echo", "a"))
        await agent.publish_message(Note(text=answer.text), TopicId("news", "a"))

    runtime = await runtimes.started(intervention_handlers=[Adding("!")])
    await closure(runtime, "echo", _echo)
    await closure(runtime, "first", first, "work")
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Note(), TopicId("work", "a"))
    await runtime.stop_when_idle()
    assert [one.text for one in heard] == ["q!!!"]


@pytest.mark.parametrize("text", ["drop", "drop it"])
async def test_dropping_keeps_nobody_waiting(runtimes: Runtimes, text: str) -> None:
    runtime = await runtimes.started(intervention_handlers=[Strict()])
    await closure(runtime, "say", _say)
    heard = await listener(runtime, "listener", "news")
    await runtime.publish_message(Note(text=text), TopicId("news", "a"))
    with pytest.raises(MessageDroppedException):
        await runtime.send_message(Ask(text=text), AgentId("say", "a"))
    with pytest.raises(MessageDroppedException):
        await runtime.send_message(Ask(text=f"say {text}"), AgentId("say", "a"))
    await asyncio.wait_for(runtime.stop_when_idle(), 5)
    assert heard == []
    assert runtime.handled == 1


async def test_an_interceptor_that_fails_fails_the_call(runtimes: Runtimes) -> None:
    runtime = await runtimes.started(intervention_handlers=[Strict()])
    await closure(runtime, "say", _say)
    heard = await listener(runtime, "listener", "news")
    with pytest.raises(PermissionError):
        await runtime.publish_message(Note(text="refuse"), TopicId("news", "a"))
    with pytest.raises(PermissionError):
        await runtime.send_message(Ask(text="refuse"), AgentId("say", "a"))
    with pytest.raises(PermissionError):
        await runtime.send_message(Ask(text="say refuse"), AgentId("say", "a"))
    await asyncio.wait_for(runtime.stop_when_idle(), 5)
    assert heard == []


async def test_an_interceptor_that_returns_nothing_changes_nothing(runtimes: Runtimes) -> None:
    runtime = await runtimes.started(intervention_handlers=[Strict()])
    await closure(runtime, "say", _say)
    with pytest.warns(RuntimeWarning, match="returned None"):
        answer = await runtime.send_message(Ask(text="forget"), AgentId("say", "a"))
    assert answer == Answer(text="forget")
