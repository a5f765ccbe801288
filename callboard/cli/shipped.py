"""Where the examples are that commands run or copy."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SHIPPED: Final = "demo-files"
"""The folder in callboard/cli where a wheel has its copy of some examples. Not a name that can be imported."""


def examples_folder() -> Path:
    """The folder with the examples: examples/ of a checkout, else the copy that comes with the wheel."""
    cli = Path(__file__).resolve().parent
    shipped = cli / SHIPPED
    return shipped if shipped.is_dir() else cli.parents[1] / "examples"
