"""The folder of the examples that commands run or copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.cli import templates as shipped

ROOT = Path(__file__).parents[3]


def test_a_checkout_has_its_examples() -> None:
    assert shipped.examples_folder() == ROOT / "examples"


def test_an_installed_package_has_a_copy_beside_the_commands(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / shipped.SHIPPED).mkdir()
    monkeypatch.setattr(shipped, "__file__", str(tmp_path / "shipped.py"))
    assert shipped.examples_folder() == tmp_path / shipped.SHIPPED


def test_the_copy_is_no_package() -> None:
    assert not shipped.SHIPPED.isidentifier()
