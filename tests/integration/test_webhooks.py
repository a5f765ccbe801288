"""Webhooks that leave, to receivers at real sockets: down, failing, slow, redirecting, private; senders that are killed."""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from callboard import App
from callboard.broker import RetryPolicy
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import TeamClient
from callboard.testing import dead_letters
from callboard.web import door_id
from tests.helpers.eventually import eventually, never
from tests.helpers.hooked_desk import hooked
from tests.helpers.processes import ROOT, Process, python
from tests.helpers.receivers import Receiver, drips, hangs, says
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE

RUNS, EACH = 20, 4


@asynccontextmanager
async def working(app: App, server: ServerProcess) -> AsyncIterator[RedisAgentRuntime]:
    async with app.running(server.url, namespace=f"hooks-{os.urandom(4).hex()}") as runtime:
        yield runtime


async def began(runtime: RedisAgentRuntime, run_id: str, team: str = "desk", conversation: str = "c") -> None:
    await TeamClient(runtime, team, conversation).start(task="Hello.", run_id=run_id, if_busy="enqueue")


async def test_a_receiver_that_was_down_is_told_when_it_is_there(
    shared_server: ServerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    receiver = Receiver()
    async with working(hooked(receiver.url), shared_server) as runtime:
        await began(runtime, "r1")
        await eventually(lambda: "(attempt 2)" in caplog.text, 20)
        async with receiver:
            await eventually(lambda: receiver.posts, 20)
            await runtime.stop_when_idle()
    (post,) = receiver.posts
    told = post.verified()
    assert told["type"] == "run.ended"
    assert told["timestamp"].startswith("20")
    assert told["data"] == {
        "id": door_id("desk", "c", "r1"),
        "service": "desk",
        "conversation": "c",
        "run_id": "r1",
        "state": "completed",
        "text": "You said: Hello.",
        "stop_reason": "Maximum number of turns 1 reached.",
        "error": None,
    }
    assert post.headers["content-type"] == "application/json"


async def test_one_that_fails_gets_the_same_again_and_a_redirect_is_not_followed(
    shared_server: ServerProcess,
) -> None:
    async with Receiver() as other:
        script = [
            says(500),
            says(302, f"location: {other.url}"),
            says(307, f"location: {other.url}"),
            says(404),
        ]
        async with Receiver(*script) as receiver, working(hooked(receiver.url), shared_server) as runtime:
            await began(runtime, "r1")
            await eventually(lambda: len(receiver.posts) == 5, 20)
            await runtime.stop_when_idle()
            assert len(receiver.posts) == 5
            assert await dead_letters(runtime) == []
    assert len({(post.id, post.body) for post in receiver.posts}) == 1
    assert all(post.verified()["data"]["run_id"] == "r1" for post in receiver.posts)
    assert other.posts == []


@pytest.mark.parametrize("slow", [hangs, drips])
async def test_one_that_is_slow_is_tried_again_and_holds_up_no_other_run(
    shared_server: ServerProcess, slow: object
) -> None:
    async with (
        Receiver(slow) as receiver,  # type: ignore[arg-type]
        working(hooked(receiver.url), shared_server) as runtime,
    ):
        await began(runtime, "r1")
        await eventually(lambda: receiver.posts, 20)
        await began(runtime, "r2")
        await eventually(lambda: len(receiver.posts) == 3, 20)
        await runtime.stop_when_idle()
    assert [one["data"]["run_id"] for one in receiver.told()] == ["r1", "r2", "r1"]


async def test_it_hears_of_a_question_and_then_of_the_end_each_once(shared_server: ServerProcess) -> None:
    async with Receiver(says(503)) as receiver, working(hooked(receiver.url), shared_server) as runtime:
        await began(runtime, "r1", "bank")
        await eventually(lambda: len(receiver.posts) == 2, 20)
        asked = receiver.posts[1].verified()
        assert (asked["type"], asked["data"]["state"]) == ("run.question", "input_required")
        await runtime.inputs.answer(asked["data"]["question"], "yes")
        await eventually(lambda: len(receiver.posts) == 3, 20)
        await runtime.stop_when_idle()
    first, second, end = receiver.posts
    assert first.id == second.id != end.id
    assert (end.verified()["type"], end.verified()["data"]["state"]) == ("run.ended", "completed")


async def test_it_hears_what_it_asked_for_and_of_its_own_tenant_only(shared_server: ServerProcess) -> None:
    async with Receiver() as receiver:
        app = hooked(receiver.url, tenant="acme", on=["run.ended"])
        async with working(app, shared_server) as runtime:
            for number, conversation in enumerate(["other:c", "acme:c", "c", "acmes:c"]):
                await began(runtime, f"r{number}", "desk", conversation)
            await began(runtime, "r9", "bank", "acme:d")
            await eventually(lambda: receiver.posts, 20)
            await runtime.stop_when_idle()
    (post,) = receiver.posts
    data = post.verified()["data"]
    assert (data["conversation"], data["id"]) == ("c", door_id("desk", "c", "r1"))


async def test_one_that_wants_no_more_is_a_dead_letter_and_so_is_what_nobody_takes(
    shared_server: ServerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    twice = RetryPolicy(max_attempts=2, base=0.01)
    async with (
        Receiver(says(410), says(500), says(400)) as receiver,
        working(hooked(receiver.url, retry=twice), shared_server) as runtime,
    ):
        await began(runtime, "r1")
        await eventually(lambda: receiver.posts, 20)
        await began(runtime, "r2")
        await eventually(lambda: len(receiver.posts) == 3, 20)
        await runtime.stop_when_idle()
        gone, failed = await dead_letters(runtime, "crm")
    assert (gone.reason, failed.reason) == ("permanent", "failed")
    assert "s3cr3t" not in f"{gone}{failed}{caplog.text}", "the address may hold a secret"
    assert "it answered 400" in caplog.text
    assert len(receiver.posts) == 3


async def test_it_waits_as_long_as_the_receiver_asks(shared_server: ServerProcess) -> None:
    async with (
        Receiver(says(429, "retry-after: 1")) as receiver,
        working(hooked(receiver.url), shared_server) as runtime,
    ):
        await began(runtime, "r1")
        await eventually(lambda: receiver.posts, 20)
        await never(lambda: len(receiver.posts) > 1, 0.7)
        await eventually(lambda: len(receiver.posts) == 2, 20)


@pytest.mark.parametrize("host", ["127.1", "2130706433", socket.gethostname()])
async def test_a_private_address_gets_nothing(shared_server: ServerProcess, host: str) -> None:
    """Names are looked up when a webhook is sent, and these three are no address by their look."""
    async with Receiver() as receiver:
        app = hooked(f"https://{host}:{receiver.port}/", allow_private=False)
        async with working(app, shared_server) as runtime:
            await began(runtime, "r1")

            async def is_buried() -> bool:
                return len(await dead_letters(runtime, "crm")) == 1

            await eventually(is_buried, 20)
            (letter,) = await dead_letters(runtime, "crm")
    assert letter.reason == "permanent"
    assert "private address" in str(letter.error)
    assert receiver.posts == []


class SendersFixture:
    """Workers of the app, that of the webhook in a process of its own."""

    def __init__(self, url: str, receiver: str) -> None:
        namespace = f"hooks-{os.urandom(4).hex()}"
        self._where = ["--url", url, "--namespace", namespace]
        self._environ = {**SHORT_LEASE, "PYTHONPATH": str(ROOT), "RECEIVER": receiver}
        self.runtime = RedisAgentRuntime.from_app(hooked(receiver), url, namespace=namespace, types=())
        self.teams = self._worker("desk", "desk.clerk")
        self.sender = self._worker("crm")

    def _worker(self, *types: str) -> Process:
        chosen = [word for name in types for word in ("--type", name)]
        command = python("-m", "callboard", "worker", "tests.helpers.hooked_desk:app", *chosen, *self._where)
        return Process(command, self._environ)

    def kill(self) -> None:
        """The sender dies, and another one takes its place."""
        self.sender.close()
        self.sender = self._worker("crm")

    async def close(self) -> None:
        self.teams.close()
        self.sender.close()
        await self.runtime.close()


async def test_a_sender_that_is_killed_between_sends_the_same_again(shared_server: ServerProcess) -> None:
    async with Receiver(hangs) as receiver:
        senders = SendersFixture(shared_server.url, receiver.url)
        try:
            await began(senders.runtime, "r1")
            await eventually(lambda: receiver.posts, 30, what=senders.sender.output)
            senders.kill()  # the receiver has it, and the sender has not heard so
            await eventually(lambda: len(receiver.posts) == 2, 30, what=senders.sender.output)
        finally:
            await senders.close()
    one, two = receiver.posts
    assert (one.id, one.body) == (two.id, two.body)
    assert one.verified() == two.verified()


async def test_each_end_is_told_whatever_dies(shared_server: ServerProcess) -> None:
    async with Receiver(says(500), hangs, says(500), hangs) as receiver:
        senders = SendersFixture(shared_server.url, receiver.url)
        try:
            for number in range(RUNS):
                await began(senders.runtime, f"r{number}", conversation=f"c{number}")
                if number % EACH == 0:
                    before = len(receiver.posts)
                    await eventually(partial(receiver.has_more_than, before), 30)
                    senders.kill()

            def told() -> Counter[str]:
                return Counter(post.verified()["data"]["run_id"] for post in receiver.posts)

            await eventually(lambda: len(told()) == RUNS, 60, what=senders.sender.output)
        finally:
            await senders.close()
    assert len({post.id for post in receiver.posts}) == RUNS
    assert told().keys() == {f"r{number}" for number in range(RUNS)}
