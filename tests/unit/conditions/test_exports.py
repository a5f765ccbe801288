"""The names in `callboard.conditions`, and that they are cheap to import."""

from __future__ import annotations

import subprocess
import sys

import callboard.conditions


def test_the_names_of_autogen_are_there() -> None:
    names = """TerminationCondition TerminatedException AndTerminationCondition OrTerminationCondition
        MaxMessageTermination TextMentionTermination StopMessageTermination TokenUsageTermination HandoffTermination
        TimeoutTermination ExternalTermination SourceMatchTermination TextMessageTermination FunctionCallTermination
        FunctionalTermination"""
    assert set(names.split()) <= set(callboard.conditions.__all__)
    for name in callboard.conditions.__all__:
        assert getattr(callboard.conditions, name) is not None


def test_importing_loads_nothing_heavy() -> None:
    script = "import sys, callboard.conditions; print([m for m in ('pydantic', 'redis') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
