"""What becomes of batches when the server's note of the last one was changed by hand."""

from __future__ import annotations

import pytest

from callboard.broker.errors import CommandError
from tests.unit.broker.redis.client.test_publisher import PublisherFixture, fixture, note, server

__all__ = ["fixture", "server"]


async def test_a_number_that_a_person_wrote_hides_no_message(fixture: PublisherFixture) -> None:
    await fixture.post(note(1))
    command, of = fixture.transport.admin.command, fixture.transport.keys.of
    first = fixture.publisher._producer.name
    await command("SET", of(f"sent:{first}"), "9" * 30)
    assert await fixture.post(note(2)) == [True]
    assert await fixture.post(note(3)) == [True]
    assert fixture.publisher._producer.name != first
    assert [number for number, _ in fixture.link.batches] == [1, 2, 1, 2], "one call more, under a new name"
    assert await fixture.ids() == ["m1", "m2", "m3"]


async def test_who_does_not_know_whether_a_batch_arrived_is_told(
    fixture: PublisherFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, of = fixture.transport.admin.command, fixture.transport.keys.of
    known = f"sent:{fixture.publisher._producer.name}"

    async def reconnect(_limit: float) -> None:
        await command("SET", of(known), "7")

    fixture.link.losses.append(True)
    monkeypatch.setattr(fixture.link, "reconnect", reconnect)
    (error,) = await fixture.post(note(1))
    assert isinstance(error, CommandError)
    assert f"may have arrived or not: `{known}` was changed by hand" in str(error)
    assert await fixture.post(note(2)) == [True]
    assert await fixture.ids() == ["m1", "m2"]
