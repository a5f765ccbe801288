"""What is known of one agent."""

from __future__ import annotations

from dataclasses import replace

from callboard.broker.redis.operations.agents import agent
from callboard.broker.redis.operations.views import AgentView
from tests.helpers.commits import Done
from tests.unit.broker.redis.operations.test_hottest import beat
from tests.unit.broker.redis.servers import WorkerDriver, driver, server_url, transport

__all__ = ["driver", "server_url", "transport"]


async def ada(driver: WorkerDriver, **options: bool) -> AgentView:
    view = await agent(driver.transport, "counter", "ada", **options)
    # The look that costs little sees the same, but for what no worker has read yet.
    short = await agent(driver.transport, "counter", "ada", unread=False, **options)
    assert short.waiting <= view.waiting
    assert set(short.paused) == set(view.paused)  # at the same moment: in any order
    same = replace(short, at=view.at, waiting=view.waiting, oldest=view.oldest)
    assert replace(same, running=view.running, paused=view.paused) == view
    assert (short.running is None) == (view.running is None)
    return view


async def test_an_agent_that_nothing_was_heard_of(driver: WorkerDriver) -> None:
    view = await ada(driver, state=True)
    assert (view.holder, view.running, view.begun, view.waiting, view.oldest) == (None, None, False, 0, None)
    assert (view.state, view.state_version, view.state_bytes) == (None, 0, 0)
    assert (view.delayed, view.letters, view.paused, view.reentrant) == ((), (), (), False)


async def test_an_agent_of_a_type_that_is_not_declared(driver: WorkerDriver) -> None:
    assert (await agent(driver.transport, "nobody", "x")).waiting == 0


async def test_what_it_runs_and_what_waits(driver: WorkerDriver) -> None:
    for name in ("first", "second", "third"):
        await driver.publish("topic:visits", "ada", id=name)
    await driver.publish("topic:visits", "bob")
    await driver.take("counter")
    view = await ada(driver)
    assert (view.holder, view.begun, view.waiting) == (driver.lane.worker, False, 3)
    assert view.running is not None
    assert (view.running.id, view.running.type, view.running.stream) == ("first", "Visit", "topic:visits")
    await beat(driver, "counter 1")
    view = await ada(driver)
    assert (view.begun, view.waiting) == (True, 2)
    assert view.running is not None
    assert view.running.since is not None
    assert abs(view.running.since - view.at) < 5000


async def test_what_it_runs_of_a_stream_that_was_deleted(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada")
    await driver.take("counter")
    await driver.transport.admin.command("DEL", driver.transport.keys.of("topic:visits"))
    view = await ada(driver)
    assert view.running is not None
    assert (view.running.stream, view.running.id, view.running.since) == ("topic:visits", "", None)


async def test_attempts_and_when_it_goes_on(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada")
    (first,) = await driver.take("counter")
    await driver.finish(Done(first.delivery, "R", (60_000, 1, "", "ValueError: no")))
    view = await ada(driver)
    assert (view.attempts, view.reason, view.waiting, view.holder) == (1, "ValueError: no", 1, None)
    assert view.resumes is not None
    assert view.resumes > view.at


async def test_its_state_on_demand(driver: WorkerDriver) -> None:
    name = driver.transport.keys.of("state:counter:ada")
    await driver.transport.admin.command("HSET", name, "v", 7, "d", '{"total":12}', "w", "w1")
    view = await ada(driver)
    assert (view.state_version, view.state_bytes, view.state_writer, view.state) == (7, 12, "w1", None)
    assert (await ada(driver, state=True)).state == '{"total":12}'


async def test_the_logs_of_its_state_have_sizes_of_their_own(driver: WorkerDriver) -> None:
    command, of = driver.transport.admin.command, driver.transport.keys.of
    await command("RPUSH", of("log:counter:ada:thread"), "123", "4567")
    await command("HSET", of("state:counter:ada"), "v", 1, "d", "{}", "w", "w1", "l", "thread 2")
    view = await ada(driver)
    assert (view.state_bytes, dict(view.logs)) == (2, {"thread": (2, 7)})


async def test_its_delayed_messages_letters_and_pauses(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada")
    await driver.publish("topic:visits", "bob")
    await driver.bury("counter")
    await driver.publish("topic:visits", "ada", due=60_000, id="later")
    await driver.publish("topic:visits", "bob", due=60_000)
    for target in (("type", "counter"), ("key", "counter/ada"), ("key", "counter/bob"), ("topic", "visits")):
        await driver.transport.admin.run("control", ("pause", *target, "me"))
    view = await ada(driver)
    assert [one.message_id for one in view.delayed] == ["later"]
    assert len(view.letters) == 1
    assert view.letters[0].startswith("counter/")
    assert {(one.kind, one.name) for one in view.paused} == {
        ("type", "counter"),
        ("key", "counter/ada"),
        ("topic", "visits"),
    }


async def test_whether_it_is_reentrant(driver: WorkerDriver) -> None:
    await driver.transport.admin.command(
        "HSET", driver.transport.keys.of("types"), "counter", '{"max_attempts": 3, "reentrant": true}'
    )
    assert (await ada(driver)).reentrant
