"""A handoff with arguments."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from callboard.agents.handoff import Handoff
from callboard.cancellation import CancellationToken
from callboard.tools.base import BaseTool
from callboard.tools.function import FunctionTool


class TypedHandoff(Handoff):
    """A handoff with arguments, which the model writes and the target reads behind the message, as JSON.

    In the manner of `input_type` of OpenAI's Agents SDK; AutoGen has none. It is not saved: add it in your program.

    Attributes:
        input_type: The model of the arguments.
    """

    input_type: SkipJsonSchema[type[BaseModel]] = Field(exclude=True, repr=False)

    @property
    def handoff_tool(self) -> FunctionTool:
        """The tool that a model calls to hand over; it takes the arguments and returns message and arguments."""
        return cast("FunctionTool", _HandingOver(self))


class _HandingOver(BaseTool[BaseModel, str]):
    def __init__(self, handoff: TypedHandoff) -> None:
        super().__init__(handoff.input_type, str, handoff.name, handoff.description)
        self._message = handoff.message

    async def run(self, args: Any, cancellation_token: CancellationToken) -> str:
        return f"{self._message}\n{args.model_dump_json()}"
