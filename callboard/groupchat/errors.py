"""Errors of group chats.

```
ActorError
└── GroupChatError
    ├── GroupChatDeclarationError    a group chat, an agent, or what it is asked for can't be like this
    ├── NoEligibleSpeakerError       no agent may speak next: a group chat ends then
    ├── UndefinedNextAgentError      none of the agents that may be next is in the group
    ├── AgentNameConflictError       several agents have the name that was asked for
    └── ExpressionError              an expression of AG2's patterns can't be, or be evaluated (callboard.ag2)
```
"""

from __future__ import annotations

from callboard.foundation import ActorError


class GroupChatError(ActorError):
    """The root of what is wrong with a group chat, or with what it is asked for."""


class GroupChatDeclarationError(GroupChatError, ValueError, TypeError, KeyError, RuntimeError):
    """A group chat, an agent of it, or what one of them is asked for can't be like this.

    A ValueError; AG2 raises a TypeError, a KeyError or a RuntimeError for some of it, so it is one of these, too.
    """

    template = "{reason}"
    permanent = True

    reason: str

    __str__ = GroupChatError.__str__  # KeyError's would show it in quotes


class NoEligibleSpeakerError(GroupChatError):
    """No agent may speak next. A group chat ends then."""

    template = "{reason}"

    reason: str = "Nobody may speak next."


class UndefinedNextAgentError(GroupChatError):
    """None of the agents that may be next is in the group."""

    template = "{reason}"

    reason: str = "None of these agents is in the group chat."


class AgentNameConflictError(GroupChatError):
    """Several agents have the name that was asked for."""

    template = "Several agents are named {name!r}."

    name: str
