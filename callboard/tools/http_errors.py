"""Why a request of an HTTP tool failed: errors.py has the errors of all tools."""

from __future__ import annotations

from .tool_error import ToolError


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
