"""Messages to models and from them, with the names and fields of `autogen_core.models`.

Every one of them can be sent as a message of the bus, also with images in a list, which AutoGen's own can't.
They are values: frozen, and equal when their fields are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from .image import Image as Image  # noqa: PLC0414 - passed on


@dataclass(frozen=True)
class FunctionCall:
    """A call that the model asks for.

    Attributes:
        id: tells the calls of one answer apart; the result carries it back.
        arguments: a JSON object as text, as the model wrote it; it may not even be JSON.
        name: the tool's name.
    """

    id: str
    arguments: str
    name: str


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True)


class SystemMessage(_Message):
    """An instruction of the developer for the model.

    Attributes:
        content: the text.
    """

    content: str
    type: Literal["SystemMessage"] = "SystemMessage"


class UserMessage(_Message):
    """A message of a person or of another agent.

    Attributes:
        content: a text, or texts and images in their order.
        source: name of the agent or person it comes from.
    """

    content: str | list[str | Image]
    source: str
    type: Literal["UserMessage"] = "UserMessage"


class AssistantMessage(_Message):
    """An answer of the model.

    Attributes:
        content: a text, or the calls it asks for.
        thought: its reasoning, or the text that came along with calls; None: there was none.
        source: name of the agent that the model answered for.
    """

    content: str | list[FunctionCall]
    thought: str | None = None
    source: str
    type: Literal["AssistantMessage"] = "AssistantMessage"


class FunctionExecutionResult(_Message):
    """The result of one call.

    Attributes:
        content: the output, or the error, as text for the model.
        name: the tool's name.
        call_id: the id of the FunctionCall; some models give none, then it is "".
        is_error: whether it failed; None: unknown.
    """

    content: str
    name: str
    call_id: str
    is_error: bool | None = None


class FunctionExecutionResultMessage(_Message):
    """The results of the calls of the AssistantMessage before it.

    Attributes:
        content: one result for each call.
    """

    content: list[FunctionExecutionResult]
    type: Literal["FunctionExecutionResultMessage"] = "FunctionExecutionResultMessage"


LLMMessage: TypeAlias = Annotated[
    SystemMessage | UserMessage | AssistantMessage | FunctionExecutionResultMessage,
    Field(discriminator="type"),
]
