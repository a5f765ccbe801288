"""Errors of testing.

```
ActorError
├── CassetteError              it is no cassette, or it is not complete (ValueError)
└── CassetteDifferenceError    the run that was recorded, and this one, are not the same (AssertionError)
```
"""

from __future__ import annotations

from callboard.errors import ActorError


class CassetteError(ActorError, ValueError):
    """A cassette can't be made or read."""

    template = "This is no cassette that can be used: {reason}."

    reason: str


class CassetteDifferenceError(ActorError, AssertionError):
    """A run does something else than the recorded one.

    Attributes:
        agent: who; "": the transcript differs.
        what: which request of this agent, or which message.
        difference: what is different.
    """

    template = "The run differs from its cassette at {what}{by}: {difference}."
    permanent = True

    agent: str
    what: str
    difference: str

    @property
    def by(self) -> str:
        """Of whom."""
        return f" of {self.agent!r}" if self.agent else ""
