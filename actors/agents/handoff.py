"""Handing a conversation over to another agent, as a tool that models call."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from callboard.tools.function import FunctionTool


class Handoff(BaseModel):
    """Hands the conversation over to an agent: what a model reads about it, and what is said then.

    Attributes:
        target: Name of the agent who goes on.
        description: When to do it, for the model; "": "Handoff to <target>."
        name: Name of the tool; "": ``transfer_to_<target>``, in lower case.
        message: What is said; "": that the target takes over.
    """

    model_config = ConfigDict(frozen=True)

    target: str
    description: str = Field(default="")
    name: str = Field(default="")
    message: str = Field(default="")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("target"), str):
            return given
        target = given["target"]
        usual = {
            "description": f"Handoff to {target}.",
            "name": f"transfer_to_{target}".lower(),
            "message": f"Transferred to {target}, adopting the role of {target} immediately.",
        }
        completed = {**given, **{field: text for field, text in usual.items() if not given.get(field)}}
        if isinstance(completed["name"], str) and not completed["name"].isidentifier():
            raise ValueError(f"Handoff name must be a valid identifier, not {completed['name']!r}.")
        return completed

    @property
    def handoff_tool(self) -> FunctionTool:
        """The tool that a model calls to hand over; it takes nothing and returns `message`."""

        def hand_over() -> str:
            return self.message

        return FunctionTool(hand_over, name=self.name, description=self.description, strict=True)
