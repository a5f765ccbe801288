"""Resources of a process: opened before its worker takes messages, closed after it has drained."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias, TypeVar, cast, get_args, get_type_hints, overload

from callboard.errors import DeclarationError, MisuseError, UnknownNameError

T = TypeVar("T")
Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Any] | AsyncIterator[Any]]
Replacements: TypeAlias = Mapping[str | type[Any], Any]
"""Objects that take the place of resources, by the resource's name or type."""


@dataclass(frozen=True, slots=True)
class DeclaredResource:
    """A resource that an App declares.

    Attributes:
        name: By which it is found.
        opening: Makes the context manager that opens and closes it.
        types: Agent types in whose processes it is opened; empty: all.
    """

    name: str
    opening: Callable[[], AbstractAsyncContextManager[Any]]
    types: frozenset[str] = frozenset()

    @classmethod
    def of(cls, opening: object, name: str | None, types: Iterable[str]) -> DeclaredResource:
        """A resource by the function that opens it.

        Raises:
            DeclarationError: It is no such function, or takes arguments (a TypeError).
        """
        called = name or str(getattr(opening, "__name__", repr(opening)))
        if not callable(opening) or inspect.iscoroutinefunction(opening) or _arguments(opening):
            raise DeclarationError(
                f"{called} can't be a resource",
                "write an async function without arguments that yields it once, such as "
                "`async def pool() -> AsyncIterator[Pool]:`, or one that returns an async context manager.",
            )
        manager = asynccontextmanager(opening) if inspect.isasyncgenfunction(opening) else opening
        return cls(called, cast("Callable[[], AbstractAsyncContextManager[Any]]", manager), frozenset(types))

    def declared_class(self) -> type[Any] | None:
        """The class that its annotation promises; None: none, or one that can't be read at run time."""
        function = inspect.unwrap(self.opening)
        try:
            returned = get_type_hints(function).get("return")
        except (NameError, TypeError):  # imported for type checkers only: the class of the object counts then
            return None
        promised = returned if isinstance(returned, type) else next(iter(get_args(returned)), None)
        return None if promised is None or not isinstance(promised, type) else promised

    def is_for(self, agent_types: Collection[str]) -> bool:
        """Whether a process opens it that works for these agent types."""
        return bool(agent_types) and (not self.types or not self.types.isdisjoint(agent_types))


class OpenResource(NamedTuple):
    """A resource while it is open.

    Attributes:
        value: The object.
        promised: The class by which it is found.
    """

    value: Any
    promised: type[Any]


@dataclass(slots=True)
class OpenResources:
    """The resources that one process has open, by name."""

    by_name: dict[str, OpenResource] = field(default_factory=dict[str, OpenResource])

    def add(self, name: str, value: Any, promised: type[Any] | None) -> None:
        """Adds one that has been opened."""
        self.by_name[name] = OpenResource(value, promised or type(value))

    def find(self, wanted: str | type[Any]) -> Any:
        """The object of this name, or the one of this class.

        Raises:
            UnknownNameError: There is none (a LookupError).
            MisuseError: Several are of this class.
        """
        if isinstance(wanted, str):
            if wanted not in self.by_name:
                raise UnknownNameError("resource", wanted, list(self.by_name))
            return self.by_name[wanted].value
        found = [name for name, (_, promised) in self.by_name.items() if issubclass(promised, wanted)]
        if not found:
            raise UnknownNameError("resource of class", wanted.__name__, self._described())
        if len(found) > 1:
            names = ", ".join(map(repr, found))
            raise MisuseError(
                f"several resources are of class {wanted.__name__}: ask for one of {names} by name"
            )
        return self.by_name[found[0]].value

    def _described(self) -> list[str]:
        return [f"{name} ({promised.__name__})" for name, (_, promised) in self.by_name.items()]


_opened: ContextVar[OpenResources | None] = ContextVar("callboard_resources", default=None)


@overload
def resource(wanted: type[T]) -> T: ...


@overload
def resource(wanted: str) -> Any: ...


def resource(wanted: str | type[Any]) -> Any:
    """What `App.resource` declares, open: in a handler, a tool, an agent's constructor, or another resource after it.

    ```python
    rows = await resource(Pool).fetch("select * from orders")
    ```

    Args:
        wanted: Its class, as the annotation of the function that opens it says; or its name.

    Raises:
        UnknownNameError: No resource of this process is that (a LookupError); the text names those that are.
        MisuseError: Several are of this class, or none is open here: no worker called this.
    """
    opened = _opened.get()
    if opened is None:
        asked = repr(wanted) if isinstance(wanted, str) else wanted.__name__
        raise MisuseError(
            f"resource({asked}) was called where no resources are open: a worker opens those of its app, so call it in a "
            "handler, a tool or an agent's constructor, and not at import"
        )
    return opened.find(wanted)


class Resources:
    """The resources of one process, as its app declares them.

    Args:
        declared: In the order in which they are opened.
        replaced: Objects that take the place of some, and are neither opened nor closed here.

    Raises:
        UnknownNameError: An object replaces a resource that is not declared (a LookupError).
    """

    def __init__(
        self, declared: Iterable[DeclaredResource] = (), replaced: Replacements | None = None
    ) -> None:
        self._declared = tuple(declared)
        self._replaced = {self._name_of(wanted): value for wanted, value in (replaced or {}).items()}

    def _name_of(self, wanted: str | type[Any]) -> str:
        names = [one.name for one in self._declared]
        if isinstance(wanted, str):
            found = [wanted] if wanted in names else []
        else:
            classes = {one.name: one.declared_class() for one in self._declared}
            found = [name for name, cls in classes.items() if cls is not None and issubclass(cls, wanted)]
        if len(found) != 1:
            asked = wanted if isinstance(wanted, str) else wanted.__name__
            raise UnknownNameError("resource", asked, names)
        return found[0]

    @contextlib.asynccontextmanager
    async def opened(self, agent_types: Collection[str]) -> AsyncIterator[None]:
        """Keep open what a process for these agent types needs; they are closed in reverse order, whatever happened.

        Raises:
            Exception: What a resource raised while it was opened or closed, with a note that names it.
        """
        opened = OpenResources()
        token = _opened.set(opened)
        try:
            async with AsyncExitStack() as ending:
                for one in self._declared:
                    if one.is_for(agent_types):
                        opened.add(one.name, await self._open(one, ending), one.declared_class())
                yield
        finally:
            _opened.reset(token)

    async def _open(self, one: DeclaredResource, ending: AsyncExitStack) -> Any:
        if one.name in self._replaced:
            return self._replaced[one.name]
        try:
            return await ending.enter_async_context(one.opening())
        except Exception as error:
            error.add_note(f"raised while the resource {one.name!r} was opened")
            raise


def _arguments(opening: Callable[..., object]) -> list[str]:
    try:
        parameters = inspect.signature(opening).parameters.values()
    except (TypeError, ValueError):  # written in C: it says itself what it lacks when it is called
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in variadic]
