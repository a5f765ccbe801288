"""From a component to plain data."""

from __future__ import annotations

import inspect
import warnings
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel

from .errors import ComponentDeclarationError, NotDumpableError
from .model import ComponentModel, ComponentType
from .secrecy import plain_data

ToConfigT_co = TypeVar("ToConfigT_co", bound=BaseModel, covariant=True)


class ComponentToConfig(Generic[ToConfigT_co]):
    """The half of a component that writes it down.

    Attributes:
        component_type: What it is.
        component_version: Version of its config; raise it when an older config can't be read as it is any more.
        component_provider_override: The provider that its dump names; None: module and name of the class.
        component_description: What it is for; None: the first paragraph of the docstring.
        component_label: Its name for people; None: the name of the class.
    """

    component_type: ClassVar[ComponentType]
    component_version: ClassVar[int] = 1
    component_provider_override: ClassVar[str | None] = None
    component_description: ClassVar[str | None] = None
    component_label: ClassVar[str | None] = None

    def _to_config(self) -> ToConfigT_co:
        """The config that would make this component again; for subclasses."""
        raise NotDumpableError(type(self).__qualname__, "it has no _to_config")

    def dump_component(self) -> ComponentModel:
        """The component as plain data that fits into JSON.

        Secrets (pydantic's SecretStr and its kin) and those in addresses (https://user:password@host, ?key=...) are left
        out, where AutoGen has them in the dump. A component that needs one finds it in the environment when it is loaded.

        Raises:
            NotDumpableError: The class is inside a function, or has no config (a TypeError).
            ComponentDeclarationError: The class has no `component_type` (an AttributeError).
        """
        cls = type(self)
        provider = provider_of(cls)
        if "<locals>" in provider:
            raise NotDumpableError(
                cls.__qualname__, "it is a local class: define it at the top level of a module"
            )
        if cls.component_provider_override is None and "._" in provider:
            warnings.warn(
                f"{provider} names an internal module: set component_provider_override to the name that is to stay",
                stacklevel=2,
            )
        if not hasattr(cls, "component_type"):
            raise ComponentDeclarationError(cls.__qualname__, "component_type")
        return ComponentModel(
            provider=provider,
            component_type=self.component_type,
            version=self.component_version,
            component_version=self.component_version,
            description=self.component_description or _first_paragraph(cls),
            label=self.component_label or cls.__name__,
            config=plain_data(self._to_config()),
        )


def provider_of(cls: type[Any]) -> str:
    """The provider that the dumps of a class name."""
    override: str | None = getattr(cls, "component_provider_override", None)
    return override or f"{cls.__module__}.{cls.__qualname__}"


def _first_paragraph(cls: type) -> str | None:
    return inspect.cleandoc(cls.__doc__).partition("\n\n")[0] if cls.__doc__ else None
