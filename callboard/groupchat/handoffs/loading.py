"""Targets from plain data, as they travel in messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from callboard.groupchat.errors import HandoffError

from .agent_targets import AgentNameTarget, RandomAgentTarget
from .function_target import FunctionTarget
from .manager_target import (
    FILLED,
    GroupManagerSelectionMessageContextStr,
    GroupManagerSelectionMessageString,
    GroupManagerTarget,
)
from .other_targets import AskUserTarget, RevertToUserTarget, StayTarget, TerminateTarget
from .target import TransitionTarget

PLAIN: Final[Mapping[str, type[TransitionTarget]]] = {
    one.kind: one for one in (AskUserTarget, RevertToUserTarget, StayTarget, TerminateTarget)
}


def load_target(data: Mapping[str, Any], functions: Mapping[str, FunctionTarget]) -> TransitionTarget:
    """The target of what `dump` returned.

    Args:
        data: The plain data.
        functions: The functions that are known, by name; no other is called.

    Raises:
        HandoffError: It is none (a ValueError).
    """
    match data:
        case {"kind": AgentNameTarget.kind, "agent_name": str(name)}:
            return AgentNameTarget(name)
        case {"kind": RandomAgentTarget.kind, "agent_names": list(names)}:
            return RandomAgentTarget.of([str(name) for name in names])
        case {"kind": GroupManagerTarget.kind, "message": str(text)}:
            filled = GroupManagerSelectionMessageContextStr(text)
            return GroupManagerTarget(
                filled if data.get(FILLED) else GroupManagerSelectionMessageString(text)
            )
        case {"kind": GroupManagerTarget.kind}:
            return GroupManagerTarget()
        case {"kind": FunctionTarget.kind, "name": str(name)} if name in functions:
            return functions[name]
        case {"kind": FunctionTarget.kind, "name": str(name)}:
            raise HandoffError(
                f"The function {name!r} is no target of a condition of this group: give it to an OnCondition, an "
                "OnContextCondition or an after-work of an agent."
            )
        case {"kind": str(kind)} if kind in PLAIN:
            return PLAIN[kind]()
        case _:
            raise HandoffError(f"This is no target: {data!r:.80}.")
