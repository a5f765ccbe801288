"""The memory that this process takes, as psutil sees it too."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from actors.resident import resident_bytes


def test_it_is_what_psutil_says() -> None:
    assert resident_bytes() == pytest.approx(psutil.Process().memory_info().rss, rel=0.2)


def test_it_grows_with_what_is_used() -> None:
    before = resident_bytes()
    used = b"x" * 50_000_000
    assert resident_bytes() - before > 0.8 * len(used)


@pytest.mark.parametrize("text", [None, "", "nonsense", "1"])
def test_without_statm_it_is_the_most_that_it_has_been(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "statm"
    if text is not None:
        file.write_text(text, "ascii")
    monkeypatch.setattr("actors.resident.STATM", file)
    assert resident_bytes() >= 0.5 * psutil.Process().memory_info().rss
