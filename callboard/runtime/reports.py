"""Reports of how deliveries went: what the log says of a failed handler, and what telemetry listeners are told."""

from __future__ import annotations

import logging
import shlex
import time
import traceback
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Final

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
from callboard.foundation.texts import is_users, one_line

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
        letter = one_line(shlex.quote(f"{agent_type}/{envelope.id}"))
        logger.error(
            "%s: %s; it is a dead letter now: callboard dead show --namespace %s %s",
            _failed(agent_type, envelope),
            self._shown(error),
            shlex.quote(self._namespace),
            letter,
        )
        _log_traceback(error)

    def unknown(self, agent_type: str, envelope: Envelope) -> None:
        """Its type is known to no handler of this process. Told once for each type: there may be many of them."""
        if envelope.type in self._unknown or len(self._unknown) >= MOST_UNKNOWN:
            return
        self._unknown.add(envelope.type)
        logger.warning(
            "%s: no handler here has that type. It waits for a process that knows it, or is a dead letter now if none "
            "ever did: callboard dead list --namespace %s %s",
            one_line(f"{agent_type}/{envelope.key} can't read {envelope.type} {envelope.id}"),
            shlex.quote(self._namespace),
            shlex.quote(agent_type),
        )

    def answered(self, agent_type: str, envelope: Envelope, error: BaseException) -> None:
        """Whoever asked gets the error, and decides."""
        logger.info("%s: %s; its sender gets the error", _failed(agent_type, envelope), self._shown(error))
        _log_traceback(error)

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
