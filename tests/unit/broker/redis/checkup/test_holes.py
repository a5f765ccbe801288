from __future__ import annotations

import pytest

from broker.redis.checkup.holes import HOLES, Hole, Product, State, Version

BY_ID = {name: hole for hole in HOLES for name in hole.ids}


@pytest.mark.parametrize(
    ("name", "product", "version", "state"),
    [
        ("CVE-2025-49844", "Redis", (7, 0, 15), "open"),
        ("CVE-2025-49844", "Redis", (7, 2, 10), "open"),
        ("CVE-2025-49844", "Redis", (7, 2, 11), "closed"),
        ("CVE-2025-49844", "Redis", (8, 2, 2), "closed"),
        ("CVE-2025-49844", "Redis", (8, 4, 0), "closed"),
        ("CVE-2025-49844", "Valkey", (8, 1, 3), "open"),
        ("CVE-2025-49844", "Valkey", (9, 1, 2), "closed"),
        ("CVE-2025-62507", "Redis", (8, 0, 9), "closed"),
        ("CVE-2025-62507", "Redis", (8, 2, 2), "open"),
        ("CVE-2025-62507", "Redis", (8, 2, 3), "closed"),
        ("CVE-2025-62507", "Valkey", (7, 2, 5), "closed"),
        ("CVE-2026-23479", "Redis", (7, 0, 15), "closed"),
        ("CVE-2026-23479", "Redis", (8, 2, 5), "unknown"),
        ("CVE-2026-23479", "Redis", (8, 6, 2), "open"),
        ("CVE-2026-23479", "Redis", (8, 8, 0), "closed"),
        ("CVE-2026-23479", "Valkey", (9, 0, 3), "open"),
        ("CVE-2026-23479", "Valkey", (8, 1, 9), "unknown"),
        ("CVE-2026-63639", "Valkey", (9, 1, 1), "closed"),
        ("CVE-2026-63639", "Redis", (7, 0, 15), "closed"),
    ],
)
def test_which_versions_have_a_hole(name: str, product: Product, version: Version, state: State) -> None:
    assert BY_ID[name].state(product, version) == state


@pytest.mark.parametrize("hole", HOLES, ids=lambda hole: hole.ids[0])
def test_what_is_known_of_a_hole_makes_sense(hole: Hole) -> None:
    assert all(name.startswith("CVE-20") for name in hole.ids)
    assert hole.what
    assert hole.closed
    for product, branches in hole.closed.items():
        for branch, patch in branches.items():
            assert hole.state(product, (*branch, patch)) == "closed"
            if patch:
                assert hole.state(product, (*branch, patch - 1)) == "open"
