"""Libraries of functions that other versions of Callboard left on a server.

Each version has a library of its own name, so that processes of two versions work side by side, and nobody can tell who is
the last. A process that may load functions loads its own again where it is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .scripts import library

LIST = ("FUNCTION", "LIST", "LIBRARYNAME", "callboard_*")


def others(answer: Sequence[Any]) -> tuple[str, ...]:
    """The names in the answer to `LIST` that are not this version's."""
    named = [dict(zip(flat[::2], flat[1::2], strict=True))[b"library_name"].decode() for flat in answer]
    return tuple(sorted(name for name in named if name != library().name))


def deletion(name: str) -> tuple[str, str, str]:
    """The command that deletes one."""
    return ("FUNCTION", "DELETE", name)
