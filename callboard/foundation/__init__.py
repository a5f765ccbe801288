"""The base of every error of Callboard, and the errors that more than one of its packages raises or derives from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

if TYPE_CHECKING:
    from inspect import Signature


class _ConstructorSignature:
    """The constructor as `inspect.signature` and `help` show it."""

    def __get__(self, error: CallboardError | None, cls: type[CallboardError]) -> Signature | None:
        if cls.__init__ is not CallboardError.__init__:
            return None
        from inspect import Parameter, Signature, get_annotations

        hints = {name: hint for base in reversed(cls.__mro__) for name, hint in get_annotations(base).items()}
        kind = Parameter.POSITIONAL_OR_KEYWORD
        return Signature(
            [
                Parameter(name, kind, default=getattr(cls, name, Parameter.empty), annotation=hints[name])
                for name in cls.field_names
            ]
        )


@dataclass_transform(eq_default=False)
class CallboardError(Exception):
    """The root of everything that Callboard raises.

    A subclass declares its data as annotated fields, and in `template` the sentence that is made of them: what is wrong
    and what to do about it. The template may name fields and properties. The constructor takes the fields by position
    or by name, and those with a default may be left out, as in a dataclass; `__post_init__` may correct them.

    The fields are kept in `args` too, so that an error can be copied, pickled, and made again in another process as
    `cls(*error.args)`. They are plain data that may be shown to any reader: never secrets, never payloads.

    Attributes:
        template: the sentence, as a format string.
        field_names: the fields, those of the base classes first; made by every subclass.
        permanent: another attempt would end the same way, so a message that fails with it is not tried again.
    """

    template: ClassVar[str] = ""
    permanent: ClassVar[bool] = False
    field_names: ClassVar[tuple[str, ...]] = ()
    __signature__: ClassVar = _ConstructorSignature()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = [name for name, hint in cls.__annotations__.items() if "ClassVar" not in str(hint)]
        cls.field_names = tuple(dict.fromkeys((*cls.field_names, *own)))
        setattr(cls, "__match_args__", cls.field_names)  # noqa: B010 - type checkers make it too, and refuse to set it

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # No call of super().__init__: OSError, the base of TimeoutError, would make a file's name of a third argument.
        fields = self.field_names
        if not fields:  # an application's subclass may have its own way with its arguments, as any exception
            self.args = args
            return
        given = dict(zip(fields, args, strict=False)) | kwargs
        missing = [name for name in fields if name not in given and not hasattr(type(self), name)]
        if missing or len(given) != len(args) + len(kwargs) or not given.keys() <= set(fields):
            raise TypeError(f"{type(self).__name__} takes {', '.join(fields)}")
        for name in fields:
            value = given[name] if name in given else getattr(self, name)
            setattr(self, name, tuple(value) if isinstance(value, list) else value)
        self.__post_init__()
        self.args = tuple(getattr(self, name) for name in fields)

    @classmethod
    def saying(cls, sentence: str) -> Self:
        """An error of a class without fields, with a sentence of its own."""
        error = cls()
        error.args = (sentence,)
        return error

    def __post_init__(self) -> None:
        """Corrects the fields; for subclasses."""

    def __str__(self) -> str:
        return self.template.format_map(_Attributes(self)) if self.template else super().__str__()


class _Attributes:
    """The attributes of an error, as the mapping that a template is filled from."""

    def __init__(self, error: CallboardError) -> None:
        self._error = error

    def __getitem__(self, name: str) -> Any:
        return getattr(self._error, name)


class MissingPackageError(CallboardError, ImportError):
    """A package that an extra of callboard brings is not installed."""

    template = "{package} is not installed: pip install 'callboard[{extra}]'"
    permanent = True

    package: str
    extra: str


class ActorError(CallboardError):
    """The root of everything that the programming model and its runtime raise."""


class CantHandleException(ActorError):
    """Raised when an agent, a handler or a subscription can't handle a message."""

    template = "{text}"
    permanent = True

    text: str = ""
