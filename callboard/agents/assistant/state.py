"""The state of an assistant as plain data, in AutoGen's shape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, Field


class AssistantAgentState(BaseModel):
    """The state of an assistant; AutoGen's can be read, and AutoGen can read this.

    Attributes:
        llm_context: The state of its model context.
    """

    type: Literal["AssistantAgentState"] = "AssistantAgentState"
    version: str = "1.0.0"
    llm_context: Mapping[str, Any] = Field(default_factory=lambda: {"messages": []})
