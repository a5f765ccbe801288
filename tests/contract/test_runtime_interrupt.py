"""Interrupting what runs: a pause at once, and messages to one agent that are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import AgentId, App, MessageContext, RedisAgentRuntime, RoutedAgent, TopicId, event
from callboard.errors import SettingValueError
from tests.helpers.eventually import eventually, never
from tests.helpers.runtimes import Note, Runtimes, letters, stored

AGENT = AgentId("worker", "a")


class Board:
    """What the agents of a test did. Handlers of `gate` wait; those of `stubborn` pass over what interrupts them."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.steps: list[str] = []
        self.ended: list[str] = []
        self.waiting: list[str] = []
        self.interrupted: list[str] = []
        self.go_on = asyncio.Event()

    async def step(self, name: str) -> str:
        self.steps.append(name)
        return name


def app_of(board: Board) -> App:
    app = App("interrupt")

    @app.agent("worker", topics=["work"])
    class Worker(RoutedAgent):
        class State(BaseModel):
            seen: int = 0

        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            self.state.seen += 1
            board.begun.append(f"{message.text} {ctx.attempt}")
            await ctx.once("step", lambda: board.step(message.text))
            await self.publish_message(Note(text="sent"), TopicId("effects", "a"), strict=False)
            if message.text != "free":
                await self.wait(message.text)
            board.ended.append(f"{message.text} {self.state.seen}")

        async def wait(self, text: str) -> None:
            board.waiting.append(text)
            try:
                await board.go_on.wait()
            except asyncio.CancelledError:
                board.interrupted.append(text)
                if text != "stubborn":
                    raise

    return app


@pytest.fixture
async def board() -> AsyncIterator[Board]:
    made = Board()
    yield made
    made.go_on.set()


async def _start(runtimes: Runtimes, board: Board) -> tuple[RedisAgentRuntime, RedisAgentRuntime]:
    """A worker, and a runtime that only gives orders."""
    worker = runtimes.of(app_of(board), types=["worker"])
    worker.start()
    await worker.ready()
    other = runtimes.of(app_of(board), types=())
    await other.open()
    return worker, other


async def _tell(runtime: RedisAgentRuntime, *texts: str, **options: Any) -> None:
    for text in texts:
        await runtime.tell(Note(text=text), AGENT, **options)


# Pausing at once


async def test_what_runs_is_interrupted_and_runs_again(runtimes: Runtimes, board: Board) -> None:
    worker, other = await _start(runtimes, board)
    await _tell(other, "gate", "free")
    await eventually(lambda: board.waiting)
    assert await other.control.pause(AGENT, now=True)
    await eventually(lambda: board.interrupted)
    await never(lambda: len(board.begun) > 1)
    board.go_on.set()
    await other.control.resume(AGENT)
    await worker.stop_when_idle()
    assert board.begun == ["gate 1", "gate 1", "free 1"]
    assert board.steps == ["gate", "free"]
    assert board.ended == ["gate 1", "free 2"]
    assert (
        len(
            await worker.transport.admin.command(
                "XRANGE", worker.transport.keys.of("topic:effects"), "-", "+"
            )
        )
        == 2
    )


async def test_a_type_is_interrupted(runtimes: Runtimes, board: Board) -> None:
    worker, other = await _start(runtimes, board)
    for key in "abc":
        await other.publish_message(Note(text="gate"), TopicId("work", key))
    await eventually(lambda: len(board.waiting) == 3)
    assert await other.control.pause("worker", now=True)
    await eventually(lambda: len(board.interrupted) == 3)
    board.go_on.set()
    await other.control.resume("worker")
    await worker.stop_when_idle()
    assert board.ended == ["gate 1"] * 3


async def test_others_go_on(runtimes: Runtimes, board: Board) -> None:
    worker, other = await _start(runtimes, board)
    for key in "ab":
        await other.publish_message(Note(text="gate"), TopicId("work", key))
    await eventually(lambda: len(board.waiting) == 2)
    await other.control.pause(AgentId("worker", "b"), now=True)
    await eventually(lambda: board.interrupted)
    board.go_on.set()
    await eventually(lambda: board.ended)
    assert (len(board.interrupted), len(board.ended)) == (1, 1)
    await other.control.resume(AgentId("worker", "b"))
    await worker.stop_when_idle()
    assert len(board.ended) == 2


async def test_what_is_paused_already_is_interrupted(runtimes: Runtimes, board: Board) -> None:
    worker, other = await _start(runtimes, board)
    await _tell(other, "gate")
    await eventually(lambda: board.waiting)
    assert await other.control.pause(AGENT)
    assert not await other.control.pause(AGENT, now=True)
    await eventually(lambda: board.interrupted)
    board.go_on.set()
    await other.control.resume(AGENT)
    await worker.stop_when_idle()
    assert board.ended == ["gate 1"]


async def test_another_worker_may_go_on_with_it(runtimes: Runtimes, board: Board) -> None:
    worker, other = await _start(runtimes, board)
    await _tell(other, "gate")
    await eventually(lambda: board.waiting)
    await other.control.pause(AGENT, now=True)
    await eventually(lambda: board.interrupted)
    await worker.stop()
    board.go_on.set()
    await other.control.resume(AGENT)
    second = runtimes.of(app_of(board), types=["worker"])
    second.start()
    await second.stop_when_idle()
    assert (board.begun, board.steps, board.ended) == (["gate 1", "gate 1"], ["gate"], ["gate 1"])


async def test_a_handler_that_goes_on_all_the_same(runtimes: Runtimes, board: Board) -> None:
    """Its commit counts, and the handlers after it, in the same worker, are not taken for interrupted."""
    worker, other = await _start(runtimes, board)
    await _tell(other, "stubborn")
    await eventually(lambda: board.waiting)
    assert worker.work.worker is not None
    (box,) = worker.work.worker.consumer._boxes
    await other.control.pause(AGENT, now=True)
    await eventually(lambda: board.ended)
    assert not box.ended
    await other.control.resume(AGENT)
    board.go_on.set()
    await _tell(other, "gate")
    await worker.stop_when_idle()
    assert board.ended == ["stubborn 1", "gate 2"]


# Cancelling what one agent was told


async def test_a_tell_that_was_not_begun_is_dropped(runtimes: Runtimes, board: Board) -> None:
    worker, other = await _start(runtimes, board)
    await _tell(other, "gate")
    await _tell(other, "free", message_id="m1", cancellable=True)
    await _tell(other, "free", message_id="m2", cancellable=True)
    await eventually(lambda: board.waiting)
    await other.control.cancel("m1")
    board.go_on.set()
    await worker.stop_when_idle()
    assert board.ended == ["gate 1", "free 2"]
    assert await letters(worker, "worker") == []


async def test_a_tell_that_is_cancelled_before_any_worker_comes(runtimes: Runtimes, board: Board) -> None:
    other = runtimes.of(app_of(board), types=())
    await other.open()
    await _tell(other, "free", message_id="m1", cancellable=True)
    await other.control.cancel("m1")
    worker = runtimes.of(app_of(board), types=["worker"])
    worker.start()
    await worker.stop_when_idle()
    assert board.begun == []


async def test_a_tell_whose_handler_runs_ends_without_effects(runtimes: Runtimes, board: Board) -> None:
    worker, other = await _start(runtimes, board)
    await _tell(other, "gate", message_id="m1", cancellable=True)
    await _tell(other, "free")
    await eventually(lambda: board.waiting)
    await other.control.cancel("m1")
    await eventually(lambda: board.interrupted)
    await worker.stop_when_idle()
    assert (board.begun, board.ended) == (["gate 1", "free 1"], ["free 1"])
    assert await stored(worker, "once:") == []
    assert await letters(worker, "worker") == []
    assert (
        len(
            await worker.transport.admin.command(
                "XRANGE", worker.transport.keys.of("topic:effects"), "-", "+"
            )
        )
        == 1
    )


async def test_one_that_goes_on_all_the_same_writes_nothing(runtimes: Runtimes, board: Board) -> None:
    worker, other = await _start(runtimes, board)
    await _tell(other, "stubborn", message_id="m1", cancellable=True)
    await eventually(lambda: board.waiting)
    await other.control.cancel("m1")
    await eventually(lambda: board.ended)
    await _tell(other, "free")
    await worker.stop_when_idle()
    assert board.ended == ["stubborn 1", "free 1"]


async def test_a_tell_that_can_not_be_cancelled_is_not(runtimes: Runtimes, board: Board) -> None:
    worker, other = await _start(runtimes, board)
    await other.control.cancel("m1")
    await _tell(other, "free", message_id="m1")
    await worker.stop_when_idle()
    assert board.ended == ["free 1"]


async def test_what_may_be_cancelled_has_a_name(runtimes: Runtimes, board: Board) -> None:
    _, other = await _start(runtimes, board)
    with pytest.raises(SettingValueError, match="message_id"):
        await _tell(other, "free", cancellable=True)
