"""What a message of a group chat has to be like, before it is taken as a task."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from callboard.messages.base import BaseChatMessage

from .errors import MessageError
from .message import ConversationMessage


class _Function(BaseModel):
    name: str
    arguments: str = ""


class _Call(BaseModel):
    function: _Function
    type: str = "function"


class _Response(BaseModel):
    content: Any
    tool_call_id: str = ""


class _Shape(BaseModel):
    content: Any
    name: str = ""
    role: str = ""
    tool_calls: list[_Call] = []
    tool_responses: list[_Response] = []
    function_call: _Function | None = None


def check_shape(message: BaseChatMessage) -> None:
    """Refuse a message that members and managers could not read: in a conversation it would end every run to come.

    Raises:
        MessageError: It has no content, or a part of it is of another kind (a ValueError).
    """
    if not isinstance(message, ConversationMessage):
        return
    # What is empty is not there.
    given = {key: value for key, value in message.data.items() if value or key == "content"}
    try:
        _Shape.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise MessageError(message.source, f"{place}: {first['msg']}") from None
