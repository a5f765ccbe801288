"""From a provider to the class that it names: only by the list, never by importing what a config says."""

from __future__ import annotations

import difflib
import importlib
from typing import Any, Final, TypeVar

from .dumping import provider_of
from .errors import ComponentDeclarationError, UnknownProviderError
from .permissions import permissions
from .providers import AUTOGEN, AUTOGEN_PACKAGES, ELSEWHERE, PROVIDERS

ClassT = TypeVar("ClassT", bound=type[Any])

HINT: Final = "register the class with register_component, or give it to load_component as providers=[...]"

_registered: dict[str, type[Any]] = {}


def register_component(cls: ClassT) -> ClassT:
    """Put a component class of your own on the list of those that `load_component` may make; also a decorator.

    It is found by the provider that its dumps name: `component_provider_override`, else module and name of the class.

    Raises:
        ComponentDeclarationError: It is no component (an AttributeError).
        ValueError: Another class, or one of ours, has this provider.
    """
    if not hasattr(cls, "component_config_schema"):
        raise ComponentDeclarationError(cls.__qualname__, "component_config_schema")
    provider = provider_of(cls)
    other = _registered.get(provider)
    # The same class once more, after its module was loaded again, takes the place of the old one.
    is_other = other is not None and _place(other) != _place(cls)
    if is_other or _is_listed(own_name(provider)):
        raise ValueError(f"{provider!r} is the provider of another class: set component_provider_override")
    _registered[provider] = cls
    return cls


def class_of(provider: str) -> type[Any]:
    """The class that a provider names.

    Raises:
        UnknownProviderError: It is not on the list (a ValueError).
    """
    name = own_name(provider)
    given = permissions().providers
    for known in (given.get(provider), given.get(name), _registered.get(provider)):
        if known is not None:
            return known
    if not _is_listed(name):
        raise UnknownProviderError(provider, _hint(provider, name))
    package, _, attribute = name.rpartition(".")
    # Both halves are words of our own list.
    found: type[Any] | None = getattr(importlib.import_module(package), attribute, None)
    if found is None:
        raise UnknownProviderError(provider, "this version of Callboard does not have it")
    return found


def own_name(provider: str) -> str:
    """Our name for what AutoGen calls by another; any other provider as it is."""
    if provider in AUTOGEN:
        return AUTOGEN[provider]
    package, _, attribute = provider.rpartition(".")
    return f"{AUTOGEN_PACKAGES[package]}.{attribute}" if package in AUTOGEN_PACKAGES else provider


def _is_listed(name: str) -> bool:
    package, _, attribute = name.rpartition(".")
    return attribute in PROVIDERS.get(package, ())


def _hint(provider: str, name: str) -> str:
    if provider in ELSEWHERE:
        return ELSEWHERE[provider]
    known = [f"{package}.{attribute}" for package, names in PROVIDERS.items() for attribute in names]
    close = difflib.get_close_matches(name, [*known, *_registered], n=1, cutoff=0.85)
    return f"did you mean {close[0]!r}? If it is yours, {HINT}" if close else HINT


def _place(cls: type[Any]) -> tuple[str, str]:
    return cls.__module__, cls.__qualname__
