"""Messages of roles, their content as plain data, and the memory that keeps them."""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    field_serializer,
    field_validator,
)

from callboard.broker.codec import message as wire

from .errors import MessageDataError, RoleDeclarationError

MESSAGE_ROUTE_FROM: Final = "sent_from"
MESSAGE_ROUTE_TO: Final = "send_to"
MESSAGE_ROUTE_CAUSE_BY: Final = "cause_by"
MESSAGE_ROUTE_TO_ALL: Final = "<all>"
MESSAGE_ROUTE_TO_NONE: Final = "<none>"
MESSAGE_ROUTE_TO_SELF: Final = "<self>"
MESSAGE_ROUTES: Final = frozenset({MESSAGE_ROUTE_TO_ALL, MESSAGE_ROUTE_TO_NONE, MESSAGE_ROUTE_TO_SELF})

JOINED: Final = ":join"  # ends the topic of those who hear all subtasks together
_NOT_IN_NAMES: Final = re.compile(r"[^\w.\-]")


def any_to_str(value: Any) -> str:
    """A text as it is; of anything else the module and name of its class, such as ``factory.WriteCode``."""
    if isinstance(value, str):
        return value
    cls = value if isinstance(value, type) else type(value)
    return f"{_module_of(cls)}.{cls.__name__}"


def any_to_str_set(value: Any) -> set[str]:
    """`any_to_str` of one thing, or of each in a list, tuple, set or dict."""
    if isinstance(value, dict):
        return {any_to_str(one) for one in value.values()}
    if isinstance(value, Iterable) and not isinstance(value, str | type):
        return {any_to_str(one) for one in value}
    return {any_to_str(value)}


def _module_of(cls: type[Any]) -> str:
    """The module of a class, by the name under which other processes import it."""
    if cls.__module__ != "__main__":
        return cls.__module__
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m package.module
        return str(spec.name)
    file = getattr(main, "__file__", None)
    return Path(file).stem if file else cls.__module__


def bus_name(text: str) -> str:
    """A text as an agent type or topic type: other characters than letters, digits, ``_``, ``-`` and ``.`` by number."""
    return _NOT_IN_NAMES.sub(lambda found: f"-x{ord(found[0]):x}-", text)


def topic_of(cause: str, *, joined: bool = False) -> str:
    """The topic type of an action.

    Args:
        cause: The action, see `any_to_str`.
        joined: For those who hear all subtasks together.
    """
    return bus_name(cause) + (JOINED if joined else "")


ContentT = TypeVar("ContentT", bound=type[BaseModel])

_known: Final[dict[str, type[BaseModel]]] = {}
_FIELDS: Final = {"type", "value"}


def known_content(cls: ContentT) -> ContentT:
    """Class decorator: contents of this class may be sent and read.

    ```python
    @known_content
    class Design(BaseModel): ...
    ```

    It is known by its module and name. The module has to be imported in every process that reads such messages.

    Raises:
        RoleDeclarationError: It is no pydantic model (a TypeError).
    """
    given: Any = cls
    if not (isinstance(given, type) and issubclass(given, BaseModel)):
        raise RoleDeclarationError(any_to_str(cls), "a content is a pydantic model")
    _known[any_to_str(cls)] = cls
    return cls


def _unknown(name: str) -> MessageDataError:
    advice = "put @known_content above the class, where every process imports it"
    return MessageDataError(f"contents of class {name!r} are not known: {advice}")


def check_content(content: BaseModel | None) -> None:
    """Refuse a content that no process could read.

    Raises:
        MessageDataError: Its class is not known (a ValueError).
    """
    if content is not None and _known.get(any_to_str(content)) is not type(content):
        raise _unknown(any_to_str(content))


def content_to_data(content: BaseModel) -> dict[str, Any]:
    """A content as plain data.

    Raises:
        MessageDataError: Its class is not known (a ValueError).
    """
    check_content(content)
    return {"type": any_to_str(content), "value": content.model_dump(mode="json", round_trip=True)}


def content_from_data(data: Any) -> BaseModel:
    """A content from what `content_to_data` made of it.

    Raises:
        MessageDataError: The data are no content, name a class that is not known, or do not fit it (a ValueError).
    """
    if not isinstance(data, dict) or set(data) != _FIELDS or not isinstance(data["type"], str):
        raise MessageDataError("instruct_content has to be a pydantic model")
    # guard: data that name another class make nothing
    cls = _known.get(data["type"])
    if cls is None:
        raise _unknown(data["type"][:200])
    return cls.model_validate(data["value"])


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
        """The message as a model reads it: role and content."""
        return {"role": self.role, "content": self.content}

    def dump(self) -> str:
        """JSON, without what is None.

        Raises:
            MessageDataError: The class of its content is not known (a ValueError).
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


class Storage(Protocol):
    """Where the messages are: a list, or a log of an agent's state."""

    def append(self, item: Message, /) -> None:
        """Add one at the end."""

    def clear(self) -> None:
        """Remove all."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Message]: ...


class Memory:
    """Messages in the order in which they came, each once.

    Args:
        storage: Where they are kept; a list without.
    """

    def __init__(self, storage: Storage | None = None) -> None:
        self._storage: Storage = [] if storage is None else storage
        self._ids: set[str] = set()

    @property
    def storage(self) -> list[Message]:
        """All of them, as a new list."""
        return list(self._storage)

    def add(self, message: Message) -> None:
        """Add a message; one that is there already stays as it is."""
        ids = self._known()
        if message.id not in ids:
            self._storage.append(message)
            ids.add(message.id)

    def add_batch(self, messages: Iterable[Message]) -> None:
        """Add several."""
        for message in messages:
            self.add(message)

    def get(self, k: int = 0) -> list[Message]:
        """The newest `k`, oldest first; 0: all."""
        found = self.storage
        return found[-k:] if k else found

    def get_by_role(self, role: str) -> list[Message]:
        """Those of "user", "assistant" or "system"."""
        return [message for message in self._storage if message.role == role]

    def get_by_content(self, content: str) -> list[Message]:
        """Those whose content has this in it."""
        return [message for message in self._storage if content in message.content]

    def get_by_action(self, action: Any) -> list[Message]:
        """Those that an action caused: its class, an object of it, or its name."""
        return self.get_by_actions({any_to_str(action)})

    def get_by_actions(self, actions: Iterable[Any]) -> list[Message]:
        """Those that one of several actions caused."""
        causes = any_to_str_set(set(actions))
        return [message for message in self._storage if message.cause_by in causes]

    def find_news(self, observed: Sequence[Message], k: int = 0) -> list[Message]:
        """Those of `observed` that are not among the newest `k`; 0: not in here at all."""
        known = self.get(k)
        return [message for message in observed if message not in known]

    def count(self) -> int:
        """How many there are."""
        return len(self._storage)

    def clear(self) -> None:
        """Forget all."""
        self._storage.clear()
        self._ids.clear()

    def __contains__(self, message: object) -> bool:
        return isinstance(message, Message) and message.id in self._known()

    def __len__(self) -> int:
        return len(self._storage)

    def _known(self) -> set[str]:
        # A handler that failed takes back what it added to the log, behind our back.
        if len(self._ids) != len(self._storage):
            self._ids = {message.id for message in self._storage}
        return self._ids
