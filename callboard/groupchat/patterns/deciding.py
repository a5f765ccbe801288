"""A function decides who is next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from callboard.groupchat.agent import Message
from callboard.groupchat.content import text_of
from callboard.groupchat.errors import HandoffError
from callboard.groupchat.handoffs.agent_targets import AgentNameTarget
from callboard.groupchat.handoffs.function_target import FunctionTarget, FunctionTargetResult
from callboard.groupchat.handoffs.loading import load_target
from callboard.groupchat.handoffs.other_targets import RevertToUserTarget
from callboard.groupchat.handoffs.target import TransitionTarget, Whereabouts
from callboard.groupchat.notes import Note
from callboard.groupchat.sharing import changes, snapshot, take_over
from callboard.groupchat.waiting import value_of
from callboard.runtime.steps import NumberedStep, running_context

TOLD: Final = "[FUNCTION_HANDOFF] - Reply from function {name}: \n\n {content}"


async def decide(
    target: FunctionTarget, at: Whereabouts, messages: Sequence[Message]
) -> tuple[TransitionTarget, list[Note]]:
    """Call the function of a target; on the bus what it decided is recorded, so that it is called once.

    Args:
        target: The target.
        at: Where the chat stands; its context variables are changed.
        messages: What was said.

    Returns:
        Who is next, and what is told to whom.

    Raises:
        HandoffError: It returned something else than a FunctionTargetResult with a target (a ValueError).
    """
    said = text_of(messages[-1].get("content")) if messages else ""
    step = NumberedStep.begin(f"target:{target.fn_name}")

    async def call() -> dict[str, Any]:
        before = snapshot(at.context_variables)
        result = await value_of(target.fn(said, at.context_variables))
        if not isinstance(result, FunctionTargetResult) or result.target is None:
            raise HandoffError(
                f"The function {target.fn_name!r} has to return a FunctionTargetResult with a target."
            )
        at.context_variables.update(result.context_variables or {})
        changed = {} if running_context() is None else changes(before, at.context_variables)
        return {"target": result.target.dump(), "told": _told(result, at), "changes": changed}

    decided = await (call() if step is None else step.run(call))
    # guard: what a function that decides has changed is changed when its record is read
    take_over(at.context_variables, decided["changes"])
    notes = [Note(to, _message(target.fn_name, content)) for to, content in decided["told"]]
    return load_target(decided["target"], {}), notes


def _told(result: FunctionTargetResult, at: Whereabouts) -> list[list[str]]:
    """Names and texts."""
    if not result.messages:
        return []
    if not isinstance(result.messages, str):
        return [[one.msg_target.name, one.content] for one in result.messages]
    to = at.current
    if isinstance(result.target, AgentNameTarget):
        to = result.target.agent_name
    elif isinstance(result.target, RevertToUserTarget) and at.user is not None:
        to = at.user
    return [[to, result.messages]]


def _message(function: str, content: str) -> Message:
    return {"role": "system", "name": function, "content": TOLD.format(name=function, content=content)}
