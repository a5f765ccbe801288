"""Reports of messages: what the log says of failed handlers, what telemetry listeners are told, AutoGen's log events."""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from callboard.broker import AgentId, TopicId
from callboard.broker.envelope import Delivery, Envelope
from callboard.broker.outcome import Commit, DeadLetter, Outcome, Release, Retry, Suspend, Wait
from callboard.broker.remote_errors import text_of
from callboard.broker.telemetry import (
    DeadLettered,
    Dropped,
    Handled,
    Released,
    Retried,
    Started,
    WaitsForAnswer,
    emit,
)
from callboard.core.context import MessageContext
from callboard.core.intervention import (
    DropMessage,
    InterventionHandler,
    intercept_publish,
    intercept_response,
    intercept_send,
)
from callboard.errors import MessageDroppedException
from callboard.foundation.texts import is_users, one_line, shell_line

if TYPE_CHECKING:
    from callboard.logging import MessageKind

# EVENT_LOGGER_NAME: its module is loaded when there is something to log.
events = logging.getLogger("callboard.events")
logger = logging.getLogger("callboard.actors")

LONGEST: Final = 200  # characters of an error's text
FACTORY_RAISED: Final = "raised by the factory of"  # how the note of such an error begins
MOST_CAUSES: Final = 20
MOST_UNKNOWN: Final = 100  # types of messages that are told to be unknown


class FailureLog:
    """Logs how messages of one process failed. Tracebacks are logged at DEBUG only.

    Args:
        namespace: Where their dead letters are.
        with_texts: Shows the errors' texts, which may hold data of messages.
    """

    def __init__(self, namespace: str, *, with_texts: bool) -> None:
        self._namespace = namespace
        self._with_texts = with_texts
        self._unknown: set[str] = set()

    def retried(
        self, agent_type: str, envelope: Envelope, attempt: int, delay: float, error: BaseException
    ) -> None:
        """It is tried again."""
        logger.warning(
            "%s (attempt %d): %s; trying again in %.1f s",
            _failed(agent_type, envelope),
            attempt,
            self._shown(error),
            delay,
        )
        _log_traceback(error)

    def waits(
        self, agent_type: str, envelope: Envelope, waited: float, delay: float, error: BaseException
    ) -> None:
        """It waits for an outage to end; `waited` are the seconds so far."""
        logger.warning(
            "%s (an outage, waited for %.0f s so far): %s; trying again in %.1f s",
            _failed(agent_type, envelope),
            waited,
            self._shown(error),
            delay,
        )
        _log_traceback(error)

    def buried(self, agent_type: str, envelope: Envelope, error: BaseException) -> None:
        """It is a dead letter now."""
        logger.error(
            "%s: %s; it is a dead letter now: %s",
            _failed(agent_type, envelope),
            self._shown(error),
            self._command("show", f"{agent_type}/{envelope.id}"),
        )
        _log_traceback(error)

    def unknown(self, agent_type: str, envelope: Envelope) -> None:
        """Its type is known to no handler of this process. Told once for each type: there may be many of them."""
        if envelope.type in self._unknown or len(self._unknown) >= MOST_UNKNOWN:
            return
        self._unknown.add(envelope.type)
        logger.warning(
            "%s: no handler here has that type. It waits for a process that knows it, or is a dead letter now if none "
            "ever did: %s",
            one_line(f"{agent_type}/{envelope.key} can't read {envelope.type} {envelope.id}"),
            self._command("list", agent_type),
        )

    def answered(self, agent_type: str, envelope: Envelope, error: BaseException) -> None:
        """The requester gets the error, and decides."""
        logger.info("%s: %s; its sender gets the error", _failed(agent_type, envelope), self._shown(error))
        _log_traceback(error)

    def _command(self, name: str, letter: str) -> str:
        return shell_line("callboard", "dead", name, "--namespace", self._namespace, letter)

    def _shown(self, error: BaseException) -> str:
        """`ValueError: no such word at shop.py:41 in on_ask`."""
        text = one_line(" ".join(text_of(error).split())) if self._with_texts else ""
        short = text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
        place = place_of(error)
        name = type(error).__name__
        shown = f"{name}{': ' if short else ''}{short}{' at ' if place else ''}{place}"
        return f"{shown} (the agent's factory raised it)" if _is_of_factory(error) else shown


def _failed(agent_type: str, envelope: Envelope) -> str:
    return one_line(f"{agent_type}/{envelope.key} failed on {envelope.type} {envelope.id}")


def _is_of_factory(error: BaseException) -> bool:
    return any(note.startswith(FACTORY_RAISED) for note in getattr(error, "__notes__", ()))


def _log_traceback(error: BaseException) -> None:
    logger.debug("its traceback:", exc_info=error)


def place_of(error: BaseException) -> str:
    """The innermost line of the user's own code that an error went through: `shop.py:41 in on_ask`; "" if there is none.

    A line of Callboard, of Python's library or of an installed package is not the user's. Where the error itself went
    through none that is, its causes are looked at.
    """
    for each in _with_causes(error):
        for frame, line in reversed(list(traceback.walk_tb(each.__traceback__))):
            code = frame.f_code
            if is_users(code.co_filename):
                return f"{_short(code.co_filename)}:{line} in {code.co_name}"
    return ""


def _with_causes(error: BaseException) -> Iterator[BaseException]:
    """An error, those that a group is made of, and what they came from; each once."""
    left, seen = [error], set[int]()
    while left and len(seen) < MOST_CAUSES:
        each = left.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        # Of a group the parts say where it was, and the group itself only where they were waited for.
        if isinstance(each, BaseExceptionGroup):
            left[:0] = [*each.exceptions]
            left.append(_alone(each))
            continue
        yield each
        left += [other for other in (each.__cause__, each.__context__) if other is not None]


def _alone(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The place of a group, without its parts."""
    return Exception().with_traceback(group.__traceback__)


def _short(file: str) -> str:
    """Relative to the current folder, if it is in it."""
    path = Path(file)
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (ValueError, OSError):
        return file


async def watched(handling: Awaitable[Outcome], delivery: Delivery) -> Outcome:
    """Awaits the handling of a delivery and emits how it ended."""
    begun = time.monotonic()
    outcome = await handling
    _tell(delivery, outcome, time.monotonic() - begun)
    return outcome


def tell_started(delivery: Delivery, now_ms: int) -> None:
    """A handler is about to run.

    Args:
        delivery: what it handles.
        now_ms: the server's time.
    """
    published = int(delivery.entry.split(b"-", 1)[0])
    waited = max(0, now_ms - published) / 1000
    envelope = delivery.envelope
    emit(Started, _agent(delivery), envelope.id, envelope.type, delivery.attempt, waited)


def _tell(delivery: Delivery, outcome: Outcome, seconds: float) -> None:
    agent, name, kind = _agent(delivery), delivery.envelope.id, delivery.envelope.type
    match outcome:
        case Commit(dropped=""):
            emit(Handled, agent, name, kind, seconds)
        case Commit():
            emit(Dropped, agent, name, kind, outcome.dropped)
        case Retry():
            error = outcome.error.type if outcome.error else ""
            emit(Retried, agent, name, kind, delivery.attempt, outcome.delay, error)
        case DeadLetter():
            error = outcome.error.type if outcome.error else ""
            emit(DeadLettered, agent, name, kind, delivery.attempt, outcome.reason, error)
        case Release():
            emit(Released, agent, name, outcome.reason)
        case Suspend():
            emit(WaitsForAnswer, agent, name, len(outcome.asked))
        case Wait():
            emit(Released, agent, name, f"{outcome.message} in version {outcome.version} is not known here")


def _agent(delivery: Delivery) -> str:
    return f"{delivery.raw_type.decode(errors='replace')}/{delivery.raw_key.decode(errors='replace')}"


class MessageLog:
    """Logs AutoGen's events of messages, at DEBUG, because they hold what is said.

    Whether anybody listens is found out when a runtime opens: a message does not ask for it.
    """

    @classmethod
    def if_heard(cls) -> MessageLog | None:
        """A log; None: these events are not listened to."""
        return cls() if events.isEnabledFor(logging.DEBUG) else None

    def sent(
        self, message: Any, sender: AgentId | None, receiver: AgentId | TopicId | None, *, is_publish: bool
    ) -> None:
        """A message leaves its sender."""
        self._moved("SEND", "PUBLISH" if is_publish else "DIRECT", message, sender, receiver)

    def delivered(self, message: Any, ctx: MessageContext, receiver: AgentId) -> None:
        """A handler is about to get a message."""
        kind = "DIRECT" if ctx.topic_id is None else "PUBLISH"
        self._moved("DELIVER", kind, message, ctx.sender, receiver)

    def responded(self, response: Any, sender: AgentId, receiver: AgentId | None, *, is_there: bool) -> None:
        """A response leaves the agent that was asked, or is there at the requester."""
        self._moved("DELIVER" if is_there else "SEND", "RESPOND", response, sender, receiver)

    @staticmethod
    def _moved(
        stage: str, kind: str, message: Any, sender: AgentId | None, receiver: AgentId | TopicId | None
    ) -> None:
        from callboard.logging import DeliveryStage, MessageEvent, MessageKind

        events.debug(
            MessageEvent(
                payload=_payload(message),
                sender=sender,
                receiver=receiver,
                kind=MessageKind[kind],
                delivery_stage=DeliveryStage[stage],
            )
        )

    def dropped(
        self, message: Any, sender: AgentId | None, receiver: AgentId | TopicId | None, kind: MessageKind
    ) -> None:
        """An intervention handler dropped a message."""
        from callboard.logging import MessageDroppedEvent

        event = MessageDroppedEvent(payload=_payload(message), sender=sender, receiver=receiver, kind=kind)
        events.debug(event)

    def failed(self, message: Any, agent_id: AgentId, error: BaseException) -> None:
        """A handler raised."""
        from callboard.logging import MessageHandlerExceptionEvent

        payload = _payload(message)
        events.debug(MessageHandlerExceptionEvent(payload=payload, handling_agent=agent_id, exception=error))


def log_construction(error: BaseException, agent_id: AgentId) -> None:
    """Logs AutoGen's event of a factory that raised."""
    if events.isEnabledFor(logging.DEBUG):
        from callboard.logging import AgentConstructionExceptionEvent

        events.debug(AgentConstructionExceptionEvent(agent_id=agent_id, exception=error))


def _payload(message: Any) -> str:
    return to_json(message, fallback=str).decode()


class LoggedInterventions(InterventionHandler):
    """All intervention handlers of a runtime as one, which logs what goes in and what they drop.

    Args:
        log: Where to.
        handlers: The handlers.
    """

    def __init__(self, log: MessageLog, handlers: Sequence[InterventionHandler]) -> None:
        self._log = log
        self._handlers = handlers

    async def on_send(self, message: Any, *, message_context: MessageContext, recipient: AgentId) -> Any:
        from callboard.logging import MessageKind

        sender = message_context.sender
        self._log.sent(message, sender, recipient, is_publish=False)
        try:
            return await intercept_send(self._handlers, message, message_context, recipient)
        except MessageDroppedException:
            self._log.dropped(message, sender, recipient, MessageKind.DIRECT)
            raise

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any | type[DropMessage]:
        from callboard.logging import MessageKind

        sender, topic = message_context.sender, message_context.topic_id
        self._log.sent(message, sender, topic, is_publish=True)
        left = await intercept_publish(self._handlers, message, message_context)
        if left is None and message is not None:
            self._log.dropped(message, sender, topic, MessageKind.PUBLISH)
            return DropMessage
        return left

    async def on_response(self, message: Any, *, sender: AgentId, recipient: AgentId | None) -> Any:
        from callboard.logging import MessageKind

        try:
            answer = await intercept_response(self._handlers, message, sender, recipient)
        except MessageDroppedException:
            self._log.dropped(message, sender, recipient, MessageKind.RESPOND)
            raise
        self._log.responded(answer, sender, recipient, is_there=True)
        return answer
