"""From plain data to a component."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self, TypeGuard, TypeVar, cast, overload

from pydantic import BaseModel, ValidationError

from .declaring import ComponentFromConfig, ComponentSchemaType, ConfigT
from .dumping import ComponentToConfig, provider_of
from .errors import (
    ComponentConfigError,
    ComponentDeclarationError,
    ComponentTypeError,
    ComponentVersionError,
)
from .model import ComponentModel
from .permissions import Providers, allowing
from .registry import class_of

ExpectedT = TypeVar("ExpectedT")


class ComponentLoader:
    """The method by which configs are loaded; on every component class."""

    @overload
    @classmethod
    def load_component(
        cls,
        model: ComponentModel | Mapping[str, Any],
        expected: None = None,
        *,
        providers: Providers = (),
        modules: Iterable[str] = (),
        commands: Iterable[str] = (),
        hosts: Iterable[str] = (),
    ) -> Self: ...

    @overload
    @classmethod
    def load_component(
        cls,
        model: ComponentModel | Mapping[str, Any],
        expected: type[ExpectedT],
        *,
        providers: Providers = (),
        modules: Iterable[str] = (),
        commands: Iterable[str] = (),
        hosts: Iterable[str] = (),
    ) -> ExpectedT: ...

    @classmethod
    def load_component(
        cls,
        model: ComponentModel | Mapping[str, Any],
        expected: type[ExpectedT] | None = None,
        *,
        providers: Providers = (),
        modules: Iterable[str] = (),
        commands: Iterable[str] = (),
        hosts: Iterable[str] = (),
    ) -> Self | ExpectedT:
        """Make a component, and those inside it, from plain data: a dump of ours or of AutoGen.

        Only providers of the list are made: Callboard's own, by our names or AutoGen's; those of `register_component`
        and of `providers`; and the class that it is called on, or that is expected. Nothing else that a config names is
        imported, where AutoGen imports any module that it says. No source text in a config is ever executed.

        Args:
            model: The dump, also as a dict.
            expected: The class to expect, when called on ComponentLoader itself; None: the class that it is called on.
            providers: Further component classes, or classes by the providers that configs name.
            modules: Modules and packages whose functions a FunctionTool may name.
            commands: Programs that an McpWorkbench may start.
            hosts: Servers, besides the vendors' own and those that the environment names, that may be sent the keys of
                the environment, and those that an HttpTool may reach at private addresses.

        Raises:
            UnknownProviderError: A provider is not on the list (a ValueError).
            ComponentNotAllowedError: It needs one of the other arguments (a ValueError).
            ComponentConfigError: The config does not fit (a ValueError). AutoGen's error shows the values.
            ComponentTypeError: It is no component of the expected class (a TypeError).
            ComponentVersionError: It is too old, or newer than we are (a NotImplementedError). AutoGen reads a newer
                one as if it were its own.
        """
        dump = _read(model)
        wanted: type[Any] = expected or cls
        named = {provider_of(wanted): wanted} if is_component_class(wanted) else {}
        with allowing(providers, modules, commands, hosts) as allowed:
            component_class = (
                allowed.providers.get(dump.provider) or named.get(dump.provider) or class_of(dump.provider)
            )
            made = _made(component_class, dump)
        if not isinstance(made, wanted):
            raise ComponentTypeError(dump.provider, wanted.__qualname__)
        return cast("Self | ExpectedT", made)


class _ConcreteComponent(
    ComponentFromConfig[ConfigT], ComponentSchemaType[ConfigT], ComponentToConfig[ConfigT], ComponentLoader
):
    """All four parts of a component; only for type checkers."""


def is_component_class(cls: type[Any]) -> TypeGuard[type[_ConcreteComponent[BaseModel]]]:
    """Whether objects of a class can be dumped and loaded."""
    parts = (ComponentFromConfig, ComponentSchemaType, ComponentToConfig, ComponentLoader)
    return all(issubclass(cls, part) for part in parts)


def is_component_instance(cls: Any) -> TypeGuard[_ConcreteComponent[BaseModel]]:
    """Whether an object can be dumped and loaded."""
    return is_component_class(type(cls))


def _read(model: ComponentModel | Mapping[str, Any]) -> ComponentModel:
    if isinstance(model, ComponentModel):
        return model
    try:
        return ComponentModel.model_validate(dict(model))
    except ValidationError as error:
        # Without its cause, which shows the values.
        raise ComponentConfigError("ComponentModel", _problems(error)) from None


def _made(cls: type[Any], dump: ComponentModel) -> object:
    if not is_component_class(cls):
        raise ComponentTypeError(dump.provider, "component")
    for name in ("component_config_schema", "component_type"):
        if not hasattr(cls, name):
            raise ComponentDeclarationError(cls.__qualname__, name)
    version, current = dump.component_version or cls.component_version, cls.component_version
    if version > current:
        raise ComponentVersionError(dump.provider, version, current)
    if version < current:
        try:
            return cls._from_config_past_version(dump.config, version)
        except NotImplementedError as error:
            raise ComponentVersionError(dump.provider, version, current) from error
    try:
        schema: type[BaseModel] = cls.component_config_schema  # pyright: ignore[reportGeneralTypeIssues]
        config = schema.model_validate(dump.config)
    except ValidationError as error:
        raise ComponentConfigError(dump.provider, _problems(error)) from None
    return cls._from_config(config)


def _problems(error: ValidationError) -> list[str]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return [f"{'.'.join(map(str, item['loc'])) or 'the whole'}: {item['msg']}" for item in found]
