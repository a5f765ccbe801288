"""Components: objects that can be written down as plain data and made again from it, with AutoGen's names."""

from __future__ import annotations

from .base import (
    Component as Component,
    ComponentBase as ComponentBase,
)
from .declaring import ComponentFromConfig as ComponentFromConfig, ComponentSchemaType as ComponentSchemaType
from .dumping import ComponentToConfig as ComponentToConfig
from .errors import (
    ComponentConfigError as ComponentConfigError,
    ComponentDeclarationError as ComponentDeclarationError,
    ComponentError as ComponentError,
    ComponentNotAllowedError as ComponentNotAllowedError,
    ComponentTypeError as ComponentTypeError,
    ComponentVersionError as ComponentVersionError,
    NotDumpableError as NotDumpableError,
    UnknownProviderError as UnknownProviderError,
)
from .inner import dumped as dumped
from .loading import (
    ComponentLoader as ComponentLoader,
    is_component_class as is_component_class,
    is_component_instance as is_component_instance,
)
from .model import ComponentModel as ComponentModel, ComponentType as ComponentType
from .permissions import Permissions as Permissions, permissions as permissions
from .registry import register_component as register_component
from .secrecy import harmless as harmless, is_secret_name as is_secret_name, revealed as revealed
