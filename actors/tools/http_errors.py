"""Errors of HTTP tools. The model reads their texts; headers, which may hold secrets, are in none of them."""

from __future__ import annotations

from collections.abc import Sequence

from .errors import ToolError


class HttpToolError(ToolError):
    """A request of an HTTP tool failed."""


class HttpHostError(HttpToolError):
    """A redirect leads to a host that is not allowed.

    Attributes:
        host: The host.
        allowed: The hosts that are.
    """

    permanent = True

    def __init__(self, host: str, allowed: Sequence[str]) -> None:
        self.allowed = tuple(allowed)
        super().__init__(host, self.allowed)
        self.host = host

    def __str__(self) -> str:
        return f"requests may go to {', '.join(self.allowed)} only, not to {self.host}"


class HttpAddressError(HttpToolError):
    """A host has an address that is not one of the public internet.

    Attributes:
        host: The host.
        address: Its address.
    """

    permanent = True

    def __init__(self, host: str, address: str) -> None:
        super().__init__(host, address)
        self.host = host
        self.address = address

    def __str__(self) -> str:
        return (
            f"{self.host} has the address {self.address}, which is private, local or reserved; no request was sent. "
            "Who runs this tool can allow it with HttpLimits(allow_private=True)"
        )


class HttpRedirectError(HttpToolError):
    """A redirect can't be followed.

    Attributes:
        reason: Why.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the redirect was not followed: {self.reason}"


class HttpStatusError(HttpToolError):
    """The server answered with an error.

    Attributes:
        status: The status code.
        reason: Its name.
        body: The beginning of what the server said.
    """

    def __init__(self, status: int, reason: str, body: str) -> None:
        super().__init__(status, reason, body)
        self.status = status
        self.reason = reason
        self.body = body

    def __str__(self) -> str:
        said = f": {self.body}" if self.body else ""
        return f"the server answered {self.status} {self.reason}{said}"


class HttpTooLargeError(HttpToolError):
    """An answer is larger than the tool takes.

    Attributes:
        limit: Bytes that it takes.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit

    def __str__(self) -> str:
        return f"the answer has more than {self.limit:,} bytes: ask for less"


class HttpAnswerError(HttpToolError):
    """An answer can't be read.

    Attributes:
        reason: Why.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the server's answer can't be read: {self.reason}"


class HttpConnectionError(HttpToolError, ConnectionError):
    """No answer came: the host is unknown, nobody listens, or the connection broke.

    Attributes:
        host: The host.
        reason: What happened.
    """

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(host, reason)
        self.host = host
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.host} gave no answer: {self.reason}"
