"""What the runtime promises, on every server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import AgentId, App, MessageContext, RoutedAgent, TopicId, event, rpc
from callboard.broker import BrokerSettings
from callboard.broker.redis.operations import deadletters
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually

pytestmark = pytest.mark.usefixtures("server_url")


class Visit(BaseModel):
    name: str = ""
    fail: int = 0


class Ask(BaseModel):
    question: str = ""


class Told(BaseModel):
    answer: str


class RefusedError(ValueError):
    """What the agents of these tests raise."""


class Book:
    """What the handlers of one test saw."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.attempts: list[int] = []
        self.running = 0
        self.most = 0

    def names(self, key: str = "a") -> list[str]:
        return [name for its_key, name in self.seen if its_key == key]


Runtime = Callable[..., RedisAgentRuntime]


@pytest.fixture
def namespace() -> str:
    return f"contract-{os.urandom(4).hex()}"


@pytest.fixture
async def runtime(server_url: str, namespace: str) -> AsyncIterator[Runtime]:
    """Makes runtimes for an app; they are closed at the end."""
    made: list[RedisAgentRuntime] = []

    def make(app: App, **options: Any) -> RedisAgentRuntime:
        settings = BrokerSettings(
            namespace=namespace, retry_base=0.01, idle_poll=0.1, **options.pop("settings", {})
        )
        made.append(
            RedisAgentRuntime.from_app(app, server_url, namespace=namespace, settings=settings, **options)
        )
        return made[-1]

    yield make
    for one in made:
        await one.close()


@pytest.fixture
def book() -> Book:
    return Book()


@pytest.fixture
def app(book: Book) -> App:
    """A counter with a state, one without, and one that passes on."""
    made = App("contract")

    @made.agent("counter", topics=["visits"])
    class Counter(RoutedAgent):
        class State(BaseModel):
            total: int = 0

        @event
        async def on_visit(self, message: Visit, ctx: MessageContext) -> None:
            book.seen.append((self.id.key, message.name))
            book.attempts.append(ctx.attempt)
            book.running += 1
            book.most = max(book.most, book.running)
            await asyncio.sleep(0)
            book.running -= 1
            self.state.total += 1
            await self.publish_message(Told(answer=message.name), TopicId("told", self.id.key))
            if ctx.attempt <= message.fail:
                raise RefusedError(f"attempt {ctx.attempt}")

        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Told:
            if message.question == "fail":
                raise RefusedError("no answer to that")
            if message.question == "hang":
                await asyncio.Event().wait()
            return Told(answer=str(self.state.total))

    @made.agent("listener", topics=["told"])
    class Listener(RoutedAgent):
        @event
        async def on_told(self, message: Told, ctx: MessageContext) -> None:
            book.seen.append(("told", message.answer))

    @made.agent("proxy")
    class Proxy(RoutedAgent):
        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Told:
            answer: Told = await self.send_message(message, AgentId("counter", self.id.key))
            return Told(answer=f"asked: {answer.answer}")

    return made


async def _run_until_idle(runtime: RedisAgentRuntime) -> None:
    runtime.start()
    async with asyncio.timeout(20):
        await runtime.stop_when_idle()


async def test_state_outlives_the_runtime(runtime: Runtime, app: App) -> None:
    first = runtime(app)
    await first.publish_message(Visit(), TopicId("visits", "a"))
    await first.publish_message(Visit(), TopicId("visits", "a"))
    await _run_until_idle(first)
    await first.close()
    second = runtime(app)
    second.start()
    answer = await second.send_message(Ask(), AgentId("counter", "a"))
    assert answer == Told(answer="2")
    assert (await second.send_message(Ask(), AgentId("counter", "new"))).answer == "0"


async def test_many_requests_at_once(runtime: Runtime, app: App) -> None:
    one = runtime(app)
    one.start()
    answers = await asyncio.gather(*(one.send_message(Ask(), AgentId("proxy", f"k{i}")) for i in range(150)))
    assert {answer.answer for answer in answers} == {"asked: 0"}


async def test_the_last_attempt_makes_a_dead_letter_that_can_be_replayed(
    runtime: Runtime, app: App, book: Book
) -> None:
    one = runtime(app)
    await one.publish_message(Visit(name="x", fail=3), TopicId("visits", "a"))
    await _run_until_idle(one)
    (letter,) = await deadletters.list_letters(one.transport)
    assert letter.attempts == 3
    assert "RefusedError" in letter.error
    assert one.failed == 1
    for _ in range(2):
        await deadletters.replay(one.transport, "counter", [letter.id])
    await _run_until_idle(one)
    assert book.attempts == [1, 2, 3, 1, 2, 3]


async def test_one_activation_at_a_time_over_two_runtimes(runtime: Runtime, app: App, book: Book) -> None:
    one, two = runtime(app), runtime(app)
    one.start()
    two.start()
    for number in range(60):
        await one.publish_message(Visit(name=str(number)), TopicId("visits", "a"))
    await eventually(lambda: len(book.names("told")) == 60)
    assert book.names() == [str(i) for i in range(60)]
    assert book.most == 1
    assert (await one.send_message(Ask(), AgentId("counter", "a"))).answer == "60"


async def test_two_runtimes_share_the_work(runtime: Runtime, app: App, book: Book) -> None:
    one, two = runtime(app), runtime(app)
    for number in range(300):
        await one.publish_message(Visit(name=str(number)), TopicId("visits", f"k{number}"))
    one.start()
    two.start()
    await eventually(lambda: len(book.names("told")) == 300)
    assert len(book.seen) == 600


async def test_a_runtime_may_be_stopped_and_started_again(runtime: Runtime, app: App, book: Book) -> None:
    one = runtime(app)
    for name in ("x", "y"):
        await one.publish_message(Visit(name=name), TopicId("visits", "a"))
        await _run_until_idle(one)
    assert book.names() == ["x", "y"]


async def test_stop_leaves_the_rest_for_the_next_start(runtime: Runtime, app: App, book: Book) -> None:
    one = runtime(app)
    one.start()
    await one.ready()
    await one.stop()
    await one.publish_message(Visit(name="x"), TopicId("visits", "a"))
    assert book.seen == []
    await _run_until_idle(one)
    assert book.names() == ["x"]


async def test_a_temporary_namespace_leaves_nothing(server_url: str, book: Book) -> None:
    one = RedisAgentRuntime(server_url)
    await one.register_factory("nobody", lambda: RoutedAgent("does nothing"), expected_class=RoutedAgent)
    await one.publish_message("hello", TopicId("visits", "a"))
    prefix = one.transport.keys.prefix
    await one.close()
    async with RedisAgentRuntime(server_url) as other:
        await other.open()
        found = await other.transport.admin.command("KEYS", prefix.replace("{", "[{]") + "*")
        assert found == []
