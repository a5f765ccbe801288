"""What a class has to have to be made from a config."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Generic, Self, TypeVar

from pydantic import BaseModel

ConfigT = TypeVar("ConfigT", bound=BaseModel)
FromConfigT_contra = TypeVar("FromConfigT_contra", bound=BaseModel, contravariant=True)


class ComponentFromConfig(Generic[FromConfigT_contra]):
    """The half of a component that makes it from a config."""

    @classmethod
    def _from_config(cls, config: FromConfigT_contra) -> Self:
        """Make the component; for subclasses.

        Args:
            config: Checked by `component_config_schema`.
        """
        raise NotImplementedError(f"{cls.__qualname__} can't be made from a config: it has no _from_config")

    @classmethod
    def _from_config_past_version(cls, config: dict[str, Any], version: int) -> Self:
        """Make the component from a config of an older version; for subclasses that had one.

        Args:
            config: As it is: its schema is not known any more.
            version: The version of the config, lower than `component_version`.
        """
        raise NotImplementedError(f"{cls.__qualname__} loads no config of version {version}")


class ComponentSchemaType(Generic[ConfigT]):
    """The part of a component that describes its config.

    Attributes:
        component_config_schema: The pydantic model of the config.
    """

    component_config_schema: type[ConfigT]
    required_class_vars: ClassVar[list[str]] = ["component_config_schema", "component_type"]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("callboard.foundation.component."):
            return
        for name in cls.required_class_vars:
            if not hasattr(cls, name):
                warnings.warn(f"{cls.__name__} needs a class variable {name} to be a component", stacklevel=2)
