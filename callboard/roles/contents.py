"""The classes that `instruct_content` may have: those that a program named. Data choose no other, nothing is evaluated."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from pydantic import BaseModel

from .errors import MessageDataError, RoleDeclarationError, UnknownContentError
from .names import any_to_str

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


def check_content(content: BaseModel | None) -> None:
    """Refuse a content that nobody could read.

    Raises:
        UnknownContentError: Its class is not known (a ValueError).
    """
    if content is not None and _known.get(any_to_str(content)) is not type(content):
        raise UnknownContentError(any_to_str(content))


def content_to_data(content: BaseModel) -> dict[str, Any]:
    """A content as plain data.

    Raises:
        UnknownContentError: Its class is not known (a ValueError).
    """
    check_content(content)
    return {"type": any_to_str(content), "value": content.model_dump(mode="json", round_trip=True)}


def content_from_data(data: Any) -> BaseModel:
    """A content from what `content_to_data` made of it.

    Raises:
        UnknownContentError: The data name a class that is not known (a ValueError).
        MessageDataError: They are no content, or do not fit the class (a ValueError).
    """
    if not isinstance(data, dict) or set(data) != _FIELDS or not isinstance(data["type"], str):
        raise MessageDataError("instruct_content has to be a pydantic model")
    # guard: data that name another class make nothing
    cls = _known.get(data["type"])
    if cls is None:
        raise UnknownContentError(data["type"][:200])
    return cls.model_validate(data["value"])
