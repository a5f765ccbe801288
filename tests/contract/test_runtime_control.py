"""Pause, resume and reset: from another process, before queued work, and for good until somebody says otherwise."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from callboard import AgentId, App, MessageContext, RedisAgentRuntime, RoutedAgent, TopicId, event
from tests.helpers.eventually import eventually, never
from tests.helpers.runtimes import Note, Runtimes, stored


class Board:
    """What the agents of a test did; handlers of `gate` wait."""

    def __init__(self) -> None:
        self.handled: list[str] = []
        self.go_on = asyncio.Event()


def app_of(board: Board, **options: int) -> App:
    app = App("control")

    @app.agent("worker", topics=["work", "play"])
    class Worker(RoutedAgent):
        class State(BaseModel):
            seen: int = 0

        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            self.state.seen += 1
            board.handled.append(f"{self.id.key}:{message.text}:{self.state.seen}")
            if message.text == "gate":
                await board.go_on.wait()

    return app


async def _start(runtimes: Runtimes, board: Board) -> tuple[RedisAgentRuntime, RedisAgentRuntime]:
    """A worker, and a runtime that only gives orders."""
    worker = runtimes.of(app_of(board), types=["worker"])
    worker.start()
    await worker.ready()
    other = runtimes.of(app_of(board), types=())
    await other.open()
    return worker, other


def _makes_way(runtime: RedisAgentRuntime) -> bool:
    """Whether the worker has heard that what it holds and has not begun is to go back."""
    assert runtime.work.worker is not None
    return all(mailbox.closing for mailbox in runtime.work.worker.consumer._boxes)


async def _publish(runtime: RedisAgentRuntime, topic: str, key: str, *texts: object) -> None:
    for text in texts:
        await runtime.publish_message(Note(text=str(text)), TopicId(topic, key))


async def test_a_paused_type_starts_nothing_until_it_is_resumed(runtimes: Runtimes) -> None:
    board = Board()
    worker, other = await _start(runtimes, board)
    assert await other.control.pause("worker", by="ada")
    assert not await other.control.pause("worker")
    await _publish(other, "work", "a", 1, 2, 3)
    await never(lambda: board.handled)
    [pause] = await other.control.paused()
    assert (pause.kind, pause.name, pause.by) == ("type", "worker", "ada")
    assert await other.control.resume("worker")
    assert not await other.control.resume("worker")
    await worker.stop_when_idle()
    assert board.handled == ["a:1:1", "a:2:2", "a:3:3"]


async def test_what_a_worker_holds_and_has_not_begun_goes_back(runtimes: Runtimes) -> None:
    board = Board()
    worker, other = await _start(runtimes, board)
    await _publish(other, "work", "a", "gate", 1, 2)
    await _publish(other, "work", "b", "gate", 1, 2)
    await eventually(lambda: len(board.handled) == 2 and worker.unprocessed_messages_count == 6)
    await other.control.pause("worker")
    await eventually(lambda: _makes_way(worker))
    board.go_on.set()
    await eventually(lambda: worker.unprocessed_messages_count == 0)
    await never(lambda: len(board.handled) > 2)
    await other.control.resume("worker")
    await worker.stop_when_idle()
    assert sorted(board.handled) == ["a:1:2", "a:2:3", "a:gate:1", "b:1:2", "b:2:3", "b:gate:1"]


async def test_a_pause_outlasts_its_worker(runtimes: Runtimes) -> None:
    board = Board()
    worker, other = await _start(runtimes, board)
    await other.control.pause("worker")
    await worker.close()
    await _publish(other, "work", "a", 1)
    again = runtimes.of(app_of(board), types=["worker"])
    again.start()
    await again.ready()
    await never(lambda: board.handled)
    await other.control.resume("worker")
    await again.stop_when_idle()
    assert board.handled == ["a:1:1"]


async def test_one_agent_is_paused_and_the_others_go_on(runtimes: Runtimes) -> None:
    board = Board()
    worker, other = await _start(runtimes, board)
    await other.control.pause(AgentId("worker", "a"))
    await _publish(other, "work", "a", 1, 2)
    await _publish(other, "work", "b", 1, 2)
    await _publish(other, "play", "a", 3)
    await eventually(lambda: board.handled == ["b:1:1", "b:2:2"])
    await never(lambda: len(board.handled) > 2)
    await other.control.resume(AgentId("worker", "a"))
    await worker.stop_when_idle()
    assert board.handled[2:] == ["a:1:1", "a:2:2", "a:3:3"]
    assert await stored(other, "shelved:", "parked:", "busy:") == []


async def test_a_topic_is_paused_and_the_others_go_on(runtimes: Runtimes) -> None:
    board = Board()
    worker, other = await _start(runtimes, board)
    await _publish(other, "work", "b", "gate", "parked")
    await eventually(lambda: board.handled and worker.unprocessed_messages_count == 2)
    await other.control.pause_topic("work")
    await eventually(lambda: _makes_way(worker))
    await _publish(other, "work", "a", 1)
    await _publish(other, "play", "c", 2)
    await eventually(lambda: "c:2:1" in board.handled)
    board.go_on.set()
    await never(lambda: len(board.handled) > 2)
    await other.control.resume_topic("work")
    await worker.stop_when_idle()
    assert sorted(board.handled) == ["a:1:1", "b:gate:1", "b:parked:2", "c:2:1"]


async def test_two_pauses_of_one_agent_both_have_to_end(runtimes: Runtimes) -> None:
    board = Board()
    worker, other = await _start(runtimes, board)
    await other.control.pause("worker")
    await other.control.pause(AgentId("worker", "a"))
    await _publish(other, "work", "a", 1)
    await other.control.resume("worker")
    await never(lambda: board.handled)
    await other.control.resume(AgentId("worker", "a"))
    await worker.stop_when_idle()
    assert board.handled == ["a:1:1"]


async def test_a_reset_goes_before_everything_that_is_queued(runtimes: Runtimes) -> None:
    board = Board()
    worker, other = await _start(runtimes, board)
    await _publish(other, "work", "a", "gate", *range(40))
    await eventually(lambda: board.handled and worker.unprocessed_messages_count > 1)
    assert await other.control.reset(AgentId("worker", "a"))
    assert not await other.control.reset(AgentId("worker", "a"))
    await eventually(lambda: _makes_way(worker))
    board.go_on.set()
    await worker.stop_when_idle()
    assert board.handled == ["a:gate:1", *(f"a:{number}:{number + 1}" for number in range(40))]
    assert await stored(other, "urgent", "parked:", "busy:") == []


async def test_an_idle_agent_is_reset(runtimes: Runtimes) -> None:
    board = Board()
    worker, other = await _start(runtimes, board)
    await _publish(other, "work", "a", 1, 2)
    await eventually(lambda: len(board.handled) == 2)
    assert await other.control.reset(AgentId("worker", "a"))
    assert not await other.control.reset(AgentId("nobody", "a"))

    async def is_done() -> bool:
        return await stored(other, "urgent") == []

    await eventually(is_done)
    await _publish(other, "work", "a", 3)
    await worker.stop_when_idle()
    assert board.handled == ["a:1:1", "a:2:2", "a:3:1"]
