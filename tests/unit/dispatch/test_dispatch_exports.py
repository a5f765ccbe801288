"""The names in `callboard.dispatch`, and that they are cheap to import."""

from __future__ import annotations

import subprocess
import sys

import callboard.dispatch


def test_the_names_of_the_proposal_are_there() -> None:
    names = """AbstractDispatcher AbstractDynamicDispatcher Dispatcher DynamicDispatcher DynamicDispatcherAgent
        WorkbenchSearchAgent"""
    assert set(names.split()) <= set(callboard.dispatch.__all__)
    for name in callboard.dispatch.__all__:
        assert getattr(callboard.dispatch, name) is not None


def test_importing_loads_nothing_heavy() -> None:
    script = "import sys, callboard.dispatch; print([m for m in ('pydantic', 'redis') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
