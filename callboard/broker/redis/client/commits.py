"""Outcomes as the commit of a turn wants them: the only place that says something to the Lua functions' commits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from callboard.broker.delivery import Delivery
from callboard.broker.encoding.claims import Claim
from callboard.broker.envelope import Posting, encode
from callboard.broker.outages import reason_of
from callboard.broker.outcome import NOTHING, Commit, DeadLetter, LogChange, Outcome, Retry, Suspend, Wait
from callboard.broker.redis import keys
from callboard.broker.redis.marks import Mark
from callboard.broker.runs import RunWrite

from .endpoint import Argument


class Done(NamedTuple):
    """A finished delivery as the commit of a turn wants it: marks and their arguments, see marks.py."""

    delivery: Delivery
    mode: str
    extras: Sequence[Argument]


# Plain texts, for most commits are made of these: to look up a mark in its class and to add it takes 0.15 microseconds.
COMMIT, MORE, STATE = Mark.COMMIT.value, Mark.MORE.value, Mark.STATE.value
REPLY, OUTGOING = Mark.REPLY.value, Mark.OUTGOING.value

PROCESS: Final = len(keys.reply(""))  # where its name begins in the name of a stream of replies


def as_done(delivery: Delivery, outcome: Outcome, is_free: bool, dedupe_window: float) -> Done:
    """The marks and their arguments, in the order in which `marks.py` lists them.

    Args:
        delivery: what was handled.
        outcome: how it ended.
        is_free: the worker holds nothing more of its key.
        dedupe_window: seconds that idempotency ids are remembered.
    """
    # guard: an agent is let go with the last commit that is held
    more = "" if is_free else MORE
    if outcome is NOTHING and not delivery.tries and delivery.claim is None:
        # Most commits are these, and Done's own constructor takes twice as long.
        return tuple.__new__(Done, (delivery, COMMIT + more, ()))
    if isinstance(outcome, Commit):
        return _committed(delivery, outcome, more, int(dedupe_window * 1000))
    if isinstance(outcome, DeadLetter):
        return _dead(delivery, outcome, Mark.DEAD_LETTER + more, ())
    if isinstance(outcome, Wait):
        return _dead(delivery, outcome.otherwise, Mark.WAIT + more, (outcome.message, outcome.version))
    if isinstance(outcome, Retry):
        delay = max(1, math.ceil(outcome.delay * 1000))
        # guard: an outage uses up no attempt
        attempts = delivery.attempt if outcome.waited is None else delivery.attempt - 1
        reason = _writable(reason_of(outcome)[:200])
        return Done(delivery, Mark.RETRY + more, (delay, attempts, delivery.first_tried, reason))
    if isinstance(outcome, Suspend):
        # guard: a wait uses up no attempt
        known = (outcome.message_id, delivery.attempt - 1, delivery.first_tried)
        wake = "" if outcome.wake_at is None else outcome.wake_at
        return Done(delivery, Mark.SUSPEND + more, (*known, wake, len(outcome.asked), *outcome.asked))
    return Done(delivery, Mark.RELEASE + more, ())


def _committed(delivery: Delivery, outcome: Commit, more: str, window: int) -> Done:
    mode = COMMIT + more
    # guard: a commit says that its entry was tried before
    if delivery.tries:
        mode += Mark.TRIED
    extras: list[Any] = []
    if outcome.unless_cancelled is not None:
        mode += Mark.UNLESS_CANCELLED
        extras.append(outcome.unless_cancelled)
    # guard: a commit names what it no longer needs
    if outcome.once_of is not None:
        mode += Mark.FORGET
        extras.append(outcome.once_of)
    if outcome.logs is not None:
        mode += Mark.LOGS
        version, changes = outcome.logs
        extras += (version, *log_values(changes))
    if outcome.state is not None:
        mode += STATE
        extras += outcome.state
    claims = _claims(outcome)
    if claims or delivery.claim is not None:
        mode += Mark.CLAIMS
        extras += (delivery.claim or "", len(claims), *chain.from_iterable(claims))
    if outcome.reply is not None:
        mode += REPLY
        extras += reply_values(outcome.reply)
    if outcome.outgoing:
        mode += _outgoing(outcome.outgoing, extras, window)
    if outcome.events:
        mode += Mark.EVENTS
        extras += (len(outcome.events), *chain.from_iterable(map(write_values, outcome.events)))
    return tuple.__new__(Done, (delivery, mode, extras))


def log_values(changes: Sequence[LogChange]) -> list[Argument]:
    """Changes of logs as the Lua functions take them: count, then for each: field, items that are dropped, count, items."""
    values: list[Argument] = [len(changes)]
    for field, dropped, appended in changes:
        values += (field, dropped, len(appended), *appended)
    return values


def write_values(write: RunWrite) -> list[Argument]:
    """A write to a run as the Lua functions take it, see `lua/shared/runs.lua`."""
    values: list[Argument] = [write.run, write.most, write.kept_for, write.tag, write.settles, write.since]
    values.append(len(write.events))
    values += chain.from_iterable(write.events)
    return values


def _claims(outcome: Commit) -> list[Claim]:
    """The bytes that the reply and the outgoing messages point to."""
    claims = []
    for posting in outcome.outgoing:  # most have one message: a comprehension takes twice as long then
        if posting.claim is not None:
            claims.append(posting.claim)  # noqa: PERF401
    if outcome.reply is not None and outcome.reply.claim is not None:
        claims.append(outcome.reply.claim)
    return claims


def reply_values(reply: Posting) -> tuple[Any, ...]:
    """A reply as the Lua functions take it: process, call id or "", id, type, from, head, body."""
    message_id, message_type, _, sender, head, body = encode(reply.envelope)
    return reply.stream[PROCESS:], reply.idempotency_id, message_id, message_type, sender, head, body


def _outgoing(postings: Sequence[Posting], extras: list[Any], window: int) -> str:
    """Adds messages to the arguments; returns the mark for it."""
    for posting in postings:  # most commits have one message, without such an id
        if posting.idempotency_id:
            return _identified(postings, extras, window)
    extras.append(len(postings))
    for envelope, stream, due, _, _, _, _ in postings:
        extras += (stream, due)
        extras += encode(envelope)
    return OUTGOING


def _identified(postings: Sequence[Posting], extras: list[Any], window: int) -> str:
    """The same for messages of which some have an idempotency id."""
    extras += (window, len(postings))
    for posting in postings:
        extras += (posting.idempotency_id, posting.stream, posting.due, *encode(posting.envelope))
    return Mark.IDENTIFIED


def _dead(delivery: Delivery, outcome: DeadLetter, mode: str, before: Sequence[Any]) -> Done:
    error = outcome.error
    shown = f"{error.type}: {error.message}" if error else ""
    trace = error.traceback if error else ""
    texts = (_writable(outcome.reason), _writable(shown), _writable(trace))
    extras: list[Any] = [*before, *texts, delivery.attempt, delivery.first_tried]
    if outcome.reply is not None:
        mode += Mark.REPLY
        extras += reply_values(outcome.reply)
    return Done(delivery, mode, extras)


def _writable(text: str) -> bytes:
    """The text of an error may have anything in it, such as a file name that is not UTF-8."""
    return text.encode("utf-8", "backslashreplace")
