"""The nodes and edges of a graph of members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from callboard.messages.base import BaseChatMessage
from callboard.teams.errors import GraphConditionError

Condition: TypeAlias = Callable[[BaseChatMessage], bool]
Activation: TypeAlias = Literal["all", "any"]


class DiGraphEdge(BaseModel):
    """From a node to one that follows.

    Attributes:
        target: Name of the node that follows.
        condition: What has to be in the last message of the first node; a text, or None: anything. A function that is given
            here is in `condition_function`. AutoGen leaves a function out of a dump without a word, and the edge is taken
            always when that is loaded; here such an edge can't be dumped.
        condition_function: Says of the last message whether the edge is taken.
        activation_group: Edges to one node are counted by group; "": the target's name.
        activation_condition: Whether "all" edges of the group have to be taken before the target speaks, or "any".
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    target: str
    condition: str | Condition | None = None
    condition_function: Condition | None = Field(default=None, exclude=True)
    activation_group: str = ""
    activation_condition: Activation = "all"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if callable(self.condition):
            self.condition_function, self.condition = self.condition, None
        self.activation_group = self.activation_group or self.target
        return self

    @model_serializer(mode="wrap")
    def _dump(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        self.check_is_plain()
        data: dict[str, Any] = dump(self)
        return data

    @property
    def is_conditional(self) -> bool:
        """Whether it is not always taken."""
        return self.condition is not None or self.condition_function is not None

    def check_condition(self, message: BaseChatMessage) -> bool:
        """Whether it is taken after a message."""
        if self.condition_function is not None:
            return self.condition_function(message)
        return not isinstance(self.condition, str) or self.condition in message.to_model_text()

    def check_is_plain(self) -> None:
        """Refuse to be dumped with a function.

        Raises:
            GraphConditionError: There is one (a ValueError).
        """
        if self.condition_function is not None:
            raise GraphConditionError(self.target)


class DiGraphNode(BaseModel):
    """A member in a graph.

    Attributes:
        name: The member's name.
        edges: To whom follows.
        activation: "any": each group of edges to this node counts as "any", which AutoGen documents and does not do.
    """

    name: str
    edges: list[DiGraphEdge] = Field(default_factory=list)
    activation: Activation = "all"
