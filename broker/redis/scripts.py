"""The Lua scripts: one file for each atomic operation, each with the catalogue of its keys on top."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class Script:
    """A script's whole text and the digest that the server knows it by."""

    name: str
    text: str
    digest: str


@cache
def script(name: str) -> Script:
    """Reads `lua/<name>.lua` with the common part in front. Comments are left out of what is sent."""
    folder = resources.files(__package__) / "lua"
    lines = (folder / "common.lua").read_text("utf-8") + "\n" + (folder / f"{name}.lua").read_text("utf-8")
    text = "\n".join(line for line in lines.splitlines() if line.strip() and not line.lstrip().startswith("--"))
    return Script(name, text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())
