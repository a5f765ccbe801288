"""What is registered while a runtime opens, starts and joins is known to everybody once registering is over."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from callboard import AgentId, App, ClosureContext, MessageContext, RedisAgentRuntime, TypeSubscription
from callboard.broker.redis.client.lane import WorkerLane
from callboard.broker.redis.client.transport import RedisTransport
from callboard.errors import NotAccessibleError, UnknownNameError
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Runtimes, closure, listener


class Gate:
    """Holds up the first call of a method of a class after its work is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type[Any], method: str) -> None:
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        original = getattr(owner, method)

        async def held_up(this: Any, *arguments: Any) -> Any:
            result = await original(this, *arguments)
            if not self.reached.is_set():
                self.reached.set()
                await self.open.wait()
            return result

        monkeypatch.setattr(owner, method, held_up)


async def _answer(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
    return Answer(text=message.text)


async def _declared_types(runtime: RedisAgentRuntime) -> set[str]:
    transport = runtime.transport
    found = await transport.admin.command("HKEYS", transport.keys.of("types"))
    return {name.decode() for name in found}


async def test_a_type_that_is_registered_while_the_runtime_opens(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, RedisTransport, "declare")
    runtime = runtimes.new()
    runtime.start()
    await gate.reached.wait()
    registering = [asyncio.create_task(closure(runtime, name, _answer, f"of-{name}")) for name in "abc"]
    await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(*registering)
    assert await _declared_types(runtime) == {"a", "b", "c"}
    transport = runtime.transport
    assert await transport.admin.command("HGET", transport.keys.of("topics"), "of-b") == b"b"
    replies = await asyncio.gather(
        *(runtime.send_message(Ask(text=name), AgentId(name, "x")) for name in "abc")
    )
    assert [reply.text for reply in replies] == ["a", "b", "c"]


async def test_a_subscription_that_ends_while_the_runtime_opens(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, RedisTransport, "declare")
    runtime = runtimes.new()
    await listener(runtime, "listener")
    subscription = TypeSubscription("news", "listener")
    await runtime.add_subscription(subscription)
    opening = asyncio.create_task(runtime.open())
    await gate.reached.wait()
    removing = asyncio.create_task(runtime.remove_subscription(subscription.id))
    await asyncio.sleep(0)
    gate.open.set()
    await asyncio.gather(opening, removing)
    transport = runtime.transport
    assert not await transport.admin.command("HGET", transport.keys.of("topics"), "news")


async def test_a_request_right_after_start_and_register(runtimes: Runtimes) -> None:
    for number in range(20):
        runtime = runtimes.new()
        runtime.start()
        for _ in range(number % 5):
            await asyncio.sleep(0)
        await closure(runtime, f"answering{number}", _answer)
        reply = await runtime.send_message(Ask(text="now"), AgentId(f"answering{number}", "x"))
        assert reply == Answer(text="now")
        await runtime.close()


async def test_a_type_that_comes_while_the_worker_joins_is_known_as_its_own(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(monkeypatch, WorkerLane, "join")
    runtime = runtimes.new()
    await closure(runtime, "early", _answer)
    runtime.start()
    await gate.reached.wait()
    await closure(runtime, "late", _answer)
    gate.open.set()
    await runtime.ready()
    transport = runtime.transport

    async def is_told() -> bool:
        types = await transport.admin.command("HGET", transport.keys.of(f"worker:{runtime.worker}"), "types")
        return bool(types == b"early late")

    await eventually(is_told)


async def test_an_agent_of_another_process_is_not_accessible_here(runtimes: Runtimes) -> None:
    there, here = runtimes.new(), runtimes.new()
    await closure(there, "answering", _answer)
    await there.open()
    await here.open()
    with pytest.raises(NotAccessibleError, match="answering/a lives in another process"):
        await here.try_get_underlying_agent_instance(AgentId("answering", "a"))
    with pytest.raises(NotAccessibleError):
        await here.agent_metadata(AgentId("answering", "a"))
    with pytest.raises(UnknownNameError):
        await here.try_get_underlying_agent_instance(AgentId("nobody", "a"))


@pytest.mark.parametrize("is_started", [True, False])
async def test_what_is_registered_on_a_runtime_runs_there_whatever_it_takes_of_its_app(
    runtimes: Runtimes, is_started: bool
) -> None:
    app = App("app")
    app.closure("elsewhere")(_answer)
    runtime = runtimes.of(app, types=())
    if is_started:
        runtime.start()
    await closure(runtime, "here", _answer)
    if not is_started:
        runtime.start()
    assert await runtime.send_message(Ask(text="hello"), "here/a") == Answer(text="hello")
    with pytest.raises(TimeoutError):
        await runtime.send_message(Ask(), "elsewhere/a", timeout=0.1)
