"""What every test relies on."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

from callboard.broker.redis.library import library
from tests.helpers.lua import compile_lua
from tests.helpers.servers import binary, kinds

# What takes longest begins first where several processes share the tests, so that they end together.
ORDER = ("integration", "docs", "chaos", "mutations", "contract", "unit")

SAMPLE = 3  # one in so many tests of the contract on the embedded server runs without `--full`

# Machines that build are slow in bursts; a deadline per example would fail for no reason.
settings.register_profile("callboard", deadline=None)
settings.load_profile("callboard")


def pytest_sessionstart() -> None:
    # A shell that starts the tests in the background has them ignore Ctrl-C, and with them every process they start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Without the server functions thousands of tests would fail, each after its time.
    try:
        compile_lua(library().text.partition("\n")[2])
    except ValueError as error:
        raise pytest.UsageError(f"the Lua library does not compile: {error}") from None


def pytest_report_header() -> str:
    alone = (
        ""
        if binary("redis")
        else ", for lack of a redis-server of version 7.0 or newer: nothing runs on both"
    )
    return f"servers: {' and '.join(kinds())}{alone}"


def pytest_collection() -> None:
    """A search for garbage looks at every test there is, and collecting leaves none."""
    gc.disable()


def pytest_collection_finish() -> None:
    """What is collected stays: it is not looked at again."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests never use a server that the person who runs them has set up."""
    for name in [name for name in os.environ if name == "REDIS_URL" or name.startswith("CALLBOARD_")]:
        monkeypatch.delenv(name)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One text runs over every backend; what is about a thing that fakeredis lacks is not run on it.

    Of what only repeats the contract on the second real server a third always runs, the same each time.
    """
    for item in items:
        if (
            item.get_closest_marker("repeat")
            and _is_on_embedded(item)
            and crc32(item.nodeid.encode()) % SAMPLE
        ):
            item.add_marker(pytest.mark.full)
    left_out = [item for item in items if item.get_closest_marker("real_server") and _is_in_memory(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if hasattr(config, "workerinput"):  # a process of pytest-xdist
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return ORDER.index(folder) if folder in ORDER else len(ORDER)


def _is_on_embedded(item: pytest.Item) -> bool:
    return "embedded-tcp" in item.name.partition("[")[2]


def _is_in_memory(item: pytest.Item) -> bool:
    return not {"memory", "fakeredis"}.isdisjoint(item.name.partition("[")[2].rstrip("]").split("-"))
