"""The interface of tools, with the names of `autogen_core.tools`, and the results of tools as text."""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Generic, Protocol, TypeVar, cast, runtime_checkable

import pydantic_core
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import PydanticSerializationError

from callboard.core.cancellation import CancellationToken
from callboard.errors import did_you_mean
from callboard.foundation.component import ComponentBase
from callboard.logging import EVENT_LOGGER_NAME, ToolCallEvent

from .approval import NeedsApproval
from .call import CheckedArguments, IfUnknown
from .errors import ToolArgumentsError, ToolReturnError, unloadable
from .schema import ParametersSchema, ToolSchema, parameters_of

events = logging.getLogger(EVENT_LOGGER_NAME)

SENTENCE: Final = 100
"""Characters that the sentence on what is missing may have."""


def to_text(value: Any, tool: str) -> str:
    """The text that a model is given for a value.

    Text stays as it is; numbers, booleans and None are written as Python does; everything that has fields or items
    becomes JSON, where AutoGen writes Python's repr, which models misread; a class of your own becomes its ``str`` if
    it defines one.

    Args:
        value: The value that the tool returned.
        tool: Its name, for the error.

    Raises:
        ToolReturnError: It has no text of its own, holds itself, or showing it fails (a TypeError).
    """
    try:
        return clean(_text(value))
    except ToolReturnError:
        raise
    except RecursionError:
        raise ToolReturnError(tool, f"a {type(value).__name__} that is nested too deep") from None
    except Exception as error:  # __str__ and serializers of a user's class may raise anything
        raise ToolReturnError(tool, f"a {type(value).__name__} ({_reason(error)})") from error


def clean(text: str) -> str:
    """The text with lone surrogates, which no encoding takes, written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode()


def cut(text: str, limit: int, whole: int | None = None) -> str:
    """The beginning of a text, and a sentence that says how much is missing; a text within the limit as it is.

    Both together are within the limit, so that what was cut is not cut again on its way.

    Args:
        text: The text.
        limit: The most characters; more than SENTENCE.
        whole: The characters of all that would have been shown; None: those of the text.
    """
    whole = len(text) if whole is None else whole
    if whole <= limit:
        return text
    kept = text[: limit - SENTENCE]
    missing = f"[cut here: {whole - len(kept):,} of {whole:,} characters are missing]"
    return f"{kept}... {missing}" if kept else missing


def _text(value: Any) -> str:
    if isinstance(value, str):
        return str.__str__(value)
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode()
    made = pydantic_core.to_json(value, fallback=_own_text, inf_nan_mode="strings", bytes_mode="base64")
    text = made.decode()
    # A single value that pydantic writes as a JSON string, such as a date, needs no quotes.
    is_string = text.startswith('"')
    return str(pydantic_core.from_json(text)) if is_string else text


def _own_text(value: Any) -> str:
    """The ``str`` of a value whose class says what it is; an address in memory says nothing."""
    cls = type(value)
    if not any("__str__" in vars(one) or "__repr__" in vars(one) for one in cls.__mro__[:-1]):
        raise TypeError(f"{cls.__qualname__} has no text of its own")
    if callable(value):
        raise TypeError(f"a {cls.__qualname__} is no value")
    return str(value)


def _reason(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


ArgsT_contra = TypeVar("ArgsT_contra", bound=BaseModel, contravariant=True)
ReturnT_co = TypeVar("ReturnT_co", covariant=True)
StreamT_co = TypeVar("StreamT_co", covariant=True)
StateT = TypeVar("StateT", bound=BaseModel)
ModelT = TypeVar("ModelT", bound=BaseModel)


@runtime_checkable
class Tool(Protocol):
    """Something that a model can call by name. `BaseTool` is the class to derive from."""

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        ...

    @property
    def description(self) -> str:
        """Its purpose, written for the model."""
        ...

    @property
    def schema(self) -> ToolSchema:
        """Name, description and arguments, as JSON schema."""
        ...

    def args_type(self) -> type[BaseModel]:
        """The model of its arguments."""
        ...

    def return_type(self) -> type[Any]:
        """The class of what it returns."""
        ...

    def state_type(self) -> type[BaseModel] | None:
        """The model of its state; None when it has none."""
        ...

    def return_value_as_string(self, value: Any) -> str:
        """Its result as text for the model."""
        ...

    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> Any:
        """Run it.

        Args:
            args: The arguments by name, as plain data.
            cancellation_token: Cancelled when no caller waits for the result any more.
            call_id: The id that the model gave to the call.

        Raises:
            ToolArgumentsError: The arguments don't fit (a ValueError).
            Exception: Any error of the tool.
        """
        ...

    async def save_state_json(self) -> Mapping[str, Any]:
        """Its state as plain data."""
        ...

    async def load_state_json(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state_json` returned."""
        ...


@runtime_checkable
class StreamTool(Tool, Protocol):
    """A tool that yields something on the way; the last thing it yields is its result."""

    def run_json_stream(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> AsyncGenerator[Any, None]:
        """Run it. Otherwise as `run_json`."""
        ...


class BaseTool(ABC, Tool, Generic[ArgsT_contra, ReturnT_co], ComponentBase[BaseModel]):
    """A tool with a pydantic model for its arguments; write `run`.

    Args:
        args_type: One field for each argument.
        return_type: The class of what `run` returns.
        name: The name by which the model calls it.
        description: Its purpose, written for the model.
        strict: Describe the arguments by the rules of OpenAI's structured outputs.
        timeout: Seconds until a workbench stops it; None: as the workbench says.
        if_unknown: What an assistant that has it does when a crash left it unknown whether it did its work, see
            `IfUnknown`; None: as "retry".
        needs_approval: Which of its calls a person has to allow before they are made, see `NeedsApproval`.

    Raises:
        ToolDeclarationError: `strict`, and the arguments can't be described so (a ValueError). AutoGen says so when the
            schema is first asked for, in the middle of a conversation.
    """

    component_type = "tool"

    def __init__(
        self,
        args_type: type[ArgsT_contra],
        return_type: type[ReturnT_co],
        name: str,
        description: str,
        strict: bool = False,
        *,
        timeout: float | None = None,
        if_unknown: IfUnknown | None = None,
        needs_approval: NeedsApproval = False,
    ) -> None:
        self._args_type = args_type
        self._return_type = return_type
        self._name = name
        self._description = description
        self._strict = strict
        self.timeout = timeout
        self.if_unknown: IfUnknown | None = if_unknown
        self.needs_approval: NeedsApproval = needs_approval
        if strict:
            self._parameters  # noqa: B018 - raises now rather than later

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        return self._name

    @property
    def description(self) -> str:
        """Its purpose, written for the model."""
        return self._description

    @property
    def schema(self) -> ToolSchema:
        """Name, description and arguments, as JSON schema."""
        return ToolSchema(
            name=self._name,
            description=self._description,
            parameters=self._parameters,
            strict=self._strict,
        )

    @cached_property
    def _parameters(self) -> ParametersSchema:
        return self._describe()

    def _describe(self) -> ParametersSchema:
        """The arguments as JSON schema; for subclasses that have one already."""
        return parameters_of(cast("type[BaseModel]", self._args_type), self._name, strict=self._strict)

    def args_type(self) -> type[BaseModel]:
        """The model of its arguments."""
        return cast("type[BaseModel]", self._args_type)

    def return_type(self) -> type[Any]:
        """The class of what it returns."""
        return self._return_type

    def state_type(self) -> type[BaseModel] | None:
        """The model of its state; None when it has none."""
        return None

    def return_value_as_string(self, value: Any) -> str:
        """Its result as text for the model; see `to_text`."""
        return to_text(value, self._name)

    @abstractmethod
    async def run(self, args: ArgsT_contra, cancellation_token: CancellationToken) -> ReturnT_co:
        """Do what the tool is for; to be written by subclasses."""
        ...

    async def run_json(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> Any:
        """Check the arguments and run it; see `Tool.run_json`."""
        checked = cast("ArgsT_contra", validated(self.args_type(), args, self._name))
        value = await self.run(checked, cancellation_token)
        self._log(args, value)
        return value

    def _log(self, args: Mapping[str, Any], value: Any) -> None:
        if events.isEnabledFor(logging.DEBUG):
            text = self.return_value_as_string(value)
            events.debug(ToolCallEvent(tool_name=self._name, arguments=args, result=text))

    async def save_state_json(self) -> Mapping[str, Any]:
        """Its state as plain data: none."""
        return {}

    async def load_state_json(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state_json` returned."""


class BaseStreamTool(
    BaseTool[ArgsT_contra, ReturnT_co], StreamTool, Generic[ArgsT_contra, StreamT_co, ReturnT_co]
):
    """A tool that yields something on the way; write `run_stream`, whose last item is the result."""

    @abstractmethod
    def run_stream(
        self, args: ArgsT_contra, cancellation_token: CancellationToken
    ) -> AsyncGenerator[StreamT_co | ReturnT_co, None]:
        """Do what the tool is for; to be written by subclasses as an async generator."""
        ...

    async def run(self, args: ArgsT_contra, cancellation_token: CancellationToken) -> ReturnT_co:
        """The last item of `run_stream`; AutoGen has it written a second time."""
        last: Any = None
        async for item in self.run_stream(args, cancellation_token):
            last = item
        return cast("ReturnT_co", last)

    async def run_json_stream(
        self, args: Mapping[str, Any], cancellation_token: CancellationToken, call_id: str | None = None
    ) -> AsyncGenerator[StreamT_co | ReturnT_co, None]:
        """Check the arguments and run it; see `StreamTool.run_json_stream`."""
        checked = cast("ArgsT_contra", validated(self.args_type(), args, self._name))
        item: Any = None
        async for item in self.run_stream(checked, cancellation_token):
            yield item
        self._log(args, item)


class BaseToolWithState(BaseTool[ArgsT_contra, ReturnT_co], ABC, Generic[ArgsT_contra, ReturnT_co, StateT]):
    """A tool that remembers something; write `save_state` and `load_state` too.

    Args:
        args_type: One field for each argument.
        return_type: The class of what `run` returns.
        state_type: The model of its state.
        name: The name by which the model calls it.
        description: Its purpose, written for the model.
        strict: See BaseTool.
        timeout: See BaseTool.
    """

    def __init__(
        self,
        args_type: type[ArgsT_contra],
        return_type: type[ReturnT_co],
        state_type: type[StateT],
        name: str,
        description: str,
        strict: bool = False,
        *,
        timeout: float | None = None,
    ) -> None:
        super().__init__(args_type, return_type, name, description, strict, timeout=timeout)
        self._state_type = state_type

    def state_type(self) -> type[BaseModel] | None:
        """The model of its state."""
        return self._state_type

    @abstractmethod
    def save_state(self) -> StateT:
        """Its state; to be written by subclasses."""
        ...

    @abstractmethod
    def load_state(self, state: StateT) -> None:
        """Take over a state; to be written by subclasses."""
        ...

    async def save_state_json(self) -> Mapping[str, Any]:
        """Its state as plain data."""
        return self.save_state().model_dump(mode="json")

    async def load_state_json(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state_json` returned.

        Raises:
            ToolDeclarationError: It does not fit the model of the state (a ValueError).
        """
        try:
            loaded = self._state_type.model_validate(state)
        except ValidationError as error:
            raise unloadable(f"{self._name}: {'; '.join(_problems(error, ()))}") from error
        self.load_state(loaded)


class AnyArguments(BaseModel):
    """Arguments of a tool that is elsewhere: what they are is checked there, and here only that they are an object."""

    model_config = ConfigDict(extra="allow")


def validated(model: type[ModelT], args: Mapping[str, Any], tool: str) -> ModelT:
    """The arguments as an instance of their model.

    Raises:
        ToolArgumentsError: They don't fit; it names each argument and says what is wrong with it.
    """
    # guard: what a person was shown runs, and is not checked a second time, which may make something else of it
    if isinstance(args, CheckedArguments) and type(args.checked) is model:
        return args.checked
    # Models write all kinds of JSON, and it may have come in a message.
    if not isinstance(args, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ToolArgumentsError(tool, (f"they have to be one JSON object, not {type(args).__name__}",))
    try:
        return model.model_validate(dict(args))
    except ValidationError as error:
        names = [field.alias or name for name, field in model.model_fields.items()]
        raise ToolArgumentsError(tool, _problems(error, names)) from error
    except RecursionError:
        raise ToolArgumentsError(tool, ("they are nested too deep",)) from None


def checked_arguments(model: type[BaseModel], args: Mapping[str, Any], tool: str) -> CheckedArguments:
    """The arguments as their model takes them.

    Raises:
        ToolArgumentsError: They don't fit, or hold a number that is not finite, which passes every comparison.
    """
    checked = validated(model, args, tool)
    try:
        given, shown = (_plain(checked, exclude_unset=only_given) for only_given in (True, False))
    except (PydanticSerializationError, TypeError, ValueError) as error:
        raise ToolArgumentsError(tool, (f"they can't be shown: {_reason(error)}",)) from error
    check_finite(checked.model_dump(by_alias=True, warnings=False), tool)
    return CheckedArguments(given, shown, args, checked)


def check_finite(value: Any, tool: str, where: str = "") -> None:
    """Refuse numbers that are not finite: no comparison with one is true, so they pass the rules of people.

    Raises:
        ToolArgumentsError: There is one.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            check_finite(inner, tool, where or str(key))
    elif isinstance(value, list | tuple | set | frozenset):
        for inner in value:
            check_finite(inner, tool, where)
    elif isinstance(value, float | Decimal) and not math.isfinite(value):
        raise ToolArgumentsError(tool, (f"{where}: {value} is no number that JSON has",))


def _plain(checked: BaseModel, *, exclude_unset: bool) -> dict[str, Any]:
    how: Any = {"by_alias": True, "exclude_unset": exclude_unset, "warnings": False}
    as_json = checked.model_dump(mode="json", fallback=str, **how)
    numbered: dict[str, Any] = _with_numbers(as_json, checked.model_dump(**how))
    return numbered


def _with_numbers(plain: Any, value: Any) -> Any:
    """Plain data in which a Decimal is a number where that is exactly the same; pydantic makes a text of it."""
    if isinstance(value, Decimal):
        number = int(value) if value == value.to_integral_value() else float(value)
        return number if Decimal(repr(number)) == value else plain
    if isinstance(plain, dict) and isinstance(value, Mapping):
        return {
            key: _with_numbers(inner, own)
            for (key, inner), own in zip(plain.items(), value.values(), strict=True)
        }
    if isinstance(plain, list) and isinstance(value, list | tuple):
        return [_with_numbers(inner, own) for inner, own in zip(plain, value, strict=True)]
    return plain


def _problems(error: ValidationError, names: list[str] | tuple[str, ...]) -> list[str]:
    """One sentence for each thing that is wrong, without the values, which may be long."""
    sentences = []
    for item in error.errors(include_url=False, include_context=False, include_input=False)[:10]:
        where = ".".join(str(part) for part in item["loc"]) or "the whole"
        if item["type"] == "extra_forbidden" and len(item["loc"]) == 1:
            sentences.append(f"{where}: there is no such argument. {did_you_mean(where, names)}")
        else:
            sentences.append(f"{where}: {item['msg']}")
    more = error.error_count() - len(sentences)
    return [*sentences, f"and {more} more"] if more > 0 else sentences
