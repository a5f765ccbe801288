"""The state of an agent that runs code, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel


class CodeExecutorAgentState(BaseModel):
    """The state of a CodeExecutorAgent. AutoGen's has none.

    Attributes:
        llm_context: The state of its model context; None: it is kept elsewhere, or AutoGen's state was read.
    """

    type: str = "CodeExecutorAgentState"
    version: str = "1.0.0"
    llm_context: Mapping[str, Any] | None = None
