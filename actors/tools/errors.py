"""Errors of tools and workbenches.

```
ToolError (an ActorError)
├── ToolDeclarationError(tool, reason)         also ValueError: a function that can't be a tool
├── StrictSchemaError(tool, reasons)           also ValueError
├── ToolConfigError(target, reason)            also ValueError
├── ToolNameError(name)                        also ValueError
├── ToolDescriptionError(name, length, limit)  also ValueError
├── ToolOverrideError(name, reason)            also ValueError
├── DuplicateToolError(name)                   also ValueError
├── NotAToolError(given)                       also TypeError
├── ToolLimitError(what, limit)                also ValueError
├── ToolStateError(reason)                     also ValueError
├── UnknownToolError(name, known)              also LookupError
├── ToolDisabledError(name)                    also LookupError
├── ToolArgumentsError(tool, problems)         also ValueError
├── ToolReturnError(tool, reason)              also TypeError
├── ToolTimeoutError(tool, seconds, still_running)  also TimeoutError
├── ToolEndedError(tool, how)                  also RuntimeError: it exited or cancelled itself
├── ToolContextError(tool)                     also RuntimeError: it needs a MessageContext
├── ToolRuntimeError(tool)                     also RuntimeError: it needs a runtime to send by
├── MissingPackageError                        see missing
├── HttpToolError                              see http_errors
└── McpError                                   see mcp_errors
```

A workbench makes results of them that the model can read; who calls a tool directly gets them raised. The data are
plain values kept in ``args``, so that an error can be rebuilt in another process.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ActorError, did_you_mean


class ToolError(ActorError):
    """Root of everything that tools and workbenches raise."""


class ToolDeclarationError(ToolError, ValueError):
    """A function can't be a tool as it is written.

    Attributes:
        tool: Its name.
        reason: What is wrong with it and what to write instead.
    """

    permanent = True

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(tool, reason)
        self.tool = tool
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.tool} can't be a tool: {self.reason}"


class StrictSchemaError(ToolError, ValueError):
    """The arguments of a tool can't be described in the way that strict mode asks for.

    Attributes:
        tool: Its name.
        reasons: What stands in the way, each with the place in the arguments.
    """

    permanent = True

    def __init__(self, tool: str, reasons: Iterable[str]) -> None:
        self.reasons = tuple(reasons)
        super().__init__(tool, self.reasons)
        self.tool = tool

    def __str__(self) -> str:
        return (
            f"Strict mode is enabled for {self.tool}, and its arguments don't allow it: {'; '.join(self.reasons)}. "
            "In strict mode every argument is required and every object lists its fields: write `X | None` "
            "without a default instead of an optional argument, and a model instead of a dict."
        )


class ToolConfigError(ToolError, ValueError):
    """A function can't be named in a configuration, or what a configuration names is not there.

    Attributes:
        target: `module:qualname`, or the function.
        reason: What is wrong and what to do.
    """

    permanent = True

    def __init__(self, target: str, reason: str) -> None:
        super().__init__(target, reason)
        self.target = target
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.target}: {self.reason}"


class ToolNameError(ToolError, ValueError):
    """The name of a tool has other characters than model APIs take.

    Attributes:
        name: The name.
    """

    permanent = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return (
            f"{self.name[:80]!r} can't be a tool's name: use a letter or '_', then up to 63 letters a-z, digits and "
            "'_', and no Python keyword"
        )


class ToolDescriptionError(ToolError, ValueError):
    """The description of a tool is too long.

    Attributes:
        name: The tool.
        length: Its characters.
        limit: How many there may be.
    """

    permanent = True

    def __init__(self, name: str, length: int, limit: int) -> None:
        super().__init__(name, length, limit)
        self.name = name
        self.length = length
        self.limit = limit

    def __str__(self) -> str:
        return f"the description of {self.name} has {self.length:,} characters: at most {self.limit:,} are allowed"


class ToolOverrideError(ToolError, ValueError):
    """A tool can't be shown under the name that an override gives it.

    Attributes:
        name: The tool that the override is for.
        reason: What is wrong.
    """

    permanent = True

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"Tool override of {self.name!r}: {self.reason}"


class DuplicateToolError(ToolError, ValueError):
    """Two tools of one workbench have one name.

    Attributes:
        name: The name.
    """

    permanent = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"there is a tool {self.name!r} already: give one of the two another name"


class NotAToolError(ToolError, TypeError):
    """Something else was given where a tool is needed.

    Attributes:
        given: Class of what was given.
    """

    permanent = True

    def __init__(self, given: str) -> None:
        super().__init__(given)
        self.given = given

    def __str__(self) -> str:
        return f"a {self.given} is no tool: wrap a function in FunctionTool(...), or decorate it with @tool"


class ToolLimitError(ToolError, ValueError):
    """A workbench would hold more tools than it may.

    Attributes:
        what: Which tools are counted.
        limit: How many there may be.
    """

    permanent = True

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(what, limit)
        self.what = what
        self.limit = limit

    def __str__(self) -> str:
        return f"there can be at most {self.limit} {self.what}: remove or disable some first"


class ToolStateError(ToolError, ValueError):
    """A saved state does not belong to this workbench.

    Attributes:
        reason: What does not fit.
    """

    permanent = True

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the state can't be loaded: {self.reason}"


class UnknownToolError(ToolError, LookupError):
    """No tool of this name exists.

    Attributes:
        name: What was asked for.
        known: The names there are.
    """

    permanent = True

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.known = tuple(known)
        super().__init__(name, self.known)
        self.name = name

    def __str__(self) -> str:
        advice = did_you_mean(self.name, self.known) if self.known else "There are no tools here."
        return f"Tool {self.name} not found. {advice}"


class ToolDisabledError(ToolError, LookupError):
    """The tool exists, and is switched off.

    Attributes:
        name: The tool.
    """

    permanent = True

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"Tool {self.name} is disabled at the moment. Use another one."


class ToolArgumentsError(ToolError, ValueError):
    """Arguments don't fit a tool.

    Attributes:
        tool: Its name.
        problems: What is wrong, each with the name of the argument.
    """

    permanent = True

    def __init__(self, tool: str, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__(tool, self.problems)
        self.tool = tool

    def __str__(self) -> str:
        return f"The arguments don't fit {self.tool}: {'; '.join(self.problems)}"


class ToolReturnError(ToolError, TypeError):
    """A tool returned something that can't be shown to a model.

    Attributes:
        tool: Its name.
        reason: What it returned.
    """

    permanent = True

    def __init__(self, tool: str, reason: str) -> None:
        super().__init__(tool, reason)
        self.tool = tool
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"{self.tool} ran, but what it returned can't be shown as text: {self.reason}. It should return text, "
            "numbers, lists, dicts, dataclasses, pydantic models or images."
        )


class ToolTimeoutError(ToolError, TimeoutError):
    """A tool did not end in time.

    Attributes:
        tool: Its name.
        seconds: How long it had.
        still_running: It goes on although it was cancelled. A function in a thread can't be cancelled and goes on
            in any case.
    """

    def __init__(self, tool: str, seconds: float, still_running: bool = False) -> None:
        super().__init__(tool, seconds)
        # A TimeoutError is an OSError, which makes a file name of a third argument.
        self.args = (tool, seconds, still_running)
        self.tool = tool
        self.seconds = seconds
        self.still_running = still_running

    def __str__(self) -> str:
        ending = "ignores that it was cancelled" if self.still_running else "was given up"
        return f"{self.tool} did not end within {self.seconds:g} s and {ending}"


class ToolEndedError(ToolError, RuntimeError):
    """A tool ended in a way that is not for tools: it called sys.exit, or was cancelled from inside.

    Attributes:
        tool: Its name.
        how: What it did.
    """

    def __init__(self, tool: str, how: str) -> None:
        super().__init__(tool, how)
        self.tool = tool
        self.how = how

    def __str__(self) -> str:
        return f"{self.tool} gave no result: {self.how}"


class ToolContextError(ToolError, RuntimeError):
    """A tool asks for a MessageContext, and was called where there is none.

    Attributes:
        tool: Its name.
    """

    permanent = True

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        self.tool = tool

    def __str__(self) -> str:
        return (
            f"{self.tool} needs the MessageContext of a handler: call it inside `with tool_context(ctx):`, or write "
            "`ctx: MessageContext | None`"
        )


class ToolRuntimeError(ToolError, RuntimeError):
    """A tool that runs on the bus was called where no runtime is known.

    Attributes:
        tool: Its name.
    """

    permanent = True

    def __init__(self, tool: str) -> None:
        super().__init__(tool)
        self.tool = tool

    def __str__(self) -> str:
        return (
            f"{self.tool} runs on the bus, and no runtime is known here: give runtime=, make the workbench in an "
            "agent's constructor, or call it inside `with tool_context(ctx, runtime=self.runtime):`"
        )
