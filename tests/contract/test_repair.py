"""Everything that a person can break is named, mended where it can be, and the workers go on."""

from __future__ import annotations

import pytest

from broker.redis.repair import KINDS, find, repair
from tests.helpers.rig import Rig
from tests.helpers.sabotage import PUBLISHED, SABOTAGES, Sabotage, scene


async def test_a_namespace_at_work_has_no_faults(rig: Rig) -> None:
    at_work = await scene(rig)
    before = await rig.snapshot()
    assert await find(rig.transport) == ()
    mended = await repair(rig.transport)
    assert (mended.mended, mended.left) == ((), ())
    assert await rig.snapshot() == before
    assert await at_work.go_on() == PUBLISHED
    await rig.check_empty("counter")
    assert await find(rig.transport) == ()


@pytest.mark.parametrize("sabotage", SABOTAGES.values(), ids=SABOTAGES)
async def test_what_is_broken_is_named_and_mended_and_work_goes_on(rig: Rig, sabotage: Sabotage) -> None:
    at_work = await scene(rig)
    await sabotage.act(at_work)

    broken = await rig.snapshot()
    found = await find(rig.transport)
    assert sabotage.kind in {fault.kind for fault in found}, found
    assert await rig.snapshot() == broken, "looking changes nothing"

    done = await repair(rig.transport)
    if sabotage.stays:
        assert {(fault.kind, fault.status) for fault in done.left} == {(sabotage.kind, "stays")}
        assert all(fault.detail for fault in done.left)
    else:
        assert sabotage.kind in {fault.kind for fault in done.mended}, done
        assert done.left == ()
        assert await find(rig.transport) == ()

    wanted = {
        key: [body for body in bodies if body not in sabotage.lost] for key, bodies in PUBLISHED.items()
    }
    assert await at_work.go_on() == wanted
    await rig.check_empty("counter")


async def test_what_is_paused_reset_or_too_new_is_no_fault(rig: Rig) -> None:
    at_work = await scene(rig)
    await rig.run("control", "reset", "counter", "a", "r1", "me")
    await rig.run("control", "reset", "counter", "z", "r2", "me")
    await rig.run("control", "pause", "type", "counter", "me")
    await rig.run("control", "pause", "key", "counter/a", "me")
    await at_work.second.take()
    await rig.run("control", "resume", "type", "counter", "me")
    await at_work.second.take()
    before = await rig.snapshot()
    assert await find(rig.transport) == ()
    assert (await repair(rig.transport)).mended == ()
    assert await rig.snapshot() == before


async def test_repair_by_two_at_once_is_one_repair(rig: Rig) -> None:
    at_work = await scene(rig)
    await rig.command("DEL", "busy:counter", rig.transport.keys.of("wait:counter:a"))
    await repair(rig.transport)
    assert (await repair(rig.transport)).mended == ()
    assert await at_work.go_on() == PUBLISHED


def test_every_kind_of_fault_is_explained_and_made_once() -> None:
    assert {sabotage.kind for sabotage in SABOTAGES.values()} | {"type", "undeclared"} == set(KINDS)
    assert all(facts.what and facts.why for facts in KINDS.values())


async def test_a_key_of_the_wrong_type_is_named_and_left(rig: Rig) -> None:
    await scene(rig)
    await rig.command("DEL", "tries:counter")
    await rig.command("SET", "tries:counter", "x")
    left = (await repair(rig.transport)).left
    assert [(fault.kind, fault.names) for fault in left] == [("type", ("tries:counter",))]
    assert "has to be a hash" in left[0].detail


async def test_a_subscriber_that_is_not_declared_is_named(rig: Rig) -> None:
    await scene(rig)
    await rig.command("HDEL", "types", "counter")
    found = await find(rig.transport)
    assert ("undeclared", ("counter",)) in {(fault.kind, fault.names) for fault in found}
