"""Errors of code executors. What goes wrong in the code itself is a result, never an error.

```
ActorError
└── CodeError
    ├── ConfinementError    the system does not allow the confinement that is required (RuntimeError)
    └── FunctionsError      functions for the code can't be used: their source, packages or imports (ValueError)
```
"""

from __future__ import annotations

from collections.abc import Sequence

from callboard.errors import ActorError


class CodeError(ActorError):
    """The root of everything that code executors raise."""


class ConfinementError(CodeError, RuntimeError):
    """Code was to be run only in confinement, and this system does not allow it.

    Attributes:
        missing: What is required and not in force: names of fields of `Confinement`.
    """

    template = (
        "Code can't be confined as require_confinement asks for; not in force here: {listed}. In a container the "
        "system calls `unshare`, `landlock_create_ruleset` and `seccomp` must be allowed; otherwise run code elsewhere."
    )
    permanent = True

    missing: Sequence[str]

    @property
    def listed(self) -> str:
        """What is missing, as text."""
        return ", ".join(self.missing)


class FunctionsError(CodeError, ValueError):
    """Functions that the code is to find in a module can't be used."""

    template = "{text}"

    text: str
