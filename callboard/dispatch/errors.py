"""Errors of dispatchers.

```
ActorError
└── DispatchError
    ├── NotAHandoffError            something else was given where a handoff is needed (TypeError)
    ├── HandoffDeclarationError     its name or description is none that models can be shown (ValueError)
    ├── DuplicateHandoffError       the name is that of another handoff, or of a tool (ValueError)
    ├── TargetRefusedError          nobody may hand over to this target, or this agent may not (ValueError)
    ├── HandoffLimitError           there are too many (ValueError)
    ├── UnknownHandoffError         there is no handoff of this name (KeyError, ValueError)
    ├── DispatcherSettingError      a dispatcher is given what can't work (ValueError)
    └── DispatcherStateError        a saved state does not belong to this dispatcher (ValueError)
```

When a model creates a handoff, it reads their texts as the result of its call.
"""

from __future__ import annotations

from collections.abc import Sequence

from callboard.errors import ActorError, did_you_mean


class DispatchError(ActorError):
    """The root of everything that dispatchers raise."""


class NotAHandoffError(DispatchError, TypeError):
    """Something else was given where a handoff is needed. In the proposal it is an AttributeError."""

    template = "a {given} is no handoff: give a Handoff(target=...)"
    permanent = True

    given: str


class HandoffDeclarationError(DispatchError, ValueError):
    """A handoff has a name or a description that models can't be shown."""

    template = "{name} can't be a handoff: {reason}"
    permanent = True

    name: str
    reason: str


class DuplicateHandoffError(DispatchError, ValueError):
    """A handoff has the name of another one, or of a tool.

    Attributes:
        name: The name.
        what: What has it already.
    """

    template = "there is a {what} {name!r} already: choose another name"
    permanent = True

    name: str
    what: str = "handoff"


class TargetRefusedError(DispatchError, ValueError):
    """The conversation can't be handed over to this agent.

    Attributes:
        target: The agent.
        reason: Why not.
    """

    template = "the conversation can't be handed over to {target!r}: {reason}"
    permanent = True

    target: str
    reason: str


class HandoffLimitError(DispatchError, ValueError):
    """A dispatcher would hold more handoffs than it may.

    Attributes:
        limit: How many there may be.
    """

    template = "there can be at most {limit} handoffs: use one of those that there are, or delete some first"
    permanent = True

    limit: int


class UnknownHandoffError(DispatchError, KeyError, ValueError):
    """There is no handoff of this name. The proposal raises a KeyError in one method and a ValueError in the others.

    Attributes:
        name: What was asked for.
        known: The names there are.
    """

    permanent = True

    name: str
    known: Sequence[str] = ()

    def __str__(self) -> str:
        advice = did_you_mean(self.name, self.known) if self.known else "There are none."
        return f"there is no handoff {self.name!r}. {advice}"


class DispatcherSettingError(DispatchError, ValueError):
    """A dispatcher is given what can't work."""

    template = "{reason}"
    permanent = True

    reason: str


class DispatcherStateError(DispatchError, ValueError):
    """A saved state does not belong to this dispatcher; nothing has changed."""

    template = "the state can't be loaded: {reason}"
    permanent = True

    reason: str
