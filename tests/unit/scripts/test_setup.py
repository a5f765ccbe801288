"""The environment that scripts work in."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.helpers.processes import ROOT


def test_a_link_to_the_environment_of_another_checkout_is_used_as_it_is(tmp_path: Path) -> None:
    """Installing into it would have the other checkout run the code of this one."""
    root, other = tmp_path / "root", tmp_path / "other"
    (root / "scripts").mkdir(parents=True)
    shutil.copy2(ROOT / "scripts" / "_setup.sh", root / "scripts")
    python = other / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\ntouch {tmp_path}/used\nexit 1\n")
    python.chmod(0o755)
    (root / ".venv").symlink_to(other)
    done = subprocess.run(
        ["bash", "-euc", ". scripts/_setup.sh; PATH=/usr/bin:/bin; set_up dev; echo ready"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")
    assert not (tmp_path / "used").exists()
    assert sorted(path.name for path in root.iterdir()) == [".venv", "scripts"]
