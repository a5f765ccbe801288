"""A throw-away namespace whose process died is removed by the next process that makes one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from callboard import RedisAgentRuntime
from callboard.broker.redis.client.transport import REGISTER, RedisTransport
from tests.helpers.server_driver import ServerDriver

Command = Callable[..., Awaitable[Any]]
DEAD = "run-1-abcd"


async def _left(command: Command, namespace: str, until: int) -> str:
    key = f"callboard:{{{namespace}}}:types"
    await command("HSET", key, "a", "{}")
    await command("ZADD", REGISTER, until, namespace)
    return key


async def test_what_a_dead_process_left_is_removed(driver: ServerDriver, server_url: str) -> None:
    command = driver.transport.admin.command
    dead = await _left(command, DEAD, 1000)
    alive = await _left(command, "run-1-beef", 10**15)
    named = await _left(command, "orders", 1000)
    try:
        async with RedisAgentRuntime(server_url) as runtime:
            mine = runtime.transport.keys.namespace
            assert await command("EXISTS", dead) == 0
            assert await command("EXISTS", alive, named) == 2, "it is in use, or was given a name"
            assert await command("ZSCORE", REGISTER, DEAD) is None
            assert float(await command("ZSCORE", REGISTER, mine)) > 1e12
        assert await command("ZSCORE", REGISTER, mine) is None
    finally:
        await command("DEL", REGISTER, alive, named)


class KilledError(BaseException):
    """Stands for kill -9: nothing of the process runs afterwards."""


@pytest.mark.parametrize("where", ["declare", "delete_keys"])
async def test_whatever_is_there_is_in_the_register_when_its_process_is_killed(
    driver: ServerDriver, server_url: str, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    command = driver.transport.admin.command
    found: list[tuple[str, Any]] = []
    carry_out = getattr(RedisTransport, where)

    async def killed_after(self: RedisTransport, *arguments: Any) -> None:
        if self is not driver.transport and not found:
            namespace = self.keys.namespace
            found.append((namespace, await command("ZSCORE", REGISTER, namespace)))
            if where == "declare":
                await carry_out(self, *arguments)
            raise KilledError

    async def live_and_die() -> None:
        async with RedisAgentRuntime(server_url):
            pass

    with monkeypatch.context() as patch:
        patch.setattr(RedisTransport, where, killed_after)
        with pytest.raises(KilledError):
            await live_and_die()
    ((namespace, entered),) = found
    assert entered is not None
    types = f"callboard:{{{namespace}}}:config"
    assert await command("EXISTS", types) == 1
    await command("ZADD", REGISTER, 1, namespace)  # a day later
    async with RedisAgentRuntime(server_url):
        assert await command("EXISTS", types) == 0


async def test_a_namespace_with_a_name_is_not_entered(driver: ServerDriver, server_url: str) -> None:
    async with RedisAgentRuntime(server_url, namespace=driver.transport.keys.namespace):
        assert (
            await driver.transport.admin.command("ZSCORE", REGISTER, driver.transport.keys.namespace) is None
        )


@pytest.mark.real_server("it has no users")
async def test_a_user_of_some_namespaces_only_can_work_all_the_same(
    driver: ServerDriver, server_url: str
) -> None:
    command = driver.transport.admin.command
    rights = ("on", ">secret", "~callboard:{*", "+@all")
    await command("ACL", "SETUSER", "limited", *rights)
    url = server_url.replace("://", "://limited:secret@", 1)
    try:
        async with RedisAgentRuntime(url) as runtime:
            assert await command("EXISTS", runtime.transport.keys.of("config")) == 1
    finally:
        await command("ACL", "DELUSER", "limited")


async def test_the_entry_is_renewed_while_the_process_lives(
    driver: ServerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    from callboard.broker.redis.client import transport as throwaway
    from tests.helpers.eventually import eventually

    monkeypatch.setattr(throwaway, "EVERY", 0.01)
    transport = RedisTransport(driver.url, driver.settings)
    made = throwaway.ThrowAway(transport)
    await made.begin()
    command = driver.transport.admin.command
    await command("ZADD", REGISTER, 1, driver.transport.keys.namespace)

    async def renewed() -> bool:
        return float(await command("ZSCORE", REGISTER, driver.transport.keys.namespace)) > 1

    await eventually(renewed)
    await made.end()
    assert await command("ZSCORE", REGISTER, driver.transport.keys.namespace) is None
    await transport.close()
