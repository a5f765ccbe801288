from __future__ import annotations

import asyncio

import pytest

from callboard.broker.errors import ServerUnavailableError
from callboard.broker.redis.client import sentinels as primary_watch
from callboard.broker.redis.client.endpoint import Endpoint
from callboard.broker.redis.client.sentinels import PrimaryWatch, locate, watch_of
from callboard.broker.settings import BrokerSettings
from tests.helpers.eventually import eventually

WATCHED = Endpoint.parse("redis+sentinel://127.0.0.1:1/mymaster")
OLD, NEW = Endpoint("redis", "10.0.0.1"), Endpoint("redis", "10.0.0.2")


class Connection:
    """A follower that notes what it is told."""

    def __init__(self, connected_to: Endpoint | None) -> None:
        self.connected_to = connected_to
        self.reasons: list[str] = []

    def break_off(self, reason: str) -> None:
        self.connected_to = None
        self.reasons.append(reason)


async def test_a_server_that_no_sentinel_watches_is_where_its_url_says() -> None:
    assert await locate(OLD, 1.0) is OLD
    assert watch_of(OLD, BrokerSettings()) is None


async def test_what_is_connected_elsewhere_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    first: list[Endpoint | ServerUnavailableError] = [
        OLD,
        ServerUnavailableError("redis+sentinel://", "nobody knows"),
    ]
    answers = iter(first)
    looks = 0

    async def answer(endpoint: Endpoint, timeout: float, ask: object) -> Endpoint:
        nonlocal looks
        looks += 1
        found: Endpoint | ServerUnavailableError = next(answers, NEW)
        if isinstance(found, ServerUnavailableError):
            raise found
        return found

    monkeypatch.setattr(primary_watch, "LOOK_EVERY", 0.001)
    monkeypatch.setattr(primary_watch, "locate", answer)
    watch = PrimaryWatch(WATCHED, 1.0)
    behind, right, none = Connection(OLD), Connection(NEW), Connection(None)
    watch.follow(behind)
    await eventually(lambda: looks >= 3)
    await eventually(lambda: behind.reasons == [f"sentinels name {NEW.shown} as the primary"])
    for follower in (right, none):
        watch.follow(follower)
    seen = looks
    await eventually(lambda: looks > seen + 2)
    assert right.reasons == none.reasons == []
    await watch.end()
    await watch.end()
    assert [task for task in asyncio.all_tasks() if task.get_name() == "callboard-primary-watch"] == []


async def test_nothing_begins_it_again_once_it_is_closed() -> None:
    watch = PrimaryWatch(WATCHED, 1.0)
    watch.close()
    watch.follow(Connection(OLD))
    assert [task for task in asyncio.all_tasks() if task.get_name() == "callboard-primary-watch"] == []
