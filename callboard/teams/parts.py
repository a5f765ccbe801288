"""A conversation as plain data, by the agents that have a part in it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class Part(BaseModel):
    """The part of a conversation that one agent has, and for a team those of its members.

    Attributes:
        data: Fields of its state.
        logs: Items of its logs, by field.
        members: Parts of the members that had taken part by then.
    """

    model_config = ConfigDict(frozen=True)

    data: dict[str, Any] = Field(default_factory=dict)
    logs: dict[str, list[Any]] = Field(default_factory=dict)
    members: dict[str, Part] = Field(default_factory=dict)
