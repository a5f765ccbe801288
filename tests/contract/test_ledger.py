"""What models used, counted on the server: no budget is exceeded, and nothing is counted twice."""

from __future__ import annotations

import asyncio

from callboard.broker.redis.store import RedisStore
from tests.helpers.server_driver import ServerDriver

SCOPES = ("total", "run:1")
DAY = 86_400.0


async def hold(driver: ServerDriver, name: str, tokens: float = 10, seconds: float = DAY) -> bool:
    store = RedisStore(driver.transport.admin)
    amounts = {"tokens": tokens, "usd": tokens / 100}
    return await store.hold(name, SCOPES, amounts, [("run:1", "tokens", 35)], seconds) is None


async def test_requests_at_once_hold_no_more_than_there_is(driver: ServerDriver) -> None:
    held = await asyncio.gather(*(hold(driver, f"r{number}") for number in range(8)))

    assert sum(held) == 3
    assert len(await RedisStore(driver.transport.admin).table("held:total")) == 3


async def test_what_is_settled_twice_is_counted_once(driver: ServerDriver) -> None:
    store = RedisStore(driver.transport.admin)
    assert await hold(driver, "r")
    for _ in range(2):
        await store.settle("r", SCOPES, {"requests": 1, "prompt_tokens": 4, "usd": 0.5}, DAY)

    for scope in SCOPES:
        table = {name: float(value) for name, value in (await store.table(f"usage:{scope}")).items()}
        assert table == {"requests": 1, "prompt_tokens": 4, "usd": 0.5}
    assert await store.table("held:total") == {}


async def test_every_key_of_it_has_a_lifetime(driver: ServerDriver) -> None:
    assert await hold(driver, "r")
    assert await hold(driver, "s")
    await RedisStore(driver.transport.admin).settle("r", SCOPES, {"requests": 1}, DAY)

    for name in ("held:total", "usage:total", "held:run:1", "usage:run:1"):
        command = driver.transport.admin.command
        assert 0 < await command("PTTL", driver.transport.keys.of(f"store:{name}")) <= 2 * DAY * 1000


async def test_what_a_dead_worker_held_does_not_stand_in_the_way_of_its_message(driver: ServerDriver) -> None:
    assert await hold(driver, "ab@1/1", 30)
    assert not await hold(driver, "ab@1/2", 30), "of the same worker"
    assert not await hold(driver, "cd@2/3", 30), "of another message"
    assert not await hold(driver, "4", 30), "of no message"
    assert await hold(driver, "ab@2/5", 30)

    await RedisStore(driver.transport.admin).settle("ab@1/1", SCOPES, {"prompt_tokens": 4}, DAY)
    used = await RedisStore(driver.transport.admin).table("usage:run:1")
    assert float(used["prompt_tokens"]) == 4, "counted all the same, should it have been alive"


async def test_what_a_dead_worker_held_is_given_back_when_its_message_is_handled_again(
    driver: ServerDriver,
) -> None:
    assert await hold(driver, "ab@1/1", 30)
    assert await hold(driver, "ab@2/2", 30)
    await RedisStore(driver.transport.admin).settle("ab@2/2", SCOPES, {"prompt_tokens": 4}, DAY)

    assert await hold(driver, "cd@2/3", 30), "of a message that comes after it"


async def test_what_begins_without_a_hold_begins_in_no_scope_that_has_a_limit(driver: ServerDriver) -> None:
    store = RedisStore(driver.transport.admin)
    assert await store.begin("r", SCOPES, DAY)
    await store.settle("r", SCOPES, {"requests": 1, "usd": 0.5}, DAY, "poets.writer gpt 4")
    assert float((await store.table("usage:run:1"))["poets.writer gpt 4 usd"]) == 0.5
    assert "poets.writer gpt 4 usd" not in await store.table("usage:total"), "it would grow for ever"

    await store.put("usage:run:1", "limit_usd", b"9", DAY)
    assert not await store.begin("s", SCOPES, DAY)
    assert await store.table("held:total") == {}


async def test_no_limit_in_money_covers_what_has_no_price(driver: ServerDriver) -> None:
    store = RedisStore(driver.transport.admin)
    unknown = {"tokens": 5.0, "usd": -1.0}
    assert await store.hold("r", SCOPES, unknown, [("run:1", "tokens", 35)], DAY) is None
    await store.put("usage:run:1", "limit_usd", b"9", DAY)
    assert await store.hold("s", SCOPES, unknown, [], DAY) == ("run:1", "usd", 9.0, 0.0)
