"""Errors of tools and workbenches.

```
ActorError
└── ToolError
    ├── ToolDeclarationError  a tool or a workbench is set up in a way that can't work (ValueError, TypeError)
    ├── UnknownToolError      there is no tool of this name, or it is disabled (LookupError)
    ├── ToolArgumentsError    arguments don't fit a tool (ValueError)
    ├── ToolReturnError       what a tool returned can't be shown to a model (TypeError)
    ├── ToolTimeoutError      a tool did not end in time (TimeoutError)
    ├── ToolEndedError        a call has no result (RuntimeError)
    ├── CallRefusedError      a call was not made
    ├── HttpToolError         a server answered an HTTP tool with an error, or with what can't be used
    └── ToolConnectionError   an MCP server, or the host of an HTTP tool, can't be reached (ConnectionError)
```

A workbench makes results of these errors that the model can read; who calls a tool directly gets them raised. The model
reads their texts: the headers of a request, which may hold secrets, are in none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from callboard.errors import did_you_mean
from callboard.foundation import ActorError

UNUSABLE: Final = "can't be used"


class ToolError(ActorError):
    """The root of everything that tools and workbenches raise."""


class ToolDeclarationError(ToolError, ValueError, TypeError):
    """A tool, its configuration, or a workbench is set up in a way that can't work."""

    template = "{subject} {verdict}: {reason}"
    permanent = True

    subject: str
    reason: str
    verdict: str = "can't be a tool"
    places: Sequence[str] = ()  # what stands in the way of strict mode, with its place in the arguments


def not_a_tool(given: object) -> ToolDeclarationError:
    """Something else was given where a tool is needed."""
    advice = "wrap a function in FunctionTool(...), or decorate it with @tool"
    return ToolDeclarationError(f"a {type(given).__name__}", advice, "is no tool")


def duplicate_tool(name: str) -> ToolDeclarationError:
    """Two tools of one workbench have one name."""
    return ToolDeclarationError(f"there is a tool {name!r}", "give one of the two another name", "already")


def unloadable(reason: str) -> ToolDeclarationError:
    """A saved state does not belong to a tool or a workbench."""
    return ToolDeclarationError("the state", reason, "can't be loaded")


class HttpToolError(ToolError):
    """A server answered with an error, or with something that can't be used: too large, unreadable, a redirect astray."""

    template = "{reason}{said}"

    reason: str
    status: int | None = None  # of HTTP, where that says an error
    body: str = ""  # the beginning of what the server said with it

    @property
    def said(self) -> str:
        """The server's answer, as the end of the sentence; "" when it said nothing."""
        return f": {self.body}" if self.body else ""


class ToolConnectionError(ToolError, ConnectionError):
    """There is no connection to the server of a tool, or it ended in the middle of a call.

    Attributes:
        server: Its command, address or host.
        reason: What happened.
        verdict: What it did not do.
        exit_status: Of a process that ended before it was connected, negative for a signal; None: not known.
        stderr: The end of what that process said on its standard error.
    """

    template = "{server} {verdict}: {reason}{ending}"

    server: str
    reason: str
    verdict: str = "can't be reached"
    exit_status: int | None = None
    stderr: str = ""

    @property
    def ending(self) -> str:
        """The end of the sentence: how the process ended, and what it said."""
        status = "" if self.exit_status is None else f"; its process ended with status {self.exit_status}"
        return status + (f"; it said:\n{self.stderr}" if self.stderr else "")


class UnknownToolError(ToolError, LookupError):
    """No tool of this name exists, or it is switched off."""

    permanent = True

    name: str
    known: Sequence[str] = ()
    disabled: bool = False  # it exists, and is switched off

    def __str__(self) -> str:
        if self.disabled:
            return f"Tool {self.name} is disabled at the moment. Use another one."
        advice = did_you_mean(self.name, self.known) if self.known else "There are no tools here."
        return f"Tool {self.name} not found. {advice}"


class ToolArgumentsError(ToolError, ValueError):
    """Arguments don't fit a tool."""

    template = "The arguments don't fit {tool}: {listed}"
    permanent = True

    tool: str
    problems: Sequence[str]  # each with the name of the argument

    @property
    def listed(self) -> str:
        """The problems as one text."""
        return "; ".join(self.problems)


class ToolReturnError(ToolError, TypeError):
    """A tool returned something that can't be shown to a model."""

    template = (
        "{tool} ran, but what it returned can't be shown as text: {reason}. It should return text, "
        "numbers, lists, dicts, dataclasses, pydantic models or images."
    )
    permanent = True

    tool: str
    reason: str


class ToolTimeoutError(ToolError, TimeoutError):
    """A tool did not end in time."""

    template = "{tool} did not end within {seconds:g} s and {ending}"

    tool: str
    seconds: float
    still_running: bool = False  # although it was cancelled; a function in a thread goes on in any case

    @property
    def ending(self) -> str:
        """The end of the sentence: whether the tool goes on or was given up."""
        return "ignores that it was cancelled" if self.still_running else "was given up"


class ToolEndedError(ToolError, RuntimeError):
    """A call has no result: the tool ended itself or lacks what it needs, or a person has decided that nothing goes on."""

    template = "{tool} gave no result: {reason}"
    permanent = True

    tool: str
    reason: str


class CallRefusedError(ToolError):
    """A call was not made: it is not allowed, or a crash left it unknown whether it was made already."""

    template = "{tool} was not called: {reason}"
    permanent = True

    tool: str  # of a request of an HTTP tool, the host
    reason: str
