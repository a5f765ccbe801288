"""Errors of roles.

```
ActorError
└── RolesError
    ├── UnknownRoleError        a message names a role that is not in the environment (LookupError)
    ├── EnvironmentStateError   an environment can't do this as it was set up, or there is none (RuntimeError)
    ├── RoleDeclarationError    a role, an action or a message is declared in a way that can't work (TypeError, ValueError)
    ├── MessageDataError        the data of a message can't be read or sent (ValueError)
    ├── HopLimitError           too many acts follow from one message
    ├── RoleFailedError         a message was given up
    └── NoMoneyException        the budget is spent
```
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Self

from callboard.errors import did_you_mean
from callboard.foundation import ActorError
from callboard.foundation.texts import shell_line


class RolesError(ActorError):
    """The root of everything that roles raise."""


class UnknownRoleError(RolesError, LookupError):
    """A message names a role that is not in the environment; it was not sent."""

    template = "no role is called {address!r}: the message was not sent. {advice}"
    permanent = True

    address: str
    known: Sequence[str] = ()

    @property
    def advice(self) -> str:
        """The nearest name, or those that there are."""
        return did_you_mean(self.address, list(self.known))


class EnvironmentStateError(RolesError, RuntimeError):
    """An environment can't do this as it was set up, or the role is in none."""

    template = "{text}"
    permanent = True

    text: str


class RoleDeclarationError(RolesError, TypeError, ValueError, AssertionError):
    """A role, an action or a message is declared in a way that can't work; an AssertionError, too, as in MetaGPT."""

    template = "{what}: {reason}"
    permanent = True

    what: str
    reason: str


class MessageDataError(RolesError, ValueError):
    """The data of a message can't be read or sent."""

    template = "the data of a message can't be read or sent: {reason}"
    permanent = True

    reason: str


class HopLimitError(RolesError):
    """Too many acts follow from one message."""

    template = "{hops} acts led to this message for {role}, and max_hops is {limit}: end the circle, or raise max_hops"
    permanent = True

    role: str
    hops: int
    limit: int


class RoleFailedError(RolesError):
    """A message was given up: its role failed in every attempt. The others went on."""

    template = "{role} failed: {error}{more}. `{show}` shows it, and `callboard dead replay` tries it again"
    permanent = True

    role: str  # its agent type
    error: str  # what it raised at last, `Type: text`; else why the message was given up
    message_id: str  # as `callboard dead show` takes it
    others: int = 0  # how many more were given up
    namespace: str = ""  # where; "": the one that commands take by themselves

    @property
    def show(self) -> str:
        """The command that shows it."""
        where = ("--namespace", self.namespace) if self.namespace else ()
        return shell_line("callboard", "dead", "show", *where, f"{self.role}/{self.message_id}")

    @property
    def more(self) -> str:
        """How many more."""
        return f" ({self.others} more messages were given up)" if self.others else ""


class NoMoneyException(RolesError):
    """The budget does not cover what comes next, which waits for `Team.invest` and the next `run`."""

    template = (
        "the budget of {limit} USD does not cover what comes next ({amount} USD are used or set aside): "
        "invest more, and run again"
    )
    permanent = True

    amount: float = 0.0  # used or set aside
    limit: float = 0.0

    @classmethod
    def told_by(cls, text: str) -> Self | None:
        """The error that a text tells of, as a dead letter has it; None: it is another text."""
        found = re.search(r"budget of (\S+) USD .* \((\S+) USD are", text)
        try:
            return None if found is None else cls(float(found[2]), float(found[1]))
        except ValueError:
            return None
