"""Handing a conversation over to another agent, as a tool that models call."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from callboard.memory.llm_messages import LLMMessage
from callboard.tools.function import FunctionTool

MAX_NAME: Final = 64  # characters; the limit of OpenAI's API


@dataclass(frozen=True, slots=True)
class HandoffInput:
    """What an input filter chooses from.

    Attributes:
        target: Name of the agent who goes on.
        along: What goes along without a filter: the other calls of the model's answer, with their results.
        seen: What the model saw of the conversation when it chose to hand over, without the system message.
    """

    target: str
    along: Sequence[LLMMessage]
    seen: Sequence[LLMMessage]


InputFilter: TypeAlias = Callable[[HandoffInput], Sequence[LLMMessage] | Awaitable[Sequence[LLMMessage]]]
"""What goes along with a handoff. In a handler it has to return the same in every attempt."""


def default_name(target: str) -> str:
    """The name of the tool that hands over to an agent, in ASCII and of at most 64 characters."""
    plain = unicodedata.normalize("NFKD", f"transfer_to_{target}").encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_]+", "_", plain).lower()[:MAX_NAME]


class Handoff(BaseModel):
    """Hands the conversation over to an agent: what a model reads about it, and what is said then.

    Attributes:
        target: Name of the agent who goes on.
        description: When to do it, for the model; "": "Handoff to <target>."
        name: Name of the tool; "": ``transfer_to_<target>`` in lower case, as far as tools can have that name: AutoGen
            makes "transfer_to_my agent" of "My Agent", which servers refuse.
        message: What is said; "": that the target takes over.
        input_filter: Chooses what the target's model gets to know beside `message`: the `context` of the HandoffMessage.
            What the members of a team hear from each other is not touched by it. It is not dumped. AutoGen has none.
    """

    model_config = ConfigDict(frozen=True)

    target: str
    description: str = Field(default="")
    name: str = Field(default="")
    message: str = Field(default="")
    input_filter: SkipJsonSchema[InputFilter | None] = Field(default=None, exclude=True, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, given: Any) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("target"), str):
            return given
        target = given["target"]
        usual = {
            "description": f"Handoff to {target}.",
            "name": default_name(target),
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
