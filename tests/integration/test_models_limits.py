"""One limit for all processes: never exceeded, whoever dies, and everything is done in the end."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from callboard import AgentId, App, MessageContext, RedisAgentRuntime, RoutedAgent, TopicId, event, rpc
from callboard.broker import BrokerSettings
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.operations.inspect import outages
from callboard.models import (
    Budget,
    MeteredChatCompletionClient,
    RecordedChatCompletionClient,
    ReplayChatCompletionClient,
    RuntimeStore,
    UsageLedger,
    UserMessage,
)
from callboard.models.errors import BudgetHeldError
from tests.helpers.eventually import eventually
from tests.helpers.limited_work import DEADLY, EVERY, PROCESSES, REQUESTS, TOKENS, log_of
from tests.helpers.processes import Process, python
from tests.helpers.worker_fleet import SHORT_LEASE, WorkerFleet

MESSAGES = 18
TOKENS_OF_A_REQUEST = 4
QUESTION = [UserMessage(content="one two three", source="user")]


@pytest.fixture
async def workers(fleet: WorkerFleet) -> AsyncIterator[list[int]]:
    """The ids of eight processes that work."""
    process = Process(python("-m", "tests.helpers.limited_work", fleet.url, fleet.namespace), SHORT_LEASE)
    fleet.workers.append(process)
    await eventually(lambda: len(process.lines("ready ")) == PROCESSES, 20, what=process.output)
    made = [int(line.split()[1]) for line in process.lines("ready ")]
    yield made
    for pid in made:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def test_a_limit_of_eight_processes_is_never_exceeded(fleet: WorkerFleet, workers: list[int]) -> None:
    transport = RedisTransport(fleet.url, BrokerSettings(namespace=fleet.namespace))
    command = transport.admin.command

    async def entries() -> list[tuple[int, str, str]]:
        found = await command("XRANGE", log_of(fleet.namespace), "-", "+")
        return [(int(at.partition(b"-")[0]), what.decode(), of.decode()) for at, (what, of) in found]

    async def is_done() -> bool:
        return set(await command("HKEYS", f"{fleet.namespace}-done")) == {b"%d" % n for n in range(MESSAGES)}

    async with RedisAgentRuntime(fleet.url, namespace=fleet.namespace) as publisher:
        for number in range(MESSAGES):
            await publisher.publish_message(str(number), TopicId("questions", str(number)))
    await eventually(entries, 20)
    for pid in workers[:2]:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    await eventually(is_done, 60)

    log = await entries()
    times = [at for at, what, _ in log if what == "asked"]
    together = [sum(at - EVERY * 1000 < other <= at for other in times) for at in times]
    assert max(together) <= min(REQUESTS, TOKENS // TOKENS_OF_A_REQUEST), log
    for deadly in DEADLY:
        assert [what for _, what, of in log if of == deadly][-2:] == ["answered", "answered"], (
            "it is paid for once"
        )
    await transport.close()


async def test_what_waits_in_a_handler_uses_up_no_attempt_and_says_why(fleet: WorkerFleet) -> None:
    model = ReplayChatCompletionClient(default="four words of answer")
    model.set_cached_bool_value(False)
    limit = Budget("key", requests=1, every="day", when_over="wait")
    metered = MeteredChatCompletionClient(model, UsageLedger(RuntimeStore()), budgets=[limit])
    client, attempts = RecordedChatCompletionClient(metered), list[int]()
    app = App("waiting")

    @app.agent("asker", topics=["questions"])
    class Asker(RoutedAgent):
        @event
        async def on_question(self, message: str, ctx: MessageContext) -> None:
            attempts.append(ctx.attempt)
            await client.create(QUESTION)

        @rpc
        async def on_number(self, message: int, ctx: MessageContext) -> str:
            return str((await client.create(QUESTION)).content)

    async with RedisAgentRuntime.from_app(app, fleet.url, namespace=fleet.namespace) as runtime:
        runtime.start()
        assert await runtime.send_message(1, AgentId("asker", "ada")) == "four words of answer"
        with pytest.raises(BudgetHeldError) as caught:
            await runtime.send_message(2, AgentId("asker", "ada"))
        assert (caught.value.scope, caught.value.limit, caught.value.every) == ("key:ada", 1, 86_400)
        assert 86_400 < (caught.value.retry_after or 0) < 90_000
        assert 86_400 < caught.value.room_at - time.time() < 90_000
        assert caught.value.has_sure_end, "also as a reply"
        await runtime.send_message(3, AgentId("asker", "bob"))

        await runtime.publish_message("?", TopicId("questions", "ada"))
        (found,) = await eventually(lambda: outages(runtime.transport, ["asker"]))
        assert "there is room at " in found.error
        assert "of 1 for key:ada in 24 h 1 are spent" in found.error
    assert attempts == [1]
    assert len(model.create_calls) == 2


async def test_what_would_be_paid_again_and_again_is_not_waited_for_without_end(fleet: WorkerFleet) -> None:
    model = ReplayChatCompletionClient(default="four words of answer")
    model.set_cached_bool_value(False)
    limit = Budget("key", requests=1, every="day", when_over="wait")
    plain = MeteredChatCompletionClient(model, UsageLedger(RuntimeStore()), budgets=[limit])
    recorded = RecordedChatCompletionClient(plain)
    app = App("twice")

    @app.agent("asker")
    class Asker(RoutedAgent):
        @rpc
        async def on_recorded(self, message: int, ctx: MessageContext) -> None:
            for _ in range(2):
                await recorded.create(QUESTION)

        @rpc
        async def on_step(self, message: float, ctx: MessageContext) -> None:
            await ctx.once("first", plain.create, QUESTION)
            await plain.create(QUESTION)

        @rpc
        async def on_plain(self, message: str, ctx: MessageContext) -> None:
            for _ in range(2):
                await plain.create(QUESTION)

    async with RedisAgentRuntime.from_app(app, fleet.url, namespace=fleet.namespace) as runtime:
        runtime.start()
        for message, pays_again in ((1, False), (1.5, False), ("plain", True)):
            with pytest.raises(BudgetHeldError) as caught:
                await runtime.send_message(message, AgentId("asker", type(message).__name__))
            assert (caught.value.pays_again, caught.value.has_sure_end) == (pays_again, not pays_again)
            assert ("put a RecordedChatCompletionClient around" in str(caught.value)) is pays_again
    assert len(model.create_calls) == 3
