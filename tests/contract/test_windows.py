"""Limits of any minute, counted on the server: no window of time has more in it, and what was not needed is given back."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from callboard.broker.redis.operations.windows import WindowLimit, window_limits
from callboard.broker.redis.store import RedisStore
from callboard.models.windows import Ceiling, Over
from tests.helpers.server_driver import ServerDriver

MINUTE = 60.0
SCOPE = "client:gpt 4; \u202eodd"
TABLE, ENTERED = f"window:60000:{SCOPE}", f"entered:60000:{SCOPE}"


class WindowFixture:
    """One window of a minute, whose past a test can move."""

    def __init__(self, driver: ServerDriver) -> None:
        self.driver = driver
        self.store = RedisStore(driver.transport.admin)

    async def enter(self, name: str, needs: float = 10, price: float = 0.0, **most: float) -> Over | None:
        limits: list[Ceiling] = [(SCOPE, MINUTE, unit, limit) for unit, limit in most.items()]
        return await self.store.enter(name, {"requests": 1, "tokens": needs, "usd": price}, limits)

    async def leave(self, name: str, requests: float = 1, tokens: float = 0) -> None:
        used = {"requests": requests, "tokens": tokens, "usd": 0.0}
        await self.store.leave(name, used, [(SCOPE, MINUTE)])

    async def pass_by(self, seconds: int) -> None:
        """What began in the window began so much earlier; its slices are of one second."""
        of, command = self.driver.transport.keys.of, self.driver.transport.admin.command
        for name, value in (await self.store.table(TABLE)).items():
            if name.isdigit():
                await command("HDEL", of(f"store:{TABLE}"), name)
                await command("HSET", of(f"store:{TABLE}"), str(int(name) - seconds), value)
        for name, value in (await self.store.table(ENTERED)).items():
            slice_, _, rest = value.decode().partition(" ")
            await command("HSET", of(f"store:{ENTERED}"), name, f"{int(slice_) - seconds} {rest}")

    async def used(self) -> Mapping[str, float]:
        sums = [value.split() for name, value in (await self.store.table(TABLE)).items() if name.isdigit()]
        return {
            unit: sum(float(one[i]) for one in sums) for i, unit in enumerate(("requests", "tokens", "usd"))
        }


@pytest.fixture
def window(driver: ServerDriver) -> WindowFixture:
    return WindowFixture(driver)


def wait_of(over: Over | None) -> float:
    assert over is not None
    assert over[5] is not None
    return over[5]


async def test_requests_at_once_begin_only_as_many_as_there_may_be(window: WindowFixture) -> None:
    entered = await asyncio.gather(*(window.enter(f"r{number}", requests=3) for number in range(8)))

    assert entered.count(None) == 3
    assert await window.used() == {"requests": 3, "tokens": 30, "usd": 0}


async def test_a_request_counts_until_it_is_out_of_the_window_wherever_in_its_second_it_began(
    window: WindowFixture,
) -> None:
    assert await window.enter("r", requests=1) is None
    over = await window.enter("s", requests=1)
    assert over is not None
    assert over[:5] == (SCOPE, MINUTE, "requests", 1, 1)
    await window.leave("r")
    assert MINUTE < wait_of(await window.enter("s", requests=1)) <= MINUTE + 2

    await window.pass_by(60)
    assert wait_of(await window.enter("s", requests=1)) <= 2
    await window.pass_by(2)
    assert await window.enter("s", requests=1) is None


async def test_there_is_room_when_as_much_as_is_needed_is_out_of_the_window(window: WindowFixture) -> None:
    for name, tokens in (("a", 10), ("b", 20), ("c", 30)):
        assert await window.enter(name, tokens, tokens=60) is None
        await window.leave(name, tokens=tokens)
        await window.pass_by(10)

    assert 30 < wait_of(await window.enter("d", 10, tokens=60)) <= 32, "when a is out"
    assert 40 < wait_of(await window.enter("d", 11, tokens=60)) <= 42, "when b is, too"
    assert 50 < wait_of(await window.enter("d", 60, tokens=60)) <= 52, "when all are"


async def test_what_a_request_did_not_need_is_given_back_once(window: WindowFixture) -> None:
    for name in "ab":
        assert await window.enter(name, 30, tokens=60) is None
    for _ in range(2):
        await window.leave("a", tokens=5)

    assert (await window.used())["tokens"] == 35
    assert await window.enter("c", 25, tokens=60) is None


async def test_what_an_answer_used_counts_from_when_its_request_began(window: WindowFixture) -> None:
    assert await window.enter("a", 30, tokens=60) is None
    await window.pass_by(50)
    await window.leave("a", tokens=50)

    assert 10 < wait_of(await window.enter("b", 20, tokens=60)) <= 12
    await window.pass_by(12)
    await window.leave("a", tokens=50)
    assert await window.enter("b", 60, tokens=60) is None


async def test_a_request_that_asks_again_because_an_answer_was_lost_is_counted_once(
    window: WindowFixture,
) -> None:
    for _ in range(2):
        assert await window.enter("r", requests=1) is None

    assert await window.used() == {"requests": 1, "tokens": 10, "usd": 0}


async def test_what_others_set_aside_is_looked_at_again_soon(window: WindowFixture) -> None:
    assert await window.enter("a", 50, tokens=60) is None
    assert wait_of(await window.enter("b", 30, tokens=60)) <= 1

    await window.leave("a", tokens=50)
    assert wait_of(await window.enter("b", 30, tokens=60)) > 1, "now it is used, and stays for a minute"


async def test_those_who_were_refused_before_come_first(window: WindowFixture) -> None:
    for name in "ab":
        assert await window.enter(name, requests=2) is None
    refused = await asyncio.gather(*(window.enter(f"r{number}", requests=2) for number in range(9)))
    lines = [one[-1] for one in refused if one is not None]

    assert lines[0] == 0
    assert max(lines) >= MINUTE, "unless seconds pass meanwhile, the ninth comes four windows later"
    assert all(line % 62 < 1.5 for line in lines), "two come at once, as soon as both find room"


async def test_what_never_fits_is_not_waited_for(window: WindowFixture) -> None:
    over = await window.enter("r", 61, tokens=60, requests=1)
    assert over == (SCOPE, MINUTE, "tokens", 60, 0, None, 0)
    unknown = await window.enter("r", 1, -1.0, usd=5)
    assert unknown == (SCOPE, MINUTE, "usd", 5, 0, None, 0), "no limit in money covers what has no price"
    assert await window.enter("r", 1, -1.0, tokens=60) is None
    assert (await window.used())["usd"] == 0


async def test_a_request_enters_all_its_windows_or_none(window: WindowFixture) -> None:
    other: Ceiling = ("key:ada", 3_600.0, "requests", 1)
    mine: Ceiling = (SCOPE, MINUTE, "requests", 5)
    needed = {"requests": 1.0, "tokens": 1.0, "usd": 0.0}
    assert await window.store.enter("a", needed, [mine, other]) is None
    assert await window.store.enter("b", needed, [mine, other]) is not None

    assert (await window.used())["requests"] == 1
    await window.store.leave("a", dict.fromkeys(needed, 0.0), [(SCOPE, MINUTE), ("key:ada", 3_600.0)])
    assert await window.store.enter("b", needed, [mine, other]) is None


async def test_the_stricter_of_two_limits_with_one_name_counts_for_those_who_have_it(
    window: WindowFixture,
) -> None:
    for name in "abc":
        assert await window.enter(name, requests=3) is None

    assert await window.enter("d", requests=2) is not None
    assert await window.enter("d", requests=4) is None


async def test_what_a_dead_process_set_aside_stays_until_the_window_has_moved_on(
    window: WindowFixture,
) -> None:
    assert await window.enter("ab@1/1", 60, tokens=60) is None
    assert await window.enter("ab@2/2", 60, tokens=60) is not None, "its model may have had the request"

    await window.pass_by(62)
    assert await window.enter("ab@2/2", 60, tokens=60) is None
    assert list(await window.store.table(ENTERED)) == ["ab@2/2"]


async def test_a_window_goes_by_itself_and_stays_small(window: WindowFixture) -> None:
    for number in range(70):
        assert await window.enter(f"r{number}", requests=100) is None
        await window.leave(f"r{number}")
        await window.pass_by(1)

    table = await window.store.table(TABLE)
    assert sum(name.isdigit() for name in table) <= 63
    assert await window.enter("last", requests=100) is None
    for kept in (TABLE, ENTERED):
        key = window.driver.transport.keys.of(f"store:{kept}")
        assert 0 < await window.driver.transport.admin.command("PTTL", key) <= 63_000


async def test_what_is_used_of_each_limit_is_listed_with_when_there_is_room(window: WindowFixture) -> None:
    assert await window_limits(window.driver.transport) == []
    assert await window.enter("a", 10, requests=3, tokens=11) is None
    await window.leave("a", tokens=10)
    other: Ceiling = ("customer:ada", 86_400.0, "usd", 2.0)
    assert await window.store.enter("b", {"requests": 1, "tokens": 1, "usd": 2.0}, [other]) is None
    await window.store.leave("b", {"requests": 1, "tokens": 1, "usd": 2.0}, [other[:2]])

    full, tokens, requests = await window_limits(window.driver.transport)
    assert (full.scope, full.seconds, full.unit, full.limit, full.used) == (
        "customer:ada",
        86_400,
        "usd",
        2,
        2,
    )
    assert 86_400 < full.room_in < 90_000
    assert tokens == WindowLimit(SCOPE, MINUTE, "tokens", 11, 10, 0)
    assert requests == WindowLimit(SCOPE, MINUTE, "requests", 3, 1, 0)


async def test_what_somebody_wrote_into_a_window_by_hand_is_passed_over(window: WindowFixture) -> None:
    await window.store.put(TABLE, "junk", b"?", 60)
    await window.store.put(ENTERED, "junk", b"?", 60)
    await window.store.put(TABLE, "99999999999", b"? ? ? ? ? ? ? ? ?", 60)
    await window.store.put(TABLE, "9", b"1 1 1 1 1 1 1", 60)

    assert await window.enter("r", requests=1) is None
    assert await window.enter("s", requests=1) is not None
