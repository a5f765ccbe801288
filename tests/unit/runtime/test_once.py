"""Recorded effects, with a transport that remembers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import pytest
from pydantic import BaseModel

from callboard.broker import BrokerSettings, MessageRegistry
from callboard.broker.errors import DecodeError, EncodeError, PayloadTooLargeError
from callboard.broker.redis.client.transport import RedisTransport
from callboard.errors import DeclarationError
from callboard.runtime.effects import EffectRecorder
from tests.helpers.fake_transport import FakeTransport
from tests.helpers.runtimes import Answer, Note


class Effect:
    """Something outside: counts how often it was made."""

    def __init__(self) -> None:
        self.made = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.began = asyncio.Event()

    async def __call__(self) -> int:
        self.made += 1
        self.began.set()
        await self.go_on.wait()
        return self.made


@pytest.fixture
def transport() -> FakeTransport:
    return FakeTransport()


def _recorder(transport: FakeTransport, registry: MessageRegistry | None = None) -> EffectRecorder:
    """As in another attempt, maybe in another process."""
    return EffectRecorder(cast("RedisTransport", transport), registry or MessageRegistry(), "worker", "m1")


async def test_the_result_is_recorded_and_found_in_the_next_attempt(transport: FakeTransport) -> None:
    effect, other = Effect(), Effect()
    first = _recorder(transport)
    assert not first.used
    assert await first("pay", effect) == 1
    assert await first("pay", effect) == 1
    assert await first("other", other) == 1
    assert first.used
    second = _recorder(transport)
    assert await second("pay", effect) == 1
    assert (effect.made, other.made, transport.reads) == (1, 1, [("worker", "m1")] * 4)


async def test_of_two_workers_that_made_an_effect_both_use_the_result_that_was_first(
    transport: FakeTransport,
) -> None:
    """One of them was paused past its lease in the middle of it."""
    zombie, successor = _recorder(transport), _recorder(transport)
    late = Effect()
    late.go_on.clear()
    waiting = asyncio.ensure_future(zombie("pay", late))
    await late.began.wait()
    effect = Effect()
    effect.made = 6
    assert await successor("pay", effect) == 7
    late.go_on.set()
    assert await waiting == 7


async def test_a_result_may_be_larger_than_a_message(transport: FakeTransport) -> None:
    async def large() -> str:
        return "x" * (transport.settings.max_payload + 1)

    assert await _recorder(transport)("read", large) == await _recorder(transport)("read", large)


async def test_a_result_that_no_attempt_could_read_is_refused(transport: FakeTransport) -> None:
    async def large() -> str:
        return "x" * 2_000

    transport.settings = BrokerSettings(max_payload=1_000, max_claim=1_500)
    with pytest.raises(PayloadTooLargeError, match="max_claim"):
        await _recorder(transport)("read", large)


async def test_calls_at_once_share_one_effect(transport: FakeTransport) -> None:
    effect = Effect()
    effect.go_on.clear()
    recorder = _recorder(transport)
    calls = [asyncio.create_task(recorder("pay", effect)) for _ in range(3)]
    await effect.began.wait()
    effect.go_on.set()
    assert await asyncio.gather(*calls) == [1, 1, 1]


async def test_one_that_is_cancelled_does_not_take_the_others_along(transport: FakeTransport) -> None:
    effect = Effect()
    effect.go_on.clear()
    recorder = _recorder(transport)
    calls = [asyncio.create_task(recorder("pay", effect)) for _ in range(2)]
    await effect.began.wait()
    calls[0].cancel()
    await asyncio.wait({calls[0]})
    effect.go_on.set()
    assert await calls[1] == 1
    assert calls[0].cancelled()


async def test_an_effect_that_nobody_waits_for_any_more_is_cancelled(transport: FakeTransport) -> None:
    effect = Effect()
    effect.go_on.clear()
    recorder = _recorder(transport)
    before = asyncio.all_tasks()
    call = asyncio.create_task(recorder("pay", effect))
    await effect.began.wait()
    call.cancel()
    await asyncio.wait({call})
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before
    assert transport.records == {}


async def test_a_function_that_is_not_async_is_refused(transport: FakeTransport) -> None:
    def pay() -> Any:
        return 250

    with pytest.raises(
        DeclarationError, match="'pay' has run and can't be recorded: its function has to be async"
    ):
        await _recorder(transport)("pay", pay)
    assert transport.records == {}


async def test_a_failure_is_not_recorded(transport: FakeTransport) -> None:
    async def fail() -> int:
        raise LookupError("no")

    recorder = _recorder(transport)
    with pytest.raises(LookupError):
        await recorder("pay", fail)
    assert transport.records == {}
    assert await recorder("pay", Effect()) == 1


async def test_a_result_that_could_not_be_recorded_is_not_used(transport: FakeTransport) -> None:
    transport.is_down = True
    recorder = _recorder(transport)
    with pytest.raises(ConnectionError):
        await recorder("pay", Effect())


async def test_a_result_that_can_not_be_recorded(transport: FakeTransport) -> None:
    async def give() -> object:
        return object()

    with pytest.raises(EncodeError):
        await _recorder(transport)("pay", give)


class Money(BaseModel):
    """A result."""

    amount: int


@dataclass
class Coin:
    """Another result."""

    value: int


async def _money() -> Money:
    return Money(amount=3)


async def _either(is_coin: bool, *, value: int) -> Money | Coin | None:
    return Coin(value) if is_coin else Money(amount=value)


async def _untold():  # type: ignore[no-untyped-def]
    return Money(amount=4)


async def test_a_process_that_never_saw_the_class_learns_it_from_the_function(
    transport: FakeTransport,
) -> None:
    await _recorder(transport)("one", _money)
    await _recorder(transport)("two", partial(_either, True, value=5))
    fresh = _recorder(transport)
    assert await fresh("one", _money) == Money(amount=3)
    assert await fresh("two", partial(_either, True, value=5)) == Coin(5)


async def test_a_function_without_annotations_needs_a_registered_class(transport: FakeTransport) -> None:
    await _recorder(transport)("one", _untold)
    with pytest.raises(DecodeError, match="Money"):
        await _recorder(transport)("one", _untold)
    registry = MessageRegistry()
    registry.register(Money, Note, Answer)
    assert await _recorder(transport, registry)("one", _untold) == Money(amount=4)


async def test_a_step_with_another_name_runs_again_and_its_old_record_is_left_alone(
    transport: FakeTransport,
) -> None:
    effect = Effect()
    assert await _recorder(transport)("pay", effect) == 1
    after_a_deploy = _recorder(transport)
    assert await after_a_deploy("pay the till", effect) == 2
    assert set(transport.records) == {"pay", "pay the till"}
    assert await _recorder(transport)("pay", effect) == 1


async def test_a_record_that_is_gone_means_another_effect(transport: FakeTransport) -> None:
    effect = Effect()
    assert await _recorder(transport)("pay", effect) == 1
    transport.records.clear()  # the window has passed
    assert await _recorder(transport)("pay", effect) == 2


async def test_neither_the_function_nor_its_arguments_are_compared(transport: FakeTransport) -> None:
    assert await _recorder(transport)("pay", Effect()) == 1
    assert await _recorder(transport)("pay", _money) == 1


class Shrunk(BaseModel):
    """What Money is in newer code: it has lost a field and needs another."""

    cents: int


async def test_a_record_that_can_not_be_read_any_more_is_an_error_and_no_second_effect(
    transport: FakeTransport,
) -> None:
    made: list[int] = []

    async def pay() -> Shrunk:
        made.append(1)
        return Shrunk(cents=3)

    await _recorder(transport)("pay", _money)
    registry = MessageRegistry()
    registry.register(Shrunk, name="Money")
    with pytest.raises(DecodeError):
        await _recorder(transport, registry)("pay", pay)
    assert made == []


async def test_different_steps_at_once_run_at_once_and_read_the_record_at_most_once_each(
    transport: FakeTransport,
) -> None:
    effects = [Effect() for _ in range(5)]
    for effect in effects:
        effect.go_on.clear()
    recorder = _recorder(transport)
    calls = [asyncio.create_task(recorder(f"step {i}", effect)) for i, effect in enumerate(effects)]
    for effect in effects:
        await effect.began.wait()  # would wait for ever if one step waited for another
    for effect in reversed(effects):
        effect.go_on.set()
    assert await asyncio.gather(*calls) == [1] * 5
    assert set(transport.records) == {f"step {i}" for i in range(5)}
    assert len(transport.reads) <= 5
    again = _recorder(transport)
    assert await asyncio.gather(*(again(f"step {i}", effect) for i, effect in enumerate(effects))) == [1] * 5
    assert [effect.made for effect in effects] == [1] * 5


async def test_a_failure_at_once_is_everybodys_and_the_next_call_tries_again(
    transport: FakeTransport,
) -> None:
    tries: list[int] = []
    go_on = asyncio.Event()

    async def fail_once() -> int:
        tries.append(1)
        await go_on.wait()
        if len(tries) == 1:
            raise LookupError("no")
        return len(tries)

    recorder = _recorder(transport)
    calls = [asyncio.create_task(recorder("pay", fail_once)) for _ in range(3)]
    await asyncio.sleep(0)
    go_on.set()
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(result) for result in results] == [LookupError] * 3
    assert await recorder("pay", fail_once) == 2
