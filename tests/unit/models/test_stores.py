from __future__ import annotations

import os
from collections.abc import AsyncIterator

import pytest

from callboard import App, MessageContext, RedisAgentRuntime, RoutedAgent, rpc
from callboard.broker import AgentId, BrokerSettings
from callboard.broker.redis.store import RedisStore
from callboard.errors import MisuseError
from callboard.models import LocalStore, RuntimeStore
from callboard.models.stores import Store
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(params=["memory", "redis"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Store]:
    if request.param == "memory":
        yield LocalStore()
        return
    made = RedisStore.at(f"memory://stores-{os.urandom(4).hex()}", BrokerSettings(namespace="stores"))
    yield made
    made.close()


async def test_values(store: Store) -> None:
    assert await store.get("a") is None
    await store.set("a", b"\x00one", 60)
    await store.set("a", b"two", 60)
    assert await store.get("a") == b"two"


async def test_tables(store: Store) -> None:
    assert await store.table("t") == {}
    await store.put("t", "x", b"1", 60)
    await store.put("t", "y", b"2", 60)
    await store.remove("t", "x")
    await store.remove("t", "z")
    await store.remove("u", "z")
    assert await store.table("t") == {"y": b"2"}


async def test_numbers_add_up(store: Store) -> None:
    for _ in range(10):
        await store.add("n", {"usd": 0.0000001, "tokens": 3}, 60)
    await store.add("n", {"usd": 1.0}, 60)
    table = await store.table("n")
    assert float(table["usd"]) == pytest.approx(1.000001)
    assert float(table["tokens"]) == 30


SCOPES = ("total", "run:1")


async def hold(store: Store, name: str, tokens: float, most: float, seconds: float = 60) -> object:
    amounts = {"tokens": tokens, "usd": tokens / 100}
    return await store.hold(name, SCOPES, amounts, [("run:1", "tokens", most)], seconds)


async def test_what_is_held_or_used_is_not_given_away_again(store: Store) -> None:
    assert await hold(store, "a", 10, 25) is None
    assert await hold(store, "a", 10, 25) is None, "safe to repeat"
    assert await hold(store, "b", 10, 25) is None
    assert await hold(store, "c", 10, 25) == ("run:1", "tokens", 25.0, 20.0)
    assert set(await store.table("held:total")) == {"a", "b"}, "one that is refused holds nothing anywhere"
    for _ in range(2):
        await store.settle("a", SCOPES, {"prompt_tokens": 4.0, "completion_tokens": 3.0, "usd": 0.5}, 60)
    table = {name: float(value) for name, value in (await store.table("usage:run:1")).items()}
    assert table == {"prompt_tokens": 4, "completion_tokens": 3, "usd": 0.5}
    assert await hold(store, "c", 10, 25) == ("run:1", "tokens", 25.0, 17.0)
    assert await hold(store, "c", 8, 25) is None


async def test_a_hold_of_another_worker_gives_way_to_its_message(store: Store) -> None:
    assert await hold(store, "ab@1/1", 10, 15) is None
    assert await hold(store, "ab@1/2", 10, 15) is not None, "of the same worker"
    assert await hold(store, "cd@2/3", 10, 15) is not None, "of another message"
    assert await hold(store, "ab@2/4", 10, 15) is None
    await store.settle("ab@2/4", SCOPES, {"prompt_tokens": 4.0}, 60)
    assert await hold(store, "cd@2/5", 10, 15) is None, "what it held is given back"
    await store.settle("ab@1/1", SCOPES, {"prompt_tokens": 2.0}, 60)
    assert float((await store.table("usage:total"))["prompt_tokens"]) == 6, "should it have been alive"


async def test_a_hold_that_has_ended_counts_no_more_and_is_settled_all_the_same(store: Store) -> None:
    assert await hold(store, "a", 10, 10, seconds=0.001) is None

    async def is_free() -> bool:
        return await hold(store, "b", 10, 10) is None

    await eventually(is_free)
    await store.settle("a", SCOPES, {"prompt_tokens": 4.0}, 60)
    assert float((await store.table("usage:total"))["prompt_tokens"]) == 4


async def test_a_scope_may_carry_its_limits_itself(store: Store) -> None:
    await store.put("usage:total", "limit_usd", b"0.15", 60)
    assert await hold(store, "a", 10, 100) is None
    assert await hold(store, "b", 10, 100) == ("total", "usd", 0.15, 0.1)


async def test_in_memory_everything_expires() -> None:
    clock = Clock()
    store = LocalStore(clock=clock)
    await store.set("a", b"1", 10)
    await store.add("t", {"x": 1}, 10)
    clock.now = 9
    await store.add("t", {"x": 1}, 10)
    clock.now = 10
    assert await store.get("a") is None
    assert await store.table("t") == {"x": b"2.0"}
    clock.now = 19
    assert await store.table("t") == {}


async def test_in_memory_the_name_used_longest_ago_is_dropped() -> None:
    store = LocalStore(max_names=2)
    await store.set("a", b"1", 10)
    await store.set("b", b"2", 10)
    await store.get("a")
    await store.set("c", b"3", 10)
    assert [await store.get(name) for name in "abc"] == [b"1", None, b"3"]


async def test_a_runtime_store_is_the_server_of_the_handler() -> None:
    store = RuntimeStore()
    app = App("stores")

    @app.agent("keeper")
    class Keeper(RoutedAgent):
        def __init__(self) -> None:
            super().__init__("keeps")

        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            await store.set("a", b"1", 60)
            await store.put("t", "x", b"1", 60)
            await store.add("t", {"y": 2}, 60)
            await store.remove("t", "x")
            value = await store.get("a")
            return Answer(text=f"{value!r} {dict(await store.table('t'))}")

    async with RedisAgentRuntime.from_app(app, f"memory://stores-{os.urandom(4).hex()}") as runtime:
        runtime.start()
        answer = await runtime.send_message(Ask(), AgentId("keeper", "a"))
        assert answer.text == "b'1' {'y': b'2'}"
        assert await RedisStore(runtime.transport.admin).get("a") == b"1"


async def test_outside_a_handler_there_is_no_runtime_store() -> None:
    with pytest.raises(MisuseError, match="RuntimeStore"):
        await RuntimeStore().get("a")
