"""Tools that models call, and workbenches that hold them. Everything is loaded when it is first used."""

from __future__ import annotations

import importlib
from typing import Any, Final

import lazy_loader

# Names and where they live: __init__.pyi.
_own, _, __all__ = lazy_loader.attach_stub(__name__, __file__)

# AutoGen has them here. They are made of agents and teams, which build on this room, and so they live there.
ABOVE: Final = ("AgentTool", "TeamTool")
__all__.extend(["AgentTool", "TeamTool"])


def __dir__() -> list[str]:
    return list(__all__)


def __getattr__(name: str) -> Any:
    return getattr(importlib.import_module("callboard.agents"), name) if name in ABOVE else _own(name)
