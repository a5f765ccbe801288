"""The faults. Each is a class in a module of this folder; a module that is added is found by itself."""

from __future__ import annotations

import importlib
import pkgutil

from .base import FAULTS, Act, Fault


def all_faults() -> dict[str, type[Fault]]:
    """Every fault by its name, in the order of their names."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return dict(sorted(FAULTS.items()))


__all__ = ["Act", "Fault", "all_faults"]
