"""Errors of components.

```
CallboardError
└── ComponentError
    ├── UnknownProviderError         a config names something that is not on the list (ValueError)
    ├── ComponentNotAllowedError     a config asks for something that the caller did not allow (ValueError)
    ├── ComponentConfigError         a config does not fit its component (ValueError)
    ├── ComponentTypeError           the component is none of the expected class (TypeError)
    ├── ComponentVersionError        a config of a version that can't be loaded (NotImplementedError)
    ├── ComponentDeclarationError    a component class lacks something (AttributeError)
    └── NotDumpableError             an object can't be written down (TypeError, NotImplementedError)
```

None of them shows the values of a config, which may be secret.
"""

from __future__ import annotations

from collections.abc import Sequence

from callboard.foundation.errors import CallboardError


class ComponentError(CallboardError):
    """The root of all errors of components."""

    permanent = True


class UnknownProviderError(ComponentError, ValueError):
    """A config names a provider that is not on the list of those that may be loaded.

    Attributes:
        provider: What it names.
        hint: What to do about it.
    """

    template = "{provider!r} is not among the providers that may be loaded: {hint}"

    provider: str
    hint: str


class ComponentNotAllowedError(ComponentError, ValueError):
    """A config asks for something that only the caller of `load_component` can allow, and did not.

    Attributes:
        what: What it asks for.
        argument: The argument of `load_component` that allows it.
        value: What that argument has to contain.
    """

    template = "{what} has to be allowed: if you trust this config, load it with {argument}=[{value!r}]"

    what: str
    argument: str
    value: str


class ComponentConfigError(ComponentError, ValueError):
    """A config does not fit the schema of its component.

    Attributes:
        provider: The component.
        problems: A sentence for each problem, without the values.
    """

    template = "the config does not fit {provider}: {sentence}"

    provider: str
    problems: Sequence[str]

    @property
    def sentence(self) -> str:
        """All problems."""
        return "; ".join(self.problems)


class ComponentTypeError(ComponentError, TypeError):
    """A component was made, or named, that is none of the class that was expected.

    Attributes:
        provider: The component.
        expected: Name of the class.
    """

    template = "{provider} is no {expected}: load it as what it is, or correct the provider of the config"

    provider: str
    expected: str


class ComponentVersionError(ComponentError, NotImplementedError):
    """A config is of a version that its component can't load.

    Attributes:
        provider: The component.
        version: The version of the config.
        current: The version of the component.
    """

    template = "{provider} has version {current}, and the config version {version}: {hint}"

    provider: str
    version: int
    current: int

    @property
    def hint(self) -> str:
        """What to do about it."""
        if self.version > self.current:
            return "update the package that the component comes from"
        return "implement _from_config_past_version, or dump it again"


class ComponentDeclarationError(ComponentError, AttributeError):
    """A component class lacks one of the attributes that make it one.

    Attributes:
        component: The class.
        missing: The attribute.
    """

    template = "{component} does not define {missing}, so it can neither be dumped nor loaded"

    component: str
    missing: str


class NotDumpableError(ComponentError, TypeError, NotImplementedError):
    """An object can't be written down. AutoGen raises one or the other of its builtin bases.

    Attributes:
        component: Its class.
        reason: Why not, and what to do about it.
    """

    template = "{component} can't be dumped: {reason}"

    component: str
    reason: str
