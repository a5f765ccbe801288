"""How a message is sent: one place for what its sender may say beside the message itself.

The public methods take these as keyword arguments (`**options: Unpack[PublishOptions]`, PEP 692), so that a type checker
knows every one of them, and none of the methods between an agent and the sender repeats them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final, NamedTuple, TypedDict, cast

from callboard.broker.ids import check_text

from .errors import did_you_mean


class PublishOptions(TypedDict, total=False):
    """How a message is published.

    Keys:
        delay: Seconds to wait before it is delivered.
        at: When to deliver it, with a time zone. Not together with `delay`.
        expires_in: Seconds, from when it is due, within which a handler has to begin with it; later it is dropped.
            An agent that has begun in time may try it again later. None: no limit.
        now: Inside a handler, True sends at once instead of with the handler's commit.
        claim_check: True: keep its bytes beside the stream, whatever their number, until every agent type that
            subscribes has handled it. False: refuse it when it is larger than `max_payload`. None: as `claim_check`
            of the settings says.
        strict: What happens when nobody subscribes to the topic, or none of its subscribers handles the message. True:
            UnheardError is raised and nothing leaves; where no agent type of this process hears it, that costs a call
            to the server. False: nothing is said, as for a topic that is only followed. None: a warning, once.
    """

    delay: float | None
    at: datetime | None
    expires_in: float | None
    now: bool
    claim_check: bool | None
    strict: bool | None


class ReminderOptions(TypedDict, total=False):
    """When an agent's message to itself comes.

    Keys:
        after: Seconds from now; 0 or None: as soon as the commit has been made.
        at: The time, with a time zone. Not together with `after`.
        expires_in: As in PublishOptions.
        claim_check: As in PublishOptions.
    """

    after: float | None
    at: datetime | None
    expires_in: float | None
    claim_check: bool | None


class TellOptions(ReminderOptions, total=False):
    """How a message is sent to one agent without waiting for a response: the keys of ReminderOptions, and these.

    Keys:
        now: As in PublishOptions.
        if_buried: When the message becomes a dead letter, for whatever reason, the sender gets a `Buried` of
            `callboard.broker.buried`, which an `@event` of its handles. One that expires is a dead letter then as well.
        cancellable: `runtime.control.cancel(message_id)` may cancel it, before its handler begins or while it runs; it
            needs a `message_id`.
        unique: The sender gives this `message_id` to no other message, so nothing has to be remembered of it to drop a
            second one.
    """

    now: bool
    if_buried: bool
    cancellable: bool
    unique: bool


class RequestOptions(TypedDict, total=False):
    """How a request is sent.

    Keys:
        timeout: Seconds to wait for the response; None: `request_timeout` of the settings.
        claim_check: Whether its bytes are kept beside the stream, see PublishOptions; then its response may be as
            large.
    """

    timeout: float | None
    claim_check: bool | None


class SendOptions(NamedTuple):
    """How one message is sent: the keys of the options above, and the id that its sender chose.

    Attributes:
        message_id: idempotency id; None: the runtime chooses the message's id.
        delay, at, expires_in, now, claim_check, timeout, strict, if_buried, cancellable, unique: see PublishOptions,
            TellOptions and RequestOptions; `delay` is also the `after` of ReminderOptions and TellOptions.
    """

    message_id: str | None = None
    delay: float | None = None
    at: datetime | None = None
    expires_in: float | None = None
    now: bool = False
    claim_check: bool | None = None
    timeout: float | None = None
    strict: bool | None = None
    if_buried: bool = False
    cancellable: bool = False
    unique: bool = False

    @classmethod
    def of_event(cls, message_id: str | None, given: PublishOptions) -> SendOptions:
        """The options of a publish.

        Raises:
            TypeError: an event has no such option.
            InvalidIdError: the id is no text, or has half of a surrogate pair.
        """
        if message_id is None and not given:
            return USUAL
        if not OF_EVENTS.issuperset(given):
            raise _unknown("publish_message", given, OF_EVENTS)
        return cls(_checked(message_id), **given)

    @classmethod
    def of_reminder(cls, message_id: str | None, given: ReminderOptions) -> SendOptions:
        """The options of a message to oneself.

        Raises:
            TypeError: it has no such option.
            InvalidIdError: as for an event.
        """
        if not OF_REMINDERS.issuperset(given):
            raise _unknown("remind", given, OF_REMINDERS)
        return cls.of_tell(message_id, cast("TellOptions", given))

    @classmethod
    def of_tell(cls, message_id: str | None, given: TellOptions) -> SendOptions:
        """The options of a message to one agent that nobody waits for.

        Raises:
            TypeError: it has no such option.
            InvalidIdError: as for an event.
        """
        if message_id is None and not given:
            return USUAL
        if not OF_TELLS.issuperset(given):
            raise _unknown("tell", given, OF_TELLS)
        return cls(
            _checked(message_id),
            delay=given.get("after"),
            at=given.get("at"),
            expires_in=given.get("expires_in"),
            now=given.get("now", False),
            claim_check=given.get("claim_check"),
            if_buried=given.get("if_buried", False),
            cancellable=given.get("cancellable", False),
            unique=given.get("unique", False),
        )

    @classmethod
    def of_request(cls, message_id: str | None, given: RequestOptions) -> SendOptions:
        """The options of a request.

        Raises:
            TypeError: a request has no such option.
            InvalidIdError: as for an event.
        """
        if message_id is None and not given:
            return USUAL
        if not OF_REQUESTS.issuperset(given):
            raise _unknown("send_message", given, OF_REQUESTS)
        return cls(_checked(message_id), **given)


USUAL: Final = SendOptions()
OF_EVENTS: Final = PublishOptions.__optional_keys__
OF_REMINDERS: Final = ReminderOptions.__optional_keys__
OF_TELLS: Final = TellOptions.__optional_keys__
OF_REQUESTS: Final = RequestOptions.__optional_keys__
LATER: Final = (
    "A request is sent at once. For later there are `publish_message`, `tell` and an agent's own `remind`."
)


def _checked(message_id: str | None) -> str | None:
    return None if message_id is None else check_text("message id", message_id)


def _unknown(method: str, given: Mapping[str, object], known: frozenset[str]) -> TypeError:
    name = min(given.keys() - known)
    is_later = known is OF_REQUESTS and name in ("delay", "at", "after")
    advice = LATER if is_later else did_you_mean(name, known)
    return TypeError(f"{method}() has no option {name!r}. {advice}")
