"""Errors of tools and workbenches.

```
ActorError
└── ToolError
    ├── ToolDeclarationError     a function, or what describes a tool, can't be a tool (ValueError)
    ├── StrictSchemaError        its arguments can't be described as strict mode asks for (ValueError)
    ├── ToolConfigError          a configuration names a tool that it can't (ValueError)
    ├── NotAToolError            something else was given where a tool is needed (TypeError)
    ├── DuplicateToolError       two tools of one workbench have one name (ValueError)
    ├── ToolLimitError           a workbench would hold too many tools (ValueError)
    ├── ToolStateError           a saved state does not belong to this workbench (ValueError)
    ├── UnknownToolError         there is no tool of this name, or it is disabled (LookupError)
    ├── ToolArgumentsError       arguments don't fit a tool (ValueError)
    ├── ToolReturnError          what a tool returned can't be shown to a model (TypeError)
    ├── ToolTimeoutError         a tool did not end in time (TimeoutError)
    ├── ToolEndedError           it exited or cancelled itself (RuntimeError)
    ├── ToolContextError         it needs a MessageContext or a runtime (RuntimeError)
    ├── CallRefusedError         a person has not allowed a call
    ├── ApprovalRuleError        it is not known whether a person has to allow a call
    ├── ApprovalMissingError     a call that a person has to allow was about to be made without
    ├── UnknownOutcomeError      a call was cut off by a crash, and is not to be made again unasked
    ├── CallGivenUpError         the same, and a person has decided that nothing goes on (RuntimeError)
    ├── HttpToolError            a request of an HTTP tool failed
    │   ├── HttpHostError        it may not go to this host
    │   ├── HttpStatusError      the server answered with an error
    │   ├── HttpAnswerError      the answer can't be used
    │   └── HttpConnectionError  no answer came (ConnectionError)
    └── McpConnectionError       an MCP server can't be reached (ConnectionError)
```

A workbench makes results of them that the model can read; who calls a tool directly gets them raised. The model reads
their texts: the headers of a request, which may hold secrets, are in none of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from callboard.errors import did_you_mean
from callboard.foundation import ActorError


class ToolError(ActorError):
    """The root of everything that tools and workbenches raise."""


class HttpToolError(ToolError):
    """A request of an HTTP tool failed."""


class HttpHostError(HttpToolError):
    """A request may not go to a host: it is not among the allowed ones, or has no address of the public internet."""

    template = "{reason}"
    permanent = True

    host: str
    reason: str


class HttpStatusError(HttpToolError):
    """The server answered with an error.

    Attributes:
        status: The status code.
        reason: Its name.
        body: The beginning of what the server said.
    """

    template = "the server answered {status} {reason}{said}"

    status: int
    reason: str
    body: str

    @property
    def said(self) -> str:
        """The server's answer, as the end of the sentence; "" when it said nothing."""
        return f": {self.body}" if self.body else ""


class HttpAnswerError(HttpToolError):
    """An answer can't be used: it is too large, can't be read, or redirects to where no request may go."""

    template = "the server's answer can't be used: {reason}"

    reason: str


class HttpConnectionError(HttpToolError, ConnectionError):
    """No answer came: the host is unknown, nothing listens there, or the connection broke."""

    template = "{host} gave no answer: {reason}"

    host: str
    reason: str


class ToolDeclarationError(ToolError, ValueError):
    """A function can't be a tool as it is written, or as it is named and described."""

    template = "{tool} can't be a tool: {reason}"
    permanent = True

    tool: str
    reason: str


class StrictSchemaError(ToolError, ValueError):
    """The arguments of a tool can't be described in the way that strict mode asks for.

    Attributes:
        tool: Its name.
        reasons: What stands in the way, each with the place in the arguments.
    """

    template = (
        "Strict mode is enabled for {tool}, and its arguments don't allow it: {listed}. "
        "In strict mode every argument is required and every object lists its fields: write `X | None` "
        "without a default instead of an optional argument, and a model instead of a dict."
    )
    permanent = True

    tool: str
    reasons: Sequence[str]

    @property
    def listed(self) -> str:
        """The reasons as one text."""
        return "; ".join(self.reasons)


class ToolConfigError(ToolError, ValueError):
    """A function can't be named in a configuration, or what a configuration or an override names is not there.

    Attributes:
        target: `module:qualname`, the function, or the override.
        reason: What is wrong and what to do.
    """

    template = "{target}: {reason}"
    permanent = True

    target: str
    reason: str


class NotAToolError(ToolError, TypeError):
    """Something else was given where a tool is needed.

    Attributes:
        given: Class of what was given.
    """

    template = "a {given} is no tool: wrap a function in FunctionTool(...), or decorate it with @tool"
    permanent = True

    given: str


class DuplicateToolError(ToolError, ValueError):
    """Two tools of one workbench have one name."""

    template = "there is a tool {name!r} already: give one of the two another name"
    permanent = True

    name: str


class ToolLimitError(ToolError, ValueError):
    """A workbench would hold more tools than it may.

    Attributes:
        what: Which tools are counted.
        limit: How many there may be.
    """

    template = "there can be at most {limit} {what}: remove or disable some first"
    permanent = True

    what: str
    limit: int


class ToolStateError(ToolError, ValueError):
    """A saved state does not belong to this workbench."""

    template = "the state can't be loaded: {reason}"
    permanent = True

    reason: str


class UnknownToolError(ToolError, LookupError):
    """No tool of this name exists, or it is switched off.

    Attributes:
        name: What was asked for.
        known: The names there are.
        disabled: The tool exists, and is switched off.
    """

    permanent = True

    name: str
    known: Sequence[str] = ()
    disabled: bool = False

    def __str__(self) -> str:
        if self.disabled:
            return f"Tool {self.name} is disabled at the moment. Use another one."
        advice = did_you_mean(self.name, self.known) if self.known else "There are no tools here."
        return f"Tool {self.name} not found. {advice}"


class ToolArgumentsError(ToolError, ValueError):
    """Arguments don't fit a tool.

    Attributes:
        tool: Its name.
        problems: What is wrong, each with the name of the argument.
    """

    template = "The arguments don't fit {tool}: {listed}"
    permanent = True

    tool: str
    problems: Sequence[str]

    @property
    def listed(self) -> str:
        """The problems as one text."""
        return "; ".join(self.problems)


class ToolReturnError(ToolError, TypeError):
    """A tool returned something that can't be shown to a model.

    Attributes:
        tool: Its name.
        reason: What it returned.
    """

    template = (
        "{tool} ran, but what it returned can't be shown as text: {reason}. It should return text, "
        "numbers, lists, dicts, dataclasses, pydantic models or images."
    )
    permanent = True

    tool: str
    reason: str


class ToolTimeoutError(ToolError, TimeoutError):
    """A tool did not end in time.

    Attributes:
        tool: Its name.
        seconds: How long it had.
        still_running: It goes on although it was cancelled. A function in a thread can't be cancelled and goes on
            in any case.
    """

    template = "{tool} did not end within {seconds:g} s and {ending}"

    tool: str
    seconds: float
    still_running: bool = False

    @property
    def ending(self) -> str:
        """The end of the sentence: whether the tool goes on or was given up."""
        return "ignores that it was cancelled" if self.still_running else "was given up"


class ToolEndedError(ToolError, RuntimeError):
    """A tool ended in a way that is not for tools: it called sys.exit, or was cancelled from inside.

    Attributes:
        tool: Its name.
        how: What it did.
    """

    template = "{tool} gave no result: {how}"

    tool: str
    how: str


class ToolContextError(ToolError, RuntimeError):
    """A tool was called where there is no MessageContext, or no runtime, and needs one.

    Attributes:
        tool: Its name.
        needs: What it needs, and how to give it.
    """

    template = "{tool} {needs}"
    permanent = True

    tool: str
    needs: str


class CallRefusedError(ToolError):
    """A person has not allowed a call.

    Attributes:
        tool: Its name.
        reason: In the person's words; "": none was given.
    """

    template = "{tool} was not called: a person has not allowed it{because}"

    tool: str
    reason: str = ""

    @property
    def because(self) -> str:
        """The reason as the end of a sentence."""
        return f": {self.reason}" if self.reason else ""


class ApprovalRuleError(ToolError):
    """The function that says whether a person has to allow a call has failed.

    Attributes:
        tool: Its name.
        reason: What it raised.
    """

    template = (
        "{tool} was not called: whether a person has to allow it with these arguments can't be told: {reason}"
    )

    tool: str
    reason: str


class ApprovalMissingError(ToolError):
    """A call that a person has to allow was about to be made without anybody being asked.

    Attributes:
        tool: Its name.
    """

    template = (
        "{tool} was not called: a person has to allow it, and nobody was asked. Call it through an assistant or "
        "`run_tools`; a workbench around it hands on its `approval_of`."
    )

    tool: str


class UnknownOutcomeError(ToolError):
    """A call was under way when its process died, and may not be made again without being asked for.

    Attributes:
        tool: Its name.
    """

    template = (
        "{tool} was called already, and its process ended before the result was kept: it may or may not have done "
        "its work. Find out before you call it again"
    )

    tool: str


class CallGivenUpError(ToolError, RuntimeError):
    """A crash left it unknown whether a call did its work, and a person has decided that nothing goes on.

    Attributes:
        tool: Its name.
    """

    template = "{tool} was cut off by a crash, and a person has decided that nothing goes on from there"
    permanent = True

    tool: str


class McpConnectionError(ToolError, ConnectionError):
    """There is no connection to an MCP server, or it ended in the middle of a call.

    Attributes:
        server: Its command or address.
        reason: What happened.
        exit_status: Of a process that ended before it was connected, negative for a signal; None: not known.
        stderr: The end of what that process said on its standard error.
    """

    template = "the MCP server {server} can't be reached: {reason}{ending}"

    server: str
    reason: str
    exit_status: int | None = None
    stderr: str = ""

    @property
    def ending(self) -> str:
        """The end of the sentence: how the process ended, and what it said."""
        status = "" if self.exit_status is None else f"; its process ended with status {self.exit_status}"
        return status + (f"; it said:\n{self.stderr}" if self.stderr else "")
