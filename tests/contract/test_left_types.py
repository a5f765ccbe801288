"""Agent types that an app renamed or deleted: they are named, and can be got rid of."""

from __future__ import annotations

import pytest

from callboard import TypePrefixSubscription, TypeSubscription
from callboard.broker.errors import SubscriptionError
from callboard.broker.redis.client.transport import Declared
from callboard.broker.redis.operations.agent_types import left_types, type_records
from callboard.broker.redis.operations.doctor import Level, examine
from tests.helpers.runtimes import Runtimes, listener
from tests.helpers.server_driver import ServerDriver, topic


async def test_every_type_is_listed_with_what_it_subscribes_to_and_what_waits(driver: ServerDriver) -> None:
    await driver.declare(topic("new", "visits"), topic("old", "mails"), Declared("old", "prefix", "order."))
    await driver.note("topic:mails", "ada", "1", "2")
    await driver.worker("new")
    of = {one.type: one for one in await type_records(driver.transport, frozenset({"new"}))}
    assert of["old"].subscriptions == ("topic:mails->old", "prefix:order.->old")
    assert (of["old"].waiting, of["old"].workers, of["old"].declared, of["old"].is_left) == (
        2,
        0,
        False,
        True,
    )
    assert (of["new"].workers, of["new"].declared, of["new"].is_left) == (1, True, False)
    assert [one.declared for one in await type_records(driver.transport, None)] == [None, None]


async def test_what_the_app_lacks_is_left_unless_a_worker_runs_it(driver: ServerDriver) -> None:
    await driver.declare(types=["new", "old", "of"])
    assert [one.type for one in await left_types(driver.transport, {"new", "of"})] == ["old"]
    assert not await left_types(driver.transport, {"new", "old", "of"})
    worker = await driver.worker("old", "of")
    assert not await left_types(driver.transport, {"new"})
    await driver.run("leave", "0", "1", worker.name)
    left = await left_types(driver.transport, {"new", "of"})
    assert [one.type for one in left] == ["old"]
    assert left[0].joined is not None


@pytest.mark.real_server("memory:// can't tell what doctor asks of a server")
async def test_the_doctor_names_them_with_the_commands(driver: ServerDriver) -> None:
    await driver.declare(topic("new", "visits"), topic("old", "mails"))
    await driver.note("topic:mails", "ada", "1", "2")
    report = await examine(driver.transport, frozenset({"new"}))
    (found,) = [one for one in report.findings if one.check == "types"]
    assert found.level is Level.ERROR
    assert found.what.startswith("old: the app does not declare it")
    assert found.what.endswith("2 messages wait")
    space = driver.transport.keys.namespace
    assert f"callboard types remove old --namespace {space}" in found.do
    assert f"callboard types rename old NEW --namespace {space}" in found.do
    assert not [one for one in report.findings if "callboard worker" in one.do], "nobody can start it"
    (unknown,) = [one for one in (await examine(driver.transport)).findings if one.check == "types"]
    assert unknown.level is Level.OK


async def test_a_subscription_of_a_type_that_is_gone_can_be_removed(runtimes: Runtimes) -> None:
    before = await runtimes.started()
    await listener(before, "old", "mails")
    await before.add_subscription(TypePrefixSubscription("order.", "old"))
    await before.stop()
    runtime = await runtimes.started()
    await listener(runtime, "new", "mails")
    of = runtime.transport.keys.of
    for name in (TypeSubscription("mails", "old").id, "prefix:order.->old"):
        await runtime.remove_subscription(name)
        with pytest.raises(SubscriptionError, match="does not exist"):
            await runtime.remove_subscription(name)
    assert await runtime.transport.admin.command("HGET", of("topics"), "mails") == b"new"
    groups = await runtime.transport.admin.command("XINFO", "GROUPS", of("topic:mails"))
    assert [flat[1] for flat in groups] == [b"new"]


@pytest.mark.parametrize(
    "name", ["mails", "topic:mails", "mails->old", "other:mails->old", "topic:mails->new", "topic:a b->old"]
)
async def test_what_is_no_subscription_is_refused(runtimes: Runtimes, name: str) -> None:
    runtime = await runtimes.started()
    await runtime.add_subscription(TypeSubscription("mails", "new", id="mine"))
    with pytest.raises(SubscriptionError, match="does not exist"):
        await runtime.remove_subscription(name)
