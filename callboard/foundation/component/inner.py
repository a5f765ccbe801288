"""Components inside components."""

from __future__ import annotations

from .errors import NotDumpableError
from .loading import is_component_instance
from .model import ComponentModel


def dumped(part: object, owner: object) -> ComponentModel:
    """The dump of a part of another component.

    Args:
        part: What is to be dumped.
        owner: The component that it is a part of.

    Raises:
        NotDumpableError: It is no component (a TypeError).
    """
    if not is_component_instance(part):
        reason = f"its {type(part).__name__} is no component: derive that from Component and its interface"
        raise NotDumpableError(type(owner).__qualname__, reason)
    return part.dump_component()
