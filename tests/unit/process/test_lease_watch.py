"""Who is taken for frozen, by what the server says about leases."""

from __future__ import annotations

import pytest

from callboard.process.supervisor import LeaseWatch, Verdict

PATIENCE = 5.0


class Watched:
    """A process that is looked at once a second, with a server whose clock is ahead."""

    def __init__(self) -> None:
        self.watch = LeaseWatch(PATIENCE)
        self.now = 0

    def look(self, *left: int) -> Verdict:
        """A second later; `left` are the seconds that leases go on, from this look."""
        self.now += 1
        now_ms = 1_700_000_000_000 + self.now * 1000
        return self.watch.look([now_ms + 1000 * one for one in left], now_ms, float(self.now))


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_process_without_a_lease_gets_a_lease_to_come_back(watched: Watched) -> None:
    seen = [watched.look(one) for one in (5, 4, 0, -1, -2, -3, -4, -5, -6)]
    assert seen == ["fine"] * 3 + ["lost"] + ["missing"] * 4 + ["gone"]
    assert watched.look(-7) == "missing", "told once"


def test_so_it_is_when_others_have_reaped_it(watched: Watched) -> None:
    assert [watched.look(1), watched.look(), watched.look()] == ["fine", "lost", "missing"]


def test_one_that_comes_back_is_fine(watched: Watched) -> None:
    assert [watched.look(1), watched.look(-1), watched.look(5), watched.look(5)] == [
        "fine",
        "lost",
        "back",
        "fine",
    ]
    assert [watched.look(0), watched.look(-1)] == ["fine", "lost"], "and has all the time again"


def test_one_that_joined_again_has_a_lease_although_an_old_one_ended(watched: Watched) -> None:
    assert [watched.look(1), watched.look(-1, 5)] == ["fine", "fine"]


def test_one_that_is_slow_to_start_is_left_alone(watched: Watched) -> None:
    assert {watched.look() for _ in range(100)} == {"fine"}


def test_one_that_has_left_is_left_alone_until_it_joins_again(watched: Watched) -> None:
    assert watched.look(5) == "fine"
    assert {watched.look() for _ in range(100)} == {"fine"}
    assert [watched.look(1), watched.look(), watched.look()] == ["fine", "lost", "missing"]


def test_the_time_without_a_server_does_not_count(watched: Watched) -> None:
    assert [watched.look(1), watched.look(-1)] == ["fine", "lost"]
    watched.now += 100
    watched.watch.forgive()
    assert [watched.look(-101), watched.look(-102)] == ["lost", "missing"]
