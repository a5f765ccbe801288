"""Unit tests of the rows of scripts/bench that need a process and no load: a row that fails is found before a release is."""

from __future__ import annotations

import pytest

from scripts.benchmarks.row import BACKLOG, Size
from scripts.benchmarks.rows import ROWS
from scripts.benchmarks.site import Site

ROW = {row.name: row for row in ROWS}


@pytest.mark.parametrize("name", ["import", "embedded", "start", "bytes", "cpu", "chats"])
def test_a_row_is_measured(name: str) -> None:
    with Site() as site:
        sample = ROW[name].measure(site, Size(quick=True, backlog=BACKLOG))

    assert sample
    assert all(value > 0 for value in sample.values())
