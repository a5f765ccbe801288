"""A history of real processes under mixed faults holds what was promised; and one that is tampered with does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.history import History
from tests.helpers.servers import ServerProcess
from tests.helpers.storm import Storm, events_of

SECONDS = 10.0


@pytest.mark.slow
async def test_kills_pauses_restarts_and_cuts_break_no_promise(
    own_server: ServerProcess, tmp_path: Path
) -> None:
    storm = Storm(own_server, tmp_path)
    report = await storm.run(SECONDS)
    assert report.summary.published > 300, report
    assert report.summary.commits >= report.summary.published, report
    assert len(report.faults) == 4, report
    _tamper(tmp_path)


def _tamper(folder: Path) -> None:
    """The checker finds in this very history what is put into it: it was not blind."""
    events = events_of(folder)
    acknowledged = {event.id for event in events if (event.op, event.type) == ("publish", "ok")}
    commits = [event for event in events if (event.op, event.type) == ("commit", "ok")]
    commit = next(event for event in reversed(commits) if event.id in acknowledged)
    without = [event for event in events if (event.op, event.id) != ("commit", commit.id)]
    assert [one.fault for one in History(without).violations()] == ["lost"]
    doubled = [*events, commit._replace(time=commit.time + 1)]
    assert [one.fault for one in History(doubled).violations()] == ["doubled"]
