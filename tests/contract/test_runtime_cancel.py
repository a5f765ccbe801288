"""Cancellation from another process: what runs ends, what waits does not begin, and nothing of it is committed."""

from __future__ import annotations

import asyncio

import pytest
from pydantic import BaseModel

from callboard import (
    AgentId,
    App,
    CancellationToken,
    ClosureContext,
    MessageContext,
    RoutedAgent,
    TopicId,
    rpc,
)
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure, stored


class Board:
    """What the agents of a test did."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.cancelled: list[str] = []
        self.go_on = asyncio.Event()


def app_of(board: Board) -> App:
    app = App("cancel")

    @app.agent("writer", topics=["nothing"])
    class Writer(RoutedAgent):
        class State(BaseModel):
            written: list[str] = []

        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            if message.text == "read":
                return Answer(text=",".join(self.state.written))
            board.started.append(message.text)
            self.state.written.append(message.text)
            await self.publish_message(Note(text=message.text), TopicId("heard", "a"))
            if message.text == "wait":
                try:
                    await board.go_on.wait()
                except asyncio.CancelledError:
                    board.cancelled.append(message.text)
                    raise
            if message.text == "stubborn":
                try:
                    await board.go_on.wait()
                except asyncio.CancelledError:
                    board.cancelled.append(message.text)
            return Answer(text=message.text)

    return app


@pytest.mark.parametrize("text", ["wait", "stubborn"])
async def test_a_handler_in_another_process_is_cancelled_and_commits_nothing(
    runtimes: Runtimes, text: str
) -> None:
    board = Board()
    worker = runtimes.of(app_of(board), types=["writer"])
    worker.start()
    await worker.ready()
    caller = runtimes.of(app_of(board), types=())
    token = CancellationToken()
    call = asyncio.create_task(
        caller.send_message(Ask(text=text), AgentId("writer", "a"), cancellation_token=token)
    )
    await eventually(lambda: board.started == [text])
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await eventually(lambda: board.cancelled == [text])
    answer: Answer = await caller.send_message(Ask(text="read"), AgentId("writer", "a"))
    assert answer.text == ""
    assert await caller.transport.admin.command("XLEN", caller.transport.keys.of("topic:heard")) == 0
    assert worker.failed == 0


async def test_a_queued_request_of_another_process_does_not_begin(runtimes: Runtimes) -> None:
    board = Board()
    worker = runtimes.of(app_of(board), types=["writer"])
    worker.start()
    await worker.ready()
    caller = runtimes.of(app_of(board), types=())
    first = asyncio.create_task(caller.send_message(Ask(text="wait"), AgentId("writer", "a")))
    await eventually(lambda: board.started == ["wait"])
    token = CancellationToken()
    second = asyncio.create_task(
        caller.send_message(Ask(text="second"), AgentId("writer", "a"), cancellation_token=token)
    )
    await eventually(lambda: caller.transport.in_flight == 2)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    board.go_on.set()
    await first
    await worker.stop_when_idle()
    assert board.started == ["wait"]
    assert await stored(caller, "own:", "parked:", "busy:") == []


async def test_a_request_that_was_cancelled_before_any_worker_ran_does_not_begin(runtimes: Runtimes) -> None:
    board = Board()
    caller = runtimes.of(app_of(board), types=())
    await caller.open()
    token = CancellationToken()
    call = asyncio.create_task(
        caller.send_message(Ask(text="never"), AgentId("writer", "a"), cancellation_token=token)
    )
    stream = caller.transport.keys.of("inbox:writer")

    async def has_arrived() -> bool:
        return bool(await caller.transport.admin.command("XLEN", stream))

    await eventually(has_arrived)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    worker = runtimes.of(app_of(board), types=["writer"])
    worker.start()
    await worker.stop_when_idle()
    assert board.started == []


async def test_an_error_that_says_cancelled_cancels_nothing(runtimes: Runtimes) -> None:
    app, attempts = App("wording"), list[int]()

    @app.agent("writer", retry_on_request=True)
    class Writer(RoutedAgent):
        @rpc
        async def on_ask(self, message: Ask, ctx: MessageContext) -> Answer:
            attempts.append(ctx.attempt)
            if ctx.attempt == 1:
                raise ValueError("the job was cancelled")
            return Answer(text="done")

    runtime = runtimes.of(app)
    runtime.start()
    call = runtime.send_message(Ask(), AgentId("writer", "a"), cancellation_token=CancellationToken())
    assert (await call, attempts) == (Answer(text="done"), [1, 2])


async def test_the_agent_goes_on_with_the_state_before_the_cancelled_request(runtimes: Runtimes) -> None:
    board = Board()
    worker = runtimes.of(app_of(board), types=["writer"])
    worker.start()
    await worker.ready()
    caller = runtimes.of(app_of(board), types=())
    writer = AgentId("writer", "a")
    for number in range(3):
        token = CancellationToken()
        await caller.send_message(Ask(text=f"kept{number}"), writer, cancellation_token=token)
        call = asyncio.create_task(caller.send_message(Ask(text="wait"), writer, cancellation_token=token))
        await eventually(lambda: board.started[-1] == "wait")
        token.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    answer: Answer = await caller.send_message(Ask(text="read"), writer)
    assert answer.text == "kept0,kept1,kept2"


async def test_a_commit_that_comes_after_the_cancellation_is_void(runtimes: Runtimes) -> None:
    """The handler ends at the same moment: the server decides."""
    board = Board()
    worker = runtimes.of(app_of(board), types=["writer"])
    worker.start()
    await worker.ready()
    caller = runtimes.of(app_of(board), types=())
    writer = AgentId("writer", "a")
    call = asyncio.create_task(
        caller.send_message(
            Ask(text="wait"), writer, cancellation_token=CancellationToken(), message_id="r1", timeout=0.2
        )
    )
    await eventually(lambda: board.started == ["wait"])
    # Not through the stream of orders, as if the worker heard of it late.
    admin, keys = caller.transport.admin, caller.transport.keys
    await admin.command("ZADD", keys.of("cancelled"), caller.transport.now_ms() + 60_000, "r1")
    board.go_on.set()
    with pytest.raises(TimeoutError):
        await call
    answer: Answer = await caller.send_message(Ask(text="read"), writer)
    assert answer.text == ""
    assert await admin.command("XLEN", keys.of("topic:heard")) == 0


async def test_cancelling_goes_along_a_chain_of_processes(runtimes: Runtimes) -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def outer(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        answer: Answer = await agent.send_message(
            message, AgentId("inner", "a"), cancellation_token=ctx.cancellation_token
        )
        return answer

    async def inner(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return Answer()

    first, second = await runtimes.started(), await runtimes.started()
    await closure(first, "outer", outer)
    await closure(second, "inner", inner)
    caller = runtimes.new()
    token = CancellationToken()
    call = asyncio.create_task(caller.send_message(Ask(), AgentId("outer", "a"), cancellation_token=token))
    await started.wait()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await asyncio.wait_for(ended.wait(), 5)
    await first.stop_when_idle()
    assert first.failed == second.failed == 0
