"""Requests that say what answers them, so that type checkers and declarations of handlers know it too."""

from __future__ import annotations

import sys
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, get_args, get_origin, get_type_hints

ResponseT = TypeVar("ResponseT")
ResponseT_co = TypeVar("ResponseT_co", covariant=True)

UNKNOWN: Final = object()
"""Stands for the response of a message that does not say it."""


if TYPE_CHECKING:

    class Request(Generic[ResponseT_co]):
        """A base for a request that names the class of its response, beside pydantic's or under `@dataclass`.

        ```python
        class HowMany(BaseModel, Request[Count]): ...
        ```

        `await self.send_message(HowMany(), ...)` is a `Count` for type checkers then, and a handler of `HowMany` that
        declares another response is refused. Any other message can be a request as well: its response is `Any`.
        """

else:
    # Not typing.Generic, which pydantic warns of when it comes before BaseModel.
    class Request:
        """A base for a request that names the class of its response, beside pydantic's or under `@dataclass`.

        `await self.send_message(HowMany(), ...)` is a `Count` for type checkers if `HowMany` derives from `Request[Count]`,
        and a handler of `HowMany` that declares another response is refused. Any other message can be a request as well.
        """

        __slots__ = ()

        def __class_getitem__(cls, response: object) -> GenericAlias:
            return GenericAlias(cls, response)


def response_of(request: type[Any]) -> Any:
    """What a message class says of its response: an annotation, or UNKNOWN.

    Raises:
        NameError: It names a class that is not there, or not yet.
    """
    for cls in request.__mro__:
        for base in vars(cls).get("__orig_bases__", ()):
            if get_origin(base) is Request:
                return _resolved(get_args(base)[0], cls)
    return UNKNOWN


def _resolved(annotation: Any, cls: type[Any]) -> Any:
    def holder() -> None: ...

    holder.__annotations__ = {"response": annotation}
    names = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    return get_type_hints(holder, globalns=dict(names))["response"]
