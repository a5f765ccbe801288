"""What a config that is being loaded may ask for, as the caller of `load_component` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from .dumping import provider_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """What a config may ask for.

    Attributes:
        providers: Component classes by their providers, besides those of the list.
        modules: Modules and packages whose functions it may name.
        commands: Programs that it may have started.
        hosts: Servers that may be sent the keys of the environment, or reached at private addresses.
    """

    providers: Mapping[str, type[Any]] = field(default_factory=dict)
    modules: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()


NOTHING: Final = Permissions()

Providers: TypeAlias = Iterable[type[Any]] | Mapping[str, type[Any]]

_current: ContextVar[Permissions] = ContextVar("permissions", default=NOTHING)


def permissions() -> Permissions:
    """The permissions of the load that is under way; for `_from_config` of components that need one."""
    return _current.get()


@contextmanager
def allowing(
    providers: Providers,
    modules: Iterable[str],
    commands: Iterable[str],
    hosts: Iterable[str],
) -> Iterator[Permissions]:
    """Adds to the permissions while a component and those inside it are loaded."""
    before = _current.get()
    token = _current.set(
        Permissions(
            providers={**before.providers, **_by_provider(providers)},
            modules=before.modules.union(modules),
            commands=before.commands.union(commands),
            hosts=before.hosts.union(hosts),
        )
    )
    try:
        yield _current.get()
    finally:
        _current.reset(token)


def _by_provider(providers: Providers) -> dict[str, type[Any]]:
    if not isinstance(providers, Mapping):
        return {provider_of(cls): cls for cls in providers}
    return {str(name): cls for name, cls in providers.items()}
