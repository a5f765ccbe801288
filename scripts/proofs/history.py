"""A storm of faults over real processes, for longer than in the tests, and the check of its history."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path

from tests.helpers.servers import ServerProcess, best_kind
from tests.helpers.storm import Storm


def run_history(seconds: float, seed: str) -> bool:
    """True when the history holds what was promised. Otherwise its files are kept."""
    folder = Path(tempfile.mkdtemp(prefix="callboard-history-"))
    print(f"{seconds:g} s of faults, seed {seed}, history in {folder}", flush=True)
    with ServerProcess(best_kind(), persistent=True) as server:
        try:
            report = asyncio.run(Storm(server, folder, seed).run(seconds))
        except AssertionError as error:
            print(f"WRONG\n{error}")
            return False
        except KeyboardInterrupt:
            shutil.rmtree(folder)
            raise
    faults = ", ".join(f"{number} x {name}" for name, number in sorted(report.faults.items()))
    print(
        f"{report.summary.published:,} publishes acknowledged, {report.summary.unknown} of unknown end, "
        f"{report.summary.commits:,} commits by {report.runs:,} runs of handlers, none wrong; {faults}"
    )
    shutil.rmtree(folder)
    return True
