"""Any sequence of publishing, taking, committing, dying and replaying, against a reference that fits on a few pages."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from .bus import Bus
from .machine import Delivering

EXAMPLES = {"memory": 6}  # the store in Python takes twenty times as long
DEFAULT_EXAMPLES = 40
STEPS = 40


@pytest.fixture
def eager_trimming(server_url: str) -> Iterator[None]:
    """Entries are trimmed one by one, not a hundred at once: else nothing of a short stream would ever go."""
    if server_url.startswith("memory:"):
        yield
        return
    bus = Bus(server_url)
    name = "stream-node-max-entries"
    usual = bus.wire.call(("CONFIG", "GET", name))[1]
    bus.wire.call(("CONFIG", "SET", name, 1))
    yield
    bus.wire.call(("CONFIG", "SET", name, usual))
    bus.close()


@pytest.mark.slow
@pytest.mark.usefixtures("eager_trimming")
def test_no_sequence_breaks_the_promise(server_url: str) -> None:
    usual = EXAMPLES.get(server_url.partition(":")[0], DEFAULT_EXAMPLES)
    Delivering.url = server_url
    run_state_machine_as_test(
        Delivering,
        settings=settings(
            max_examples=int(os.environ.get("MODEL_EXAMPLES", usual)),
            stateful_step_count=STEPS,
            deadline=None,
            phases=tuple(Phase) if os.environ.get("MODEL_SHRINK", "1") == "1" else (Phase.generate,),
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
