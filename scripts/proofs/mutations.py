"""Every mutation of the list, not only the quick ones."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from tests.mutations.test_mutations import ALL, try_all


def run_mutations(jobs: int) -> bool:
    """True when all are caught."""
    began, survivors, tried = time.monotonic(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        for verdict in try_all(list(ALL), Path(folder), jobs):
            tried += 1
            print(f"  {'caught' if verdict.is_caught else 'SURVIVED'}: {verdict.name}", flush=True)
            if not verdict.is_caught:
                survivors.append(verdict.name)
    print(f"{tried} mutations, {tried - len(survivors)} caught, {time.monotonic() - began:.0f} s")
    return not survivors
