"""Values whose fields hold models of any subclass, as plain data: such a model carries the name of its class.

AutoGen's team messages have fields of abstract classes (`BaseChatMessage`). Written as pydantic writes them nobody could
tell afterwards which class a model was. So each nested model that derives from another model is written with a tag, and
read as an instance of a class that this process knows: see classes.py.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from pydantic import BaseModel, RootModel

CLASS: Final = "$class"
NESTED: Final = frozenset({dict, list, tuple})


def add_tags(value: Any, data: Any) -> None:
    """Writes the class of each nested model beside its fields.

    Args:
        value: what was written.
        data: what pydantic made of it; it is changed.
    """
    if isinstance(value, RootModel):
        value = value.root
    if isinstance(data, dict):
        if isinstance(value, Mapping):
            for key, item in data.items():
                _tag(value.get(key), item)
        elif is_record(value.__class__):
            for name, item in data.items():
                if type(item) in NESTED:
                    _tag(getattr(value, name, None), item)
    elif isinstance(data, list | tuple) and isinstance(value, list | tuple):
        for inner, item in zip(value, data, strict=False):
            _tag(inner, item)


def _tag(value: Any, data: Any) -> None:
    if type(data) not in NESTED:
        return
    add_tags(value, data)
    if type(data) is dict and is_open(value.__class__):
        data[CLASS] = tag_of(value.__class__)


def resolve_tags(data: Any, load: Callable[[str, dict[str, Any]], Any]) -> Any:
    """Data with an object in the place of each tagged map, the innermost first.

    Args:
        data: what was read; it is changed.
        load: makes an object of a tag and the fields.
    """
    if type(data) is dict:
        for key, item in data.items():
            if type(item) in NESTED:
                data[key] = resolve_tags(item, load)
        tag = data.pop(CLASS, None)
        return load(tag, data) if isinstance(tag, str) else data
    if type(data) is list:
        for place, item in enumerate(data):
            if type(item) in NESTED:
                data[place] = resolve_tags(item, load)
    return data


@cache
def is_open(cls: Any) -> bool:
    """Whether it derives from another model, so that a field may have been declared with that one."""
    if issubclass(cls, BaseModel):
        return any(issubclass(base, BaseModel) and base is not BaseModel for base in cls.__mro__[1:])
    return any(dataclasses.is_dataclass(base) for base in cls.__mro__[1:]) and dataclasses.is_dataclass(cls)


@cache
def tag_of(cls: Any) -> str:
    """The name of a class, with those of the classes that a generic one was made with."""
    made_with: Mapping[str, Any] = getattr(cls, "__pydantic_generic_metadata__", {})
    origin, args = made_with.get("origin"), made_with.get("args", ())
    if origin is None or not args:
        return f"{cls.__module__}:{cls.__qualname__}"
    names = (tag_of(arg) if isinstance(arg, type) else str(arg) for arg in args)
    return f"{tag_of(origin)}[{','.join(names)}]"


@cache
def is_record(cls: Any) -> bool:
    """Whether a class has fields: a model or a dataclass."""
    return issubclass(cls, BaseModel) or dataclasses.is_dataclass(cls)
