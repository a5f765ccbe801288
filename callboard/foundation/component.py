"""Components: objects that can be written down as plain data and made again from it, with AutoGen's names.

```
CallboardError
└── ComponentError
    ├── ComponentNotAllowedError     a config names or asks for something that may not be loaded (ValueError)
    ├── ComponentConfigError         a config does not fit its component (ValueError)
    ├── ComponentTypeError           a class is no component, or not the expected one (TypeError, AttributeError)
    ├── ComponentVersionError        a config of a version that can't be loaded (NotImplementedError)
    └── NotDumpableError             an object can't be written down (TypeError, NotImplementedError)
```

None of these errors shows the values of a config, which may be secret.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Generic, Literal, Self, TypeAlias, TypeGuard, TypeVar, cast, overload

from pydantic import BaseModel, Secret, SecretBytes, SecretStr, ValidationError

from . import CallboardError
from .providers import AUTOGEN, AUTOGEN_PACKAGES, ELSEWHERE, PROVIDERS

__all__ = [
    "Component",
    "ComponentBase",
    "ComponentConfigError",
    "ComponentError",
    "ComponentFromConfig",
    "ComponentLoader",
    "ComponentModel",
    "ComponentNotAllowedError",
    "ComponentSchemaType",
    "ComponentToConfig",
    "ComponentType",
    "ComponentTypeError",
    "ComponentVersionError",
    "NotDumpableError",
    "Permissions",
    "dumped",
    "harmless",
    "is_component_class",
    "is_component_instance",
    "is_secret_name",
    "permissions",
    "register_component",
    "revealed",
]


ToConfigT_co = TypeVar("ToConfigT_co", bound=BaseModel, covariant=True)

ComponentType: TypeAlias = (
    Literal["model", "agent", "tool", "termination", "token_provider", "workbench"] | str
)
"""What a component is; any other text for kinds of one's own."""


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
            ComponentTypeError: The class has no `component_type` (an AttributeError).
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
            raise _lacking(cls, "component_type")
        return ComponentModel(
            provider=provider,
            component_type=self.component_type,
            version=self.component_version,
            component_version=self.component_version,
            description=self.component_description or _first_paragraph(cls),
            label=self.component_label or cls.__name__,
            config=plain_data(self._to_config()),
        )


ConfigT = TypeVar("ConfigT", bound=BaseModel)


class ComponentModel(BaseModel):
    """A component as plain data, with AutoGen's fields: `dump_component` makes it, and `load_component` takes it.

    Attributes:
        provider: What makes the component, such as "callboard.models.OpenAIChatCompletionClient". AutoGen's names are
            understood, too.
        component_type: What it is; None: what the provider says.
        version: Version of the specification, as AutoGen writes it; not used.
        component_version: Version of the config; None: the provider's own.
        description: What it is for.
        label: Its name for people.
        config: The arguments of the provider, checked by its schema.
    """

    provider: str
    component_type: ComponentType | None = None
    version: int | None = None
    component_version: int | None = None
    description: str | None = None
    label: str | None = None
    config: dict[str, Any]


Providers: TypeAlias = Iterable[type[Any]] | Mapping[str, type[Any]]

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
                the environment, that may be reached at private addresses, and that may keep memories.

        Raises:
            ComponentNotAllowedError: A provider is not on the list (a ValueError).
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
            raise _other_class(dump.provider, wanted.__qualname__)
        return cast("Self | ExpectedT", made)


class ComponentBase(ComponentToConfig[ConfigT], ComponentLoader, Generic[ConfigT]):
    """The base of an interface whose implementations are components."""


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
        if cls.__module__ == __name__:
            return
        for name in cls.required_class_vars:
            if not hasattr(cls, name):
                warnings.warn(f"{cls.__name__} needs a class variable {name} to be a component", stacklevel=2)


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


def provider_of(cls: type[Any]) -> str:
    """The provider that the dumps of a class name."""
    override: str | None = getattr(cls, "component_provider_override", None)
    return override or f"{cls.__module__}.{cls.__qualname__}"


def _first_paragraph(cls: type) -> str | None:
    return inspect.cleandoc(cls.__doc__).partition("\n\n")[0] if cls.__doc__ else None


# Words in the names of headers, variables and options whose values are secrets.
SECRET_WORDS: Final = frozenset(
    [
        "auth",
        "authorization",
        "bearer",
        "cookie",
        "cookies",
        "credential",
        "credentials",
        "jwt",
        "key",
        "pass",
        "passphrase",
        "pat",
        "pwd",
        "secret",
        "secrets",
        "session",
        "sessionid",
        "sig",
        "signature",
        "token",
    ]
)
SECRET_ENDS: Final = ("apikey", "accesskey", "cookie", "passwd", "password", "secret", "secretkey", "token")
WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# With ssh it is a name, such as git, and no secret.
USER_IN_ADDRESS: Final = re.compile(r"(?<!ssh://)(?<=://)[^\s/@]+@")
IN_QUERY: Final = re.compile(r"(?<=[?&])([\w.~-]+)=[^&\s#]+")
MASK: Final = "*" * 10  # what pydantic writes into JSON for a secret, so what a dump of AutoGen has


def plain_data(config: BaseModel) -> dict[str, Any]:
    """A config as JSON has it, without what is None, without secrets, and without users and passwords in addresses."""
    typed = config.model_dump(exclude_none=True)
    plain: dict[str, Any] = _without_secrets(typed, config.model_dump(mode="json", exclude_none=True))
    return plain


def harmless(named: Mapping[str, str] | None) -> dict[str, str] | None:
    """Headers without those that are secrets by their names; None: none are left."""
    return {name: value for name, value in (named or {}).items() if not is_secret_name(name)} or None


def is_secret_name(name: str) -> bool:
    """Whether what has this name is a secret: "Authorization", "X-Api-Key", "--token"; not "max_tokens" or "keyword"."""
    words = [word.lower() for word in WORDS.findall(name)]
    return any(word in SECRET_WORDS or word.endswith(SECRET_ENDS) for word in words)


def revealed(secret: SecretStr | None) -> str | None:
    """A secret of a config; None: there is none, or only the mask of one."""
    value = secret.get_secret_value() if secret else None
    return None if value == MASK else value or None


def _without_secrets(typed: Any, plain: Any) -> Any:
    """The plain form without the secrets, which only the typed form tells."""
    if isinstance(plain, str):
        return _without_keys(plain) if _is_address(plain) else plain
    if isinstance(plain, dict):
        # A value with a serializer of its own may have another shape.
        values: list[Any] = (
            list(typed.values())
            if isinstance(typed, dict) and len(typed) == len(plain)
            else [None] * len(plain)
        )
        pairs = zip(plain.items(), values, strict=True)
        return {key: _without_secrets(value, one) for (key, one), value in pairs if not _is_secret(value)}
    if isinstance(plain, list):
        has_shape = isinstance(typed, list | tuple | set | frozenset) and len(typed) == len(plain)
        items: list[Any] = list(typed) if has_shape else [None] * len(plain)
        both = zip(items, plain, strict=True)
        return [_without_secrets(value, one) for value, one in both if not _is_secret(value)]
    return plain


def _without_keys(text: str) -> str:
    """An address, or a text that holds some, without users, passwords and keys."""
    return IN_QUERY.sub(
        lambda pair: f"{pair[1]}=" if is_secret_name(pair[1]) else pair[0], USER_IN_ADDRESS.sub("", text)
    )


def _is_address(text: str) -> bool:
    return "://" in text or text.startswith("/")


def _is_secret(value: object) -> bool:
    return isinstance(value, SecretStr | SecretBytes | Secret)


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
        raise _other_class(dump.provider, "component")
    for name in ("component_config_schema", "component_type"):
        if not hasattr(cls, name):
            raise _lacking(cls, name)
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


def dumped(part: object, owner: object) -> ComponentModel:
    """The dump of a part of another component.

    Args:
        part: What is to be dumped.
        owner: The component that it is a part of.

    Raises:
        NotDumpableError: It is no component (a TypeError).
    """
    if not is_component_instance(part):
        reason = f"its {type(part).__name__} is no component: derive that from Component and its interface"
        raise NotDumpableError(type(owner).__qualname__, reason)
    return part.dump_component()


ClassT = TypeVar("ClassT", bound=type[Any])

HINT: Final = "register the class with register_component, or give it to load_component as providers=[...]"

_registered: dict[str, type[Any]] = {}


def register_component(cls: ClassT) -> ClassT:
    """Put a component class of your own on the list of those that `load_component` may make; also a decorator.

    It is found by the provider that its dumps name: `component_provider_override`, else module and name of the class.

    Raises:
        ComponentTypeError: It is no component (an AttributeError).
        ValueError: Another class, or one of ours, has this provider.
    """
    if not hasattr(cls, "component_config_schema"):
        raise _lacking(cls, "component_config_schema")
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
        ComponentNotAllowedError: It is not on the list (a ValueError).
    """
    name = own_name(provider)
    given = permissions().providers
    for known in (given.get(provider), given.get(name), _registered.get(provider)):
        if known is not None:
            return known
    if not _is_listed(name):
        raise _not_listed(provider, _hint(provider, name))
    package, _, attribute = name.rpartition(".")
    # Both halves are words of our own list.
    found: type[Any] | None = getattr(importlib.import_module(package), attribute, None)
    if found is None:
        raise _not_listed(provider, "this version of Callboard does not have it")
    return found


def _not_listed(provider: str, hint: str) -> ComponentNotAllowedError:
    return ComponentNotAllowedError(f"{provider!r} is not among the providers that may be loaded", hint=hint)


def _other_class(provider: str, expected: str) -> ComponentTypeError:
    problem = f"is no {expected}: load it as what it is, or correct the provider of the config"
    return ComponentTypeError(provider, problem)


def _lacking(cls: type[Any], attribute: str) -> ComponentTypeError:
    problem = f"does not define {attribute}, so it can neither be dumped nor loaded"
    return ComponentTypeError(cls.__qualname__, problem)


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Permissions:
    """The things that a config may ask for.

    Attributes:
        providers: Component classes by their providers, besides those of the list.
        modules: Modules and packages whose functions it may name.
        commands: Programs that it may have started.
        hosts: Servers that may be sent the keys of the environment, reached at private addresses, or given memories.
    """

    providers: Mapping[str, type[Any]] = field(default_factory=dict)
    modules: frozenset[str] = frozenset()
    commands: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()


NOTHING: Final = Permissions()

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


class ComponentError(CallboardError):
    """The root of all errors of components."""

    permanent = True


class ComponentNotAllowedError(ComponentError, ValueError):
    """A config names or asks for something that may not be loaded, unless the caller of `load_component` allows it."""

    template = "{what}{sentence}"

    what: str
    argument: str = ""  # of `load_component`, which allows it; "": none does
    value: str = ""  # what that argument has to contain
    hint: str = ""  # what to do where no argument helps

    @property
    def sentence(self) -> str:
        """Advice, as the end of the sentence."""
        if self.hint:
            return f": {self.hint}"
        return f" has to be allowed: if you trust this config, load it with {self.argument}=[{self.value!r}]"


class ComponentConfigError(ComponentError, ValueError):
    """A config does not fit the schema of its component."""

    template = "the config does not fit {provider}: {sentence}"

    provider: str
    problems: Sequence[str]  # a sentence each, without the values

    @property
    def sentence(self) -> str:
        """All problems."""
        return "; ".join(self.problems)


class ComponentTypeError(ComponentError, TypeError, AttributeError):
    """A class, or what was made of a config, is no component, or none of the class that was expected."""

    template = "{provider} {problem}"

    provider: str
    problem: str


class ComponentVersionError(ComponentError, NotImplementedError):
    """A config is of a version that its component can't load."""

    template = "{provider} has version {current}, and the config version {version}: {hint}"

    provider: str
    version: int  # of the config
    current: int  # of the component

    @property
    def hint(self) -> str:
        """Advice, as the end of the sentence."""
        if self.version > self.current:
            return "update the package that the component comes from"
        return "implement _from_config_past_version, or dump it again"


class NotDumpableError(ComponentError, TypeError, NotImplementedError):
    """An object can't be written down. AutoGen raises one or the other of its builtin bases."""

    template = "{component} can't be dumped: {reason}"

    component: str
    reason: str
