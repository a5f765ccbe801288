"""A namespace that another version keeps in another way is left alone, and the process says so."""

from __future__ import annotations

import pytest

from callboard import AgentId, TopicId
from callboard.broker.errors import LayoutError
from callboard.broker.redis.library import OPERATIONS
from callboard.broker.redis.operations.doctor import examine
from callboard.broker.redis.operations.repair import repair
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Ask, Note, Runtimes, listener
from tests.helpers.server_driver import ServerDriver

FENCED = ("turn", "beat", "resync")  # refused to who did not join

# Enough of each to get past reading them, were the layout not looked at first.
ARGUMENTS = {"join": ("here:1", 5000, "counter", "here", 1, ""), "declare": (1, 0, 0, "")}


async def _of_layout(driver: ServerDriver, *fields: str) -> dict[str, object]:
    transport = driver.transport
    await transport.admin.command("DEL", transport.keys.of("config"))
    await transport.admin.command("HSET", transport.keys.of("config"), *fields)
    return await driver.snapshot()


async def test_a_new_namespace_gets_the_layout_of_this_version(driver: ServerDriver) -> None:
    await driver.transport.declare({}, ())
    key = driver.transport.keys.of("config")
    assert await driver.transport.admin.command("HGET", key, "layout") == b"2"


@pytest.mark.parametrize(
    ("fields", "found"),
    [(("shards", "1"), 1), (("shards", "1", "layout", "1"), 1), (("shards", "1", "layout", "3"), 3)],
    ids=["from before there were numbers", "an older one", "a newer one"],
)
async def test_every_function_leaves_another_layout_alone(
    driver: ServerDriver, fields: tuple[str, ...], found: int
) -> None:
    before = await _of_layout(driver, *fields)
    for name in OPERATIONS:
        arguments = ARGUMENTS.get(name, ("here:1:1", "1", "1", "1", "1", "1", "1", "1"))
        if name in FENCED:
            assert (await driver.transport.admin.run(name, arguments))[0] == b"FENCED"
            continue
        with pytest.raises(
            LayoutError, match=f"has layout {found} and this version of Callboard knows layout 2"
        ):
            await driver.transport.admin.run(name, arguments)
    assert await driver.snapshot() == before


@pytest.mark.parametrize("written", [b"junk", b"two words", b"\xff"])
async def test_what_is_no_number_is_another_layout_as_well(driver: ServerDriver, written: bytes) -> None:
    await driver.declare()
    await driver.transport.admin.command("HSET", driver.transport.keys.of("config"), "layout", written)
    with pytest.raises(LayoutError, match=r"has layout '.+' and this version"):
        await driver.transport.admin.run("idle", ("",))


async def test_a_worker_does_not_begin_and_a_publisher_does_not_publish(runtimes: Runtimes) -> None:
    made = runtimes.new()
    await made.open()
    transport = made.transport
    await transport.admin.command("HSET", transport.keys.of("config"), "layout", "9")
    working = runtimes.new()
    await listener(working, "listener", "news")
    working.start()
    with pytest.raises(LayoutError):
        await working.ready()
    with pytest.raises(LayoutError):
        await made.publish_message(Note(), TopicId("news", "a"))
    with pytest.raises(LayoutError):
        await made.send_message(Ask(), AgentId("listener", "a"))
    with pytest.raises(LayoutError):
        await repair(transport)
    await transport.delete_namespace()


async def test_a_worker_ends_when_another_version_has_taken_over(runtimes: Runtimes) -> None:
    working = runtimes.new()
    await listener(working, "listener", "news")
    working.start()
    await working.ready()
    transport = working.transport
    await transport.delete_namespace()
    await transport.admin.command("HSET", transport.keys.of("config"), "shards", "1", "layout", "9")

    async def has_ended() -> bool:
        try:
            await working.ready()
        except LayoutError:
            return True
        return False

    await eventually(has_ended)
    assert await transport.names_after(transport.keys.prefix) == ["config"]
    await transport.delete_namespace()


async def test_the_doctor_tells_it_once(driver: ServerDriver) -> None:
    await _of_layout(driver, "shards", "1", "layout", "9")
    report = await examine(driver.transport)
    (finding,) = [one for one in report.findings if one.check == "layout"]
    assert (finding.level, "layout 9" in finding.what) == ("error", True)
    assert not [one for one in report.findings if "could not be checked" in one.what]
