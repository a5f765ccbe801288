import asyncio
import gc
import threading
import weakref

import pytest

from callboard import CancellationToken


def test_a_new_token_is_open() -> None:
    token = CancellationToken()
    assert not token.is_cancelled()
    assert "open" in repr(token)


def test_cancel_runs_the_callbacks_once_and_in_order() -> None:
    token, calls = CancellationToken(), list[int]()
    token.add_callback(lambda: calls.append(1))
    token.add_callback(lambda: calls.append(2))
    token.cancel()
    token.cancel()
    assert calls == [1, 2]
    assert token.is_cancelled()
    assert "cancelled" in repr(token)


def test_the_same_callback_added_twice_runs_twice() -> None:
    token, calls = CancellationToken(), list[int]()

    def callback() -> None:
        calls.append(1)

    token.add_callback(callback)
    token.add_callback(callback)
    token.cancel()
    assert calls == [1, 1]


def test_a_callback_added_after_cancel_runs_at_once() -> None:
    token, calls = CancellationToken(), list[int]()
    token.cancel()
    token.add_callback(lambda: calls.append(1))
    assert calls == [1]


def test_a_callback_may_use_its_own_token() -> None:
    token, seen = CancellationToken(), list[bool]()

    def callback() -> None:
        seen.append(token.is_cancelled())
        token.cancel()
        token.add_callback(lambda: seen.append(token.is_cancelled()))

    token.add_callback(callback)
    token.cancel()
    assert seen == [True, True]


def test_a_failing_callback_does_not_keep_the_others_from_running() -> None:
    token, calls = CancellationToken(), list[int]()

    def fail() -> None:
        raise LookupError("no")

    token.add_callback(fail)
    token.add_callback(lambda: calls.append(1))
    with pytest.raises(LookupError):
        token.cancel()
    assert calls == [1]


def test_several_failing_callbacks_are_all_reported() -> None:
    token = CancellationToken()

    def fail() -> None:
        raise LookupError("no")

    token.add_callback(fail)
    token.add_callback(fail)
    with pytest.raises(ExceptionGroup) as raised:
        token.cancel()
    assert len(raised.value.exceptions) == 2


async def test_a_linked_future_is_cancelled() -> None:
    token = CancellationToken()
    future = asyncio.get_running_loop().create_future()
    assert token.link_future(future) is future
    token.cancel()
    assert future.cancelled()


async def test_a_future_linked_to_a_cancelled_token_is_cancelled_at_once() -> None:
    token = CancellationToken()
    token.cancel()
    future = token.link_future(asyncio.get_running_loop().create_future())
    assert future.cancelled()


async def test_a_link_ends_with_its_future() -> None:
    token = CancellationToken()
    linked = []

    async def link(number: int) -> None:
        future = asyncio.get_running_loop().create_future()
        linked.append(weakref.ref(future))
        token.link_future(future).set_result(number)
        await future

    for number in range(3):
        await link(number)
    await asyncio.sleep(0)
    gc.collect()
    assert [one() for one in linked] == [None, None, None]
    token.cancel()


async def test_a_task_is_cancelled_from_another_thread() -> None:
    token, started = CancellationToken(), asyncio.Event()

    async def work() -> None:
        started.set()
        await asyncio.Event().wait()

    task = token.link_future(asyncio.create_task(work()))
    await started.wait()
    thread = threading.Thread(target=token.cancel)
    thread.start()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    thread.join()


def test_a_future_of_a_loop_at_rest_is_cancelled_directly() -> None:
    loop = asyncio.new_event_loop()
    token = CancellationToken()
    future = token.link_future(loop.create_future())
    token.cancel()
    assert future.cancelled()
    loop.close()


def test_only_one_of_many_threads_cancels() -> None:
    token, calls = CancellationToken(), list[int]()
    token.add_callback(lambda: calls.append(1))
    threads = [threading.Thread(target=token.cancel) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]
