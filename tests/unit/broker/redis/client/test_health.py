from __future__ import annotations

import os
from pathlib import Path

import pytest

from callboard.broker.redis.client.identity import HealthFile, age


def test_a_renewed_file_is_young_and_a_removed_one_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "health"
    assert age(path) is None
    file = HealthFile(path)
    file.renew("host:1:t:1")
    os.utime(path, (1, 1))
    assert (age(path) or 0) > 1e9
    file.renew("host:1:t:2")
    assert (age(path) or 1e9) < 60
    assert path.read_text(encoding="utf-8") == "host:1:t:2\n"
    file.remove()
    file.remove()
    assert age(path) is None


def test_a_file_that_cannot_be_written_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = HealthFile(tmp_path / "missing" / "health")
    file.renew("w")
    file.renew("w")
    assert [record.getMessage().count("can't be written") for record in caplog.records] == [1]
