"""What roles say to each other."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_serializer,
    field_validator,
)

from callboard.broker.encoding.registry import message as wire

from .contents import check_content, content_from_data, content_to_data
from .errors import MessageDataError
from .names import MESSAGE_ROUTE_TO_ALL, any_to_str, any_to_str_set

USER_REQUIREMENT = f"{__package__}.action.UserRequirement"


class Part(NamedTuple):
    """One of several subtasks that one act gave out.

    Attributes:
        split: Of which act: the id of the message that was handled, and the action.
        number: Which one, from 1.
        of: How many there are.
    """

    split: str
    number: int
    of: int


@wire(name="callboard.roles.Message")
class Message(BaseModel):
    """One message. Its action, `cause_by`, is the topic that roles watch.

    Attributes:
        content: What is said.
        instruct_content: The same as data: a model whose class is marked with `known_content`.
        role: "system", "user" or "assistant".
        cause_by: The action that made it, as ``module.Class``; a class or an object may be given. UserRequirement without.
        sent_from: Name of the role that sent it, or its class; "" from outside.
        send_to: Who gets it: names or classes of roles, ``<all>`` who watch `cause_by`, ``<self>``, or ``<none>``.
        metadata: What else goes along, as JSON.
        id: Made when it is left out. A message from outside with the id of an earlier one is not sent again (for
            `dedupe_window`, a day).
        max_rounds: How often each role may act in what follows from this message; None: as the message that is
            handled says, else the environment.
        acts: How often each role has acted in what led to it.
        subtask: Which part of the work it belongs to, the outermost split first; set when it is sent.
    """

    model_config = ConfigDict(validate_assignment=True)

    id: str = Field(default="", validate_default=True)
    content: str = ""
    instruct_content: BaseModel | None = None
    role: str = "user"
    cause_by: str = Field(default="", validate_default=True)
    sent_from: str = ""
    send_to: set[str] = Field(default={MESSAGE_ROUTE_TO_ALL}, validate_default=True)
    metadata: dict[str, JsonValue] = Field(default_factory=dict)
    max_rounds: int | None = Field(default=None, ge=1)
    acts: dict[str, int] = Field(default_factory=dict)
    subtask: tuple[Part, ...] = ()

    def __init__(self, content: str = "", **data: Any) -> None:
        super().__init__(content=content, **data)

    @field_validator("id", mode="before")
    @classmethod
    def _check_id(cls, value: Any) -> Any:
        return value or uuid.uuid4().hex

    @field_validator("instruct_content", mode="before")
    @classmethod
    def _check_content(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, BaseModel) else content_from_data(value)

    @field_validator("cause_by", mode="before")
    @classmethod
    def _check_cause(cls, value: Any) -> str:
        return any_to_str(value) if value else USER_REQUIREMENT

    @field_validator("sent_from", mode="before")
    @classmethod
    def _check_sender(cls, value: Any) -> str:
        return any_to_str(value) if value else ""

    @field_validator("send_to", mode="before")
    @classmethod
    def _check_recipients(cls, value: Any) -> set[str]:
        return any_to_str_set(value) if value else {MESSAGE_ROUTE_TO_ALL}

    @field_serializer("instruct_content")
    def _content_as_data(self, content: BaseModel | None) -> dict[str, Any] | None:
        return None if content is None else content_to_data(content)

    @field_serializer("send_to")
    def _recipients_in_order(self, send_to: set[str]) -> list[str]:
        return sorted(send_to)

    @property
    def has_cause(self) -> bool:
        """Whether its maker said what caused it."""
        return "cause_by" in self.model_fields_set

    @property
    def part(self) -> str:
        """Its subtask as text, such as "3", or "3.1" of a subtask that was split again; "" when it is of none."""
        return ".".join(str(part.number) for part in self.subtask)

    def to_dict(self) -> dict[str, str]:
        """What a model reads: role and content."""
        return {"role": self.role, "content": self.content}

    def dump(self) -> str:
        """JSON, without what is None.

        Raises:
            UnknownContentError: The class of its content is not known (a ValueError).
        """
        check_content(self.instruct_content)
        return self.model_dump_json(exclude_none=True)

    @classmethod
    def load(cls, text: str) -> Self | None:
        """A message from what `dump` returned.

        Returns:
            None when it is no JSON object, as in MetaGPT.

        Raises:
            MessageDataError: It is one that does not fit, or names a class that is not known (a ValueError).
        """
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            if any(one["type"] in ("json_invalid", "model_type") for one in error.errors()):
                return None
            raise MessageDataError(f"{error.errors()[0]['loc']}: {error.errors()[0]['msg']}") from error

    def __str__(self) -> str:
        return f"{self.role}: {self.content}"


class UserMessage(Message):
    """A message of a user."""

    def __init__(self, content: str = "", **data: Any) -> None:
        super().__init__(content, **{**data, "role": "user"})


class SystemMessage(Message):
    """A message to a model, about what it is to do."""

    def __init__(self, content: str = "", **data: Any) -> None:
        super().__init__(content, **{**data, "role": "system"})


class AIMessage(Message):
    """A message of a model or a role."""

    def __init__(self, content: str = "", **data: Any) -> None:
        super().__init__(content, **{**data, "role": "assistant"})


def plain_message(message: Message) -> Message:
    """The message as it travels: of the class Message, whatever subclass it was."""
    if type(message) is Message:
        return message
    # What was left out stays left out: so the action is found that caused it.
    return Message(**{name: getattr(message, name) for name in {"id", *message.model_fields_set}})
