"""The folder of the example that `callboard demo` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.cli.commands import demo

ROOT = Path(__file__).parents[5]


def test_a_checkout_has_it_among_its_examples() -> None:
    assert demo.examples_folder() == ROOT / "examples"


def test_an_installed_package_has_a_copy_beside_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / demo.SHIPPED).mkdir()
    monkeypatch.setattr(demo, "__file__", str(tmp_path / "commands" / "demo.py"))
    assert demo.examples_folder() == tmp_path / demo.SHIPPED


def test_the_copy_is_no_package() -> None:
    assert not demo.SHIPPED.isidentifier()
