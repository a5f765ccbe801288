from __future__ import annotations

import asyncio

import pytest

from callboard.broker.envelope import Envelope
from callboard.broker.errors import UndeliverableError
from callboard.broker.redis.client.requests import RequestArrival


async def test_who_waits_for_a_reply_hears_that_the_request_did_not_arrive() -> None:
    waiting: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
    arrival = RequestArrival.of(waiting, asyncio.get_running_loop())
    arrival.set_exception(UndeliverableError("nobody"))
    with pytest.raises(UndeliverableError):
        await waiting
    assert isinstance(arrival.exception(), UndeliverableError)


async def test_a_request_that_arrived_says_nothing_of_its_reply() -> None:
    waiting: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
    RequestArrival.of(waiting, asyncio.get_running_loop()).set_result(True)
    assert not waiting.done()


async def test_one_that_waits_no_more_is_left_alone() -> None:
    waiting: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()
    waiting.cancel()
    arrival = RequestArrival.of(waiting, asyncio.get_running_loop())
    arrival.set_exception(UndeliverableError("nobody"))
    assert arrival.exception() is not None
