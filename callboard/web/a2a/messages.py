"""Messages of clients: the task in one, or the answer to a question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from a2a.types import Message, Role, SendMessageRequest
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError, UnsupportedOperationError
from google.protobuf.json_format import MessageToDict, MessageToJson

from callboard.core.answers import answer_of
from callboard.runs.events import Event, InputResponseEvent

from .story import Asking

LONGEST_ID: Final = 200  # characters
INPUTS: Final = ("text/plain", "application/json")
OUTPUTS: Final = INPUTS
NO_PUSH: Final = "push notifications are not sent from here; subscribe to the task, or get it"


def check(params: SendMessageRequest) -> None:
    """Refuse a message that can't be taken.

    Raises:
        A2AError: It can't.
    """
    message, wanted = params.message, params.configuration.accepted_output_modes
    if params.configuration.HasField("task_push_notification_config"):
        raise UnsupportedOperationError(NO_PUSH)
    if message.role != Role.ROLE_USER:
        raise InvalidParamsError("a message of a client has the role ROLE_USER")
    for name, given in (("message_id", message.message_id), ("context_id", message.context_id)):
        if len(given) > LONGEST_ID:
            raise InvalidParamsError(f"{name} has {LONGEST_ID} characters at most")
    if wanted and not any(mode in (*OUTPUTS, "*/*", "text/*") for mode in wanted):
        raise ContentTypeNotSupportedError(f"what comes out is {' or '.join(OUTPUTS)}")
    if any(part.WhichOneof("content") not in ("text", "data") for part in message.parts):
        raise ContentTypeNotSupportedError("only parts with text or data are taken here")


def text_of(message: Message) -> str:
    """The text of a message, with its data as JSON.

    Raises:
        InvalidParamsError: There is none.
    """
    parts = [part.text if part.HasField("text") else MessageToJson(part.data) for part in message.parts]
    text = "\n".join(filter(None, parts))
    if not text:
        raise InvalidParamsError("a message has a text, or data")
    return text


def value_for(
    message: Message, id: str, choices: Sequence[str], schema: Mapping[str, Any], details: Mapping[str, Any]
) -> Any:
    """A message as the answer to a question: its data as they are, or what its text says.

    Args:
        message: The message.
        id: Of the question.
        choices: Its choices.
        schema: JSON schema of its answer.
        details: What is shown with it.

    Raises:
        InputValueError: Its text can't be understood (a ValueError).
        InvalidParamsError: It has neither.
    """
    data = [part.data for part in message.parts if part.HasField("data")]
    if data:
        return MessageToDict(data[0])
    return answer_of(text_of(message), id, choices, schema, details)


def is_repeated(message: Message, events: Sequence[Event], name: str) -> bool:
    """Whether a message says again what the last answer said: a client whose connection broke sends it again.

    Args:
        message: The message.
        events: Those of the run.
        name: Of the one who asks.
    """
    asked = {event.request_id: event for event in events if isinstance(event, Asking)}
    given = [event for event in events if isinstance(event, InputResponseEvent) and event.by == name]
    question = asked.get(given[-1].request_id) if given else None
    if question is None:
        return False
    how = question.choices, question.answer_schema, question.details
    try:
        return bool(value_for(message, question.request_id, *how) == given[-1].value)
    except (ValueError, InvalidParamsError):
        return False
