"""The classes to derive components from."""

from __future__ import annotations

import warnings
from typing import Any, Generic

from .declaring import ComponentFromConfig, ComponentSchemaType, ConfigT
from .dumping import ComponentToConfig
from .loading import ComponentLoader, is_component_class


class ComponentBase(ComponentToConfig[ConfigT], ComponentLoader, Generic[ConfigT]):
    """The base of an interface whose implementations are components."""


class Component(ComponentFromConfig[ConfigT], ComponentSchemaType[ConfigT], Generic[ConfigT]):
    """The base of a class that is a component, beside an interface that derives from ComponentBase.

    ```python
    class GreeterConfig(BaseModel):
        greeting: str = "Hello"

    class Greeter(ComponentBase[GreeterConfig], Component[GreeterConfig]):
        component_type = "greeter"
        component_config_schema = GreeterConfig

        def __init__(self, greeting: str) -> None:
            self.greeting = greeting

        def _to_config(self) -> GreeterConfig:
            return GreeterConfig(greeting=self.greeting)

        @classmethod
        def _from_config(cls, config: GreeterConfig) -> Self:
            return cls(config.greeting)
    ```

    Class variables, methods and hooks are those of AutoGen; see ComponentToConfig and ComponentFromConfig.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not is_component_class(cls):
            warnings.warn(
                f"{cls.__name__} derives from Component and not from ComponentBase, or an interface that does: "
                "it can't be dumped or loaded",
                stacklevel=2,
            )
