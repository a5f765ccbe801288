"""Schedules: many random ones in several processes, and every one within bounds."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import active_children, get_context

from tests.contract.model.explorer import Explorer, FoundError
from tests.contract.model.schedule import Bounds
from tests.contract.model.test_schedules import MESSAGES, OPTIONS
from tests.contract.model.walks import Walked, walk_many
from tests.helpers.servers import ServerProcess, best_kind

AT_ONCE = 500  # schedules that a process does before it tells how far it is
TELL_EVERY = 5_000
ACCIDENTS = ("crashes", "losses", "retries", "letters", "releases", "beats", "asks", "waits", "bells")


def run_schedules(count: int, seed: str, jobs: int) -> bool:
    """Random schedules; True when none went wrong."""
    print(f"{count:,} schedules, seed {seed}, {jobs} processes", flush=True)
    began, done, moves = time.monotonic(), 0, 0
    # Not fork: the processes of a pool are to inherit no connection.
    with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_listen) as pool:
        futures = [pool.submit(_schedules_of_a_process, seed, first, size) for first, size in _parts(count)]
        try:
            for future in as_completed(futures):
                walked = future.result()
                done, moves = done + walked.schedules, moves + walked.moves
                if done % TELL_EVERY < AT_ONCE:
                    print(
                        f"  {done:,} schedules, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True
                    )
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            pool.shutdown(cancel_futures=True)
            print(f"WRONG\n{error}")
            return False
        except KeyboardInterrupt:
            # What is queued for the processes is not cancelled by this, so each is told as well.
            pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():
                os.kill(process.pid or 0, signal.SIGINT)
            raise
    print(f"{done:,} schedules with {moves:,} moves, none wrong, {time.monotonic() - began:.0f} s")
    return True


def _parts(count: int) -> Iterator[tuple[int, int]]:
    for first in range(0, count, AT_ONCE):
        yield first, min(AT_ONCE, count - first)


class _Part:
    """What a process of the pool does; SIGINT ends it, and what is queued for the process."""

    def __init__(self) -> None:
        self._is_busy = False
        self._has_ended = False

    def end(self, *_: object) -> None:
        """As a handler of SIGINT."""
        self._has_ended = True
        if self._is_busy:
            raise KeyboardInterrupt

    def walk(self, seed: str, first: int, count: int) -> Walked:
        """Walks on a server of its own."""
        self._is_busy = not self._has_ended
        try:
            if self._has_ended:
                return Walked(0, 0)
            with ServerProcess(best_kind(), options=OPTIONS) as server:
                return walk_many(server.url, seed, first, count)
        finally:
            self._is_busy = False


_PART = _Part()


def _listen() -> None:
    signal.signal(signal.SIGINT, _PART.end)


def _schedules_of_a_process(seed: str, first: int, count: int) -> Walked:
    return _PART.walk(seed, first, count)


def run_exploration(depth: int) -> bool:
    """Every interleaving with up to `depth` accidents of every choice of kinds; True when none is wrong."""
    with ServerProcess(best_kind(), options=OPTIONS) as server:
        for accidents in _choices(depth):
            began = time.monotonic()
            try:
                found = Explorer(server.url, Bounds(MESSAGES, **accidents)).run()
            except FoundError as error:
                print(f"WRONG with {accidents}\n{error}")
                return False
            shown = ", ".join(f"{name} {number}" for name, number in accidents.items()) or "no accidents"
            print(
                f"{shown}: {found.schedules:,} schedules through {found.states:,} states and {found.moves:,} moves, "
                f"at most {found.longest} long, none wrong, {time.monotonic() - began:.0f} s",
                flush=True,
            )
    return True


def _choices(depth: int) -> Iterator[dict[str, int]]:
    yield {}
    if depth < 1:
        return
    for first in ACCIDENTS:
        yield {first: 1}
    if depth < 2:
        return
    for place, first in enumerate(ACCIDENTS):
        yield {first: 2}
        for second in ACCIDENTS[place + 1 :]:
            yield {first: 1, second: 1}
