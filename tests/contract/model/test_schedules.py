"""Two workers and three messages: every interleaving within small bounds, and random ones within wide bounds.

`scripts/proof` does the same with wider bounds and many more schedules.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.helpers.servers import ServerProcess, best_kind

from .explorer import DATABASES, Explorer
from .schedule import Bounds
from .walks import walk_many

MESSAGES = (("topic:visits", "a"), ("inbox:counter", "a"), ("topic:visits", "b"))
EAGER_TRIMMING = ("--stream-node-max-entries", "1")  # entries are trimmed one by one, not a hundred at once
OPTIONS = ("--databases", str(DATABASES), *EAGER_TRIMMING)


@pytest.fixture(scope="module")
def eager_server() -> Iterator[ServerProcess]:
    with ServerProcess(best_kind(), options=OPTIONS) as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bounds", "schedules"),
    [
        (Bounds(MESSAGES), 5_500),
        (Bounds(MESSAGES, losses=1), 200_000),
        (Bounds(MESSAGES[:2], crashes=1), 2_000),
        (Bounds(MESSAGES[:2], asks=1, waits=1), 2_000),
        (Bounds(MESSAGES[:2], bells=1), 50_000),
    ],
    ids=["three messages", "a lost answer", "two messages and a crash", "a question", "a turn at a bell"],
)
def test_no_interleaving_breaks_the_promise(
    eager_server: ServerProcess, bounds: Bounds, schedules: int
) -> None:
    found = Explorer(eager_server.url, bounds).run()
    assert found.schedules > schedules, found


@pytest.mark.slow
def test_no_random_schedule_breaks_the_promise(eager_server: ServerProcess) -> None:
    seed = os.urandom(4).hex()
    walked = walk_many(eager_server.url, seed, 0, 200)
    assert walked.moves > 10 * walked.schedules, seed
