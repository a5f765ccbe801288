"""A worker that is killed after a model's answer: whoever goes on has the answer, and nothing is paid again."""

from __future__ import annotations

import pytest

from actors.models import UsageLedger
from broker import BrokerSettings
from broker.redis.store import RedisStore
from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, python
from tests.helpers.rigging import SHORT_LEASE, Site


def thinker(site: Site) -> Process:
    """A worker process of tests.helpers.thinking."""
    environ = {**SHORT_LEASE, "LEDGER": str(site.ledger.file)}
    process = Process(python("-m", "tests.helpers.thinking", site.url, site.namespace), environ)
    site.workers.append(process)
    return process


async def killed_after_the_answer(site: Site, topic: str) -> tuple[Process, Process]:
    """Has a worker killed when it has the answer, and another one finish. Returns both."""
    doomed = thinker(site)
    await doomed.says("works as")
    await site.publish("a", topic=topic)
    await eventually(lambda: site.ledger.executions("answered"), 15, what=doomed.output)
    doomed.kill()
    other = thinker(site)
    await site.effects(1)
    await site.settled(topic)
    return doomed, other


@pytest.mark.parametrize("topic", ["recorded", "streamed"])
async def test_the_answer_is_paid_for_once(site: Site, topic: str) -> None:
    doomed, other = await killed_after_the_answer(site, topic)
    assert [one.pid for one in site.ledger.executions("asked")] == [doomed.pid]
    assert [(one.pid, one.attempt) for one in site.ledger.executions("answered")] == [
        (doomed.pid, 1),
        (other.pid, 2),
    ]
    assert [effect.total for effect in site.ledger.effects()] == [doomed.pid]
    assert await used(site) == 1


async def test_without_a_record_it_is_paid_for_twice(site: Site) -> None:
    doomed, other = await killed_after_the_answer(site, "plain")
    assert [one.pid for one in site.ledger.executions("asked")] == [doomed.pid, other.pid]
    assert [effect.total for effect in site.ledger.effects()] == [other.pid]
    assert await used(site) == 2


async def used(site: Site) -> int:
    """Answers that both processes together have in the ledger on the server."""
    store = RedisStore.at(site.url, BrokerSettings(namespace=site.namespace))
    spent = await UsageLedger(store).spent()
    store.close()
    return spent.requests
