"""Asking whether code may run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict

from callboard.memory.llm_messages import LLMMessage


class ApprovalRequest(BaseModel):
    """Asks whether code may run.

    Attributes:
        code: The blocks, each between fences as in Markdown, with an empty line between them.
        context: What the agent's model was told; empty for an agent without a model.
    """

    model_config = ConfigDict(frozen=True)

    code: str
    context: list[LLMMessage]


class ApprovalResponse(BaseModel):
    """Says whether code may run.

    Attributes:
        approved: Whether it may.
        reason: Why, or why not; the model and the others read it where it may not.
    """

    model_config = ConfigDict(frozen=True)

    approved: bool
    reason: str


SyncApprovalFunc: TypeAlias = Callable[[ApprovalRequest], ApprovalResponse]
AsyncApprovalFunc: TypeAlias = Callable[[ApprovalRequest], Awaitable[ApprovalResponse]]
ApprovalFuncType: TypeAlias = SyncApprovalFunc | AsyncApprovalFunc
