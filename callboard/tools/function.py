"""Any typed function as a tool."""

from __future__ import annotations

import functools
import inspect
import secrets
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Protocol, Self, overload

from pydantic import BaseModel, model_validator

from callboard.core.cancellation import CancellationToken
from callboard.core.handlers import local_scope
from callboard.foundation.component import (
    Component,
    NotDumpableError,
)
from callboard.foundation.tasks import in_thread

from .approval import NeedsApproval
from .base import BaseTool
from .call import IfUnknown, current_tool_context
from .errors import ToolDeclarationError, ToolEndedError
from .named_functions import allowed_modules, import_function, path_of
from .schema import FunctionSignature, Injected, name_of, plain_function, read_signature


class FunctionToolConfig(BaseModel):
    """A function tool as plain data.

    Attributes:
        function: Where the function is: ``module:qualname``. AutoGen has its source text here, and executes it.
        name: The name by which the model calls it.
        description: Its purpose, written for the model.
        strict: See FunctionTool.
        timeout: See FunctionTool.
        if_unknown: See FunctionTool.
        needs_approval: Whether a person has to allow its calls. A function or a rule that says so is not dumped.
    """

    function: str
    name: str
    description: str
    strict: bool = False
    timeout: float | None = None
    if_unknown: IfUnknown | None = None
    needs_approval: bool = False

    @model_validator(mode="before")
    @classmethod
    def _no_source(cls, given: Any) -> Any:
        if isinstance(given, dict) and "source_code" in given and "function" not in given:
            raise ValueError(
                "it has the source text of a function, as AutoGen writes it, which is never executed here: put the "
                "function into a module, and write 'function': 'module:name'"
            )
        return given


class RegistersTools(Protocol):
    """An agent with AG2's names, such as a ConversableAgent."""

    def register_tool(self, tool: Callable[..., Any]) -> None:
        """Let its model call a tool, and execute it."""
        ...

    def register_for_llm(self) -> Callable[[Any], Any]:
        """Make a decorator: its model may call the tool."""
        ...

    def register_for_execution(self, name: str | None = None) -> Callable[[Any], Any]:
        """Make a decorator: it executes the tool."""
        ...


class FunctionTool(BaseTool[BaseModel, Any], Component[FunctionToolConfig]):
    """A typed function as a tool.

    Its parameters become the arguments: their types, defaults and descriptions, from ``Annotated`` or else the
    ``Args:`` of the docstring; pydantic models, dataclasses, enums and unions are checked and made. A parameter of
    the class CancellationToken, or named ``cancellation_token``, one of the class MessageContext, and one named
    ``idempotency_key`` are given by us and not shown to the model. The key is the same whenever this call is made
    again for the same message, as after a crash (see `run_tools`), and another one for every other call. An ordinary
    function runs in a thread of its own, so that it does not hold up the event loop; it can't be stopped from
    outside, so one that runs long has to look at its token.

    Its dump names the function as ``module:qualname``, and `load_component` imports that only from the `modules` that it
    is given. AutoGen's has the source text, and executes it; such a dump is refused.

    Args:
        func: An ordinary or async function, a method, a partial, or an object with ``__call__``.
        description: Its purpose, written for the model; "": the first paragraph of its docstring.
        name: The name by which the model calls it; None: the function's name.
        global_imports: Taken for the sake of programs written for AutoGen, and not needed: the function is imported.
        strict: Describe the arguments by the rules of OpenAI's structured outputs.
        timeout: Seconds until a workbench gives it up; None: as the workbench says.
        if_unknown: See BaseTool.
        needs_approval: See BaseTool.

    Raises:
        ToolDeclarationError: A parameter has no type, or one that can't be described (a ValueError).
        ToolDeclarationError: `strict`, and an argument has a default or takes any keys (a ValueError).
    """

    component_config_schema = FunctionToolConfig
    component_provider_override = "callboard.tools.FunctionTool"

    def __init__(
        self,
        func: Callable[..., Any],
        description: str = "",
        name: str | None = None,
        global_imports: Sequence[object] = (),
        strict: bool = False,
        *,
        timeout: float | None = None,
        if_unknown: IfUnknown | None = None,
        needs_approval: NeedsApproval = False,
    ) -> None:
        if isinstance(func, FunctionTool):
            needs_approval = needs_approval or func.needs_approval
            func = func.function
        tool_name = name or name_of(func)
        _check_callable(func, tool_name)
        scope = local_scope(func, _caller()) if inspect.isfunction(func) else None
        self._func = func
        self._signature: FunctionSignature = read_signature(func, tool_name, scope)
        self._is_async = inspect.iscoroutinefunction(plain_function(func))
        super().__init__(
            self._signature.model,
            self._signature.returns,
            tool_name,
            description or _first_paragraph(func),
            strict,
            timeout=timeout,
            if_unknown=if_unknown,
            needs_approval=needs_approval,
        )
        self.__doc__ = func.__doc__

    @property
    def function(self) -> Callable[..., Any]:
        """The function."""
        return self._func

    def register_tool(self, agent: RegistersTools) -> None:
        """Let the model of an AG2 agent call it, and the agent execute it; AG2's name."""
        agent.register_tool(self)

    def register_for_llm(self, agent: RegistersTools) -> None:
        """Let the model of an AG2 agent call it; another agent executes it. AG2's name."""
        agent.register_for_llm()(self)

    def register_for_execution(self, agent: RegistersTools) -> None:
        """Let an AG2 agent execute it; the model of another one calls it. AG2's name."""
        agent.register_for_execution(self.name)(self)

    @property
    def takes_key(self) -> bool:
        """Whether the function has a parameter `idempotency_key`."""
        return Injected.KEY in self._signature.injected.values()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as if it were none of ours."""
        return self._func(*args, **kwargs)

    async def run(self, args: BaseModel, cancellation_token: CancellationToken) -> Any:
        """Call the function with checked arguments.

        Raises:
            ToolEndedError: It takes a MessageContext, and there is none here (a RuntimeError).
            Exception: Any error of the function.
        """
        around = current_tool_context()
        ctx = around.message
        if ctx is None and self._signature.needs_context:
            raise ToolEndedError(
                self.name,
                "it needs the MessageContext of a handler: call it inside `with tool_context(ctx):`, or write "
                "`ctx: MessageContext | None`",
            )
        key = around.idempotency_key or secrets.token_hex(16)
        positional, named = self._signature.arguments(args, cancellation_token, ctx, key)
        call = functools.partial(self._func, *positional, **named)
        result = call() if self._is_async else await in_thread(f"callboard-tool-{self.name}", call)
        return await result if inspect.isawaitable(result) else result

    def to_config(self) -> FunctionToolConfig:
        """The tool as plain data.

        Raises:
            ToolDeclarationError: The function can't be imported by its name: a lambda, or one inside another function; or
                `needs_approval` is more than yes or no (a ValueError).
        """
        # guard: a tool whose calls have to be allowed is not dumped as one without
        if not isinstance(self.needs_approval, bool):
            raise ToolDeclarationError(
                self.name, "its needs_approval is a function or a rule", "can't be dumped"
            )
        return FunctionToolConfig(
            function=path_of(self._func),
            name=self.name,
            description=self.description,
            strict=self._strict,
            timeout=self.timeout,
            if_unknown=self.if_unknown,
            needs_approval=self.needs_approval,
        )

    @classmethod
    def from_config(cls, config: FunctionToolConfig, *, modules: Sequence[str] | None = None) -> Self:
        """The tool again.

        Args:
            config: The result of `to_config`. It decides which function is imported, so it is to be trusted like
                code, unless `modules` says what it may name.
            modules: Modules and packages from which functions may come; None: any.

        Raises:
            ToolDeclarationError: There is no such function, or it may not be used (a ValueError).
        """
        found = import_function(config.function, modules)
        function = found.function if isinstance(found, FunctionTool) else found
        return cls(
            function,
            config.description,
            config.name,
            strict=config.strict,
            timeout=config.timeout,
            if_unknown=config.if_unknown,
            needs_approval=config.needs_approval,
        )

    def _to_config(self) -> FunctionToolConfig:
        try:
            return self.to_config()
        except ToolDeclarationError as error:
            raise NotDumpableError(self.name, str(error)) from error

    @classmethod
    def _from_config(cls, config: FunctionToolConfig) -> Self:
        return cls.from_config(config, modules=allowed_modules(config.function))

    def __repr__(self) -> str:
        return f"<FunctionTool {self.name}>"


@overload
def tool(func: Callable[..., Any]) -> FunctionTool: ...


@overload
def tool(
    func: None = None,
    *,
    name: str | None = ...,
    description: str = ...,
    strict: bool = ...,
    timeout: float | None = ...,
    if_unknown: IfUnknown | None = ...,
    needs_approval: NeedsApproval = ...,
) -> Callable[[Callable[..., Any]], FunctionTool]: ...


def tool(
    func: Callable[..., Any] | None = None,
    *,
    name: str | None = None,
    description: str = "",
    strict: bool = False,
    timeout: float | None = None,
    if_unknown: IfUnknown | None = None,
    needs_approval: NeedsApproval = False,
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Decorator: the function becomes a FunctionTool, and can still be called.

    ```python
    @tool
    async def weather(city: Annotated[str, "name of the city"]) -> str:
        \"\"\"How the weather is in a city.\"\"\"
    ```

    Args:
        func: The function.
        name: The name by which the model calls it; None: the function's name.
        description: Its purpose, written for the model; "": the first paragraph of its docstring.
        strict: See FunctionTool.
        timeout: See FunctionTool.
        if_unknown: See BaseTool.
        needs_approval: See BaseTool.

    Raises:
        ToolDeclarationError: As FunctionTool.
    """
    make = functools.partial(
        FunctionTool,
        description=description,
        name=name,
        strict=strict,
        timeout=timeout,
        if_unknown=if_unknown,
        needs_approval=needs_approval,
    )
    return make if func is None else make(func)


def _caller() -> FrameType | None:
    """The nearest frame outside of this module: where the function is being defined, if annotations need its names."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals is globals():
        frame = frame.f_back
    return frame


def _check_callable(func: object, name: str) -> None:
    if not callable(func) or inspect.isclass(func):
        raise ToolDeclarationError(name, "it is no function")
    plain = plain_function(func)
    if inspect.isasyncgenfunction(plain) or inspect.isgeneratorfunction(plain):
        raise ToolDeclarationError(name, "it yields: derive a class from BaseStreamTool, or return a list")


def _first_paragraph(func: Callable[..., Any]) -> str:
    if isinstance(func, functools.partial):
        func = func.func
    return " ".join((inspect.getdoc(func) or "").partition("\n\n")[0].split())
