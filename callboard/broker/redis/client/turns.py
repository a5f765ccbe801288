"""How a turn is written for the server, and how its answer is read: see lua/turn/turn.lua."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callboard.broker.consumer.interfaces import ConsumedType, Turn
from callboard.broker.delivery import Delivery, Values, read_deliveries
from callboard.broker.encoding.limits import Limits
from callboard.broker.errors import EncodeError
from callboard.broker.settings import BrokerSettings

from .apart import LOOKED_AT, are_apart
from .commands import pack
from .commits import Done
from .endpoint import Argument

RUN, STATE = 5, 4  # values of each in the answer to a turn, see lua/turn/turn.lua
PLAIN = 4  # values of a delivery there that has neither sender nor head
HEADED = 6  # and of one that was not tried before
OF_STREAMS = 1  # more where each delivery of a run names its stream, at the end
ONE = 3  # values of several deliveries with their states; more are one delivery
WIDTH = 11  # values of one delivery in the answer to a resync


def read_turn(answer: Any, asked: float | None, limits: Limits, worker: str) -> Turn:
    """The answer to a turn that was sent at that time (`Turn.asked_ms`)."""
    _, now, due, flags, _, *given = answer
    deliveries = _read_deliveries(given, limits, worker) if given else []
    due_ms = int(due) if due else None
    if not flags:  # as of nearly every turn that brings little
        return Turn(deliveries, int(now or 0), due_ms, False, False, "", 0, asked)
    letters, _, full_topic = flags.decode().partition("f")
    more, suspect, deaths = letters.partition("s")
    return Turn(
        deliveries, int(now or 0), due_ms, bool(more), bool(suspect), full_topic, int(deaths or 0), asked
    )


def _read_deliveries(given: list[Any], limits: Limits, worker: str) -> list[Delivery]:
    if len(given) > ONE:
        raw_type, stream, kind, *flat = given
        return read_deliveries(_delivered((raw_type, stream, kind, len(flat), 1), flat), limits, worker)
    runs, flat, states = given
    deliveries = read_deliveries(_delivered(runs, flat), limits, worker)
    for i in range(0, len(states), STATE):
        delivery = deliveries[states[i]]
        delivery.state_version = int(states[i + 1])
        delivery.state = states[i + 2]
        delivery.has_logs = bool(states[i + 3])
    return deliveries


def terms_of(settings: BrokerSettings, types: Sequence[ConsumedType]) -> str:
    """What is the same from turn to turn, as one text: see lua/turn/arguments.lua."""
    words: list[str] = [f"{settings.max_payload} {settings.max_unclaimed}"]
    for each in types:
        rate = "-" if each.rate_limit is None else each.rate_limit
        words.append(f"{each.name} {int(each.persistent)} {rate}")
    return " ".join(words)


def as_words(accepts: Mapping[str, int]) -> str:
    """Messages and their versions, as the functions take them."""
    return " ".join(f"{name} {version}" for name, version in accepts.items())


def is_sendable(done: Done) -> bool:
    """Whether its arguments can be written; one that can't keeps all the others of a turn from leaving."""
    try:
        pack(done.extras)
    except EncodeError:
        return False
    return True


def held_in(flat: Sequence[Any]) -> list[Values]:
    """The deliveries that the answer to a resync tells of."""
    return [flat[i : i + WIDTH] for i in range(0, len(flat), WIDTH)]


def _delivered(runs: Sequence[Any], flat: Sequence[Any]) -> list[Values]:
    """Deliveries as a turn brings them: what is the same in a run of them once, what is mostly empty where it is not."""
    found: list[Values] = []
    at = 0
    for i in range(0, len(runs), RUN):
        raw_type, stream, kind, width, count = runs[i : i + RUN]
        behind = at + width * count
        for first in range(at, behind, width):
            values = flat[first : first + width]
            if width == PLAIN:
                entry, name, key, body = values
                found.append((raw_type, stream, entry, b"", name, kind, key, b"", b"", b"", body))
            elif width == PLAIN + OF_STREAMS:
                entry, name, key, body, its_stream = values
                found.append((raw_type, its_stream, entry, b"", name, kind, key, b"", b"", b"", body))
            elif width == HEADED + OF_STREAMS:
                entry, name, key, sender, head, body, its_stream = values
                found.append((raw_type, its_stream, entry, b"", name, kind, key, sender, b"", head, body))
            elif width == HEADED:
                entry, name, key, sender, head, body = values
                found.append((raw_type, stream, entry, b"", name, kind, key, sender, b"", head, body))
            else:
                entry, name, key, sender, head, tries, at_ms, body = values
                found.append((raw_type, stream, entry, tries, name, kind, key, sender, at_ms, head, body))
        at = behind
    return found


def add_commits(arguments: list[Argument], done: Sequence[Done]) -> None:
    """The commits of a turn behind its other arguments."""
    arguments.append(len(done))
    is_apart = are_apart([one.delivery.stream for one in done[:LOOKED_AT]])
    raw_type, stream = b"", b""
    streams: list[Argument] = []
    entries: list[Argument] = []
    keys: list[Argument] = []
    modes: list[str] = []
    extras: list[Argument] = []
    for delivery, mode, its_extras in done:
        if delivery.raw_type != raw_type or (delivery.stream != stream and not is_apart):
            if entries:
                arguments += _run_of_commits(raw_type, stream, streams, entries, keys, modes)
            raw_type, stream = delivery.raw_type, b"" if is_apart else delivery.stream
            streams, entries, keys, modes = [], [], [], []
        if is_apart:
            streams.append(delivery.stream)
        entries.append(delivery.entry)
        keys.append(delivery.raw_key)
        modes.append(mode)
        if its_extras:
            extras += its_extras
    if entries:
        arguments += _run_of_commits(raw_type, stream, streams, entries, keys, modes)
    arguments += extras


def _run_of_commits(
    raw_type: bytes,
    stream: bytes,
    streams: list[Argument],
    entries: list[Argument],
    keys: list[Argument],
    modes: list[str],
) -> tuple[Argument, ...]:
    """Commits of one stream, or of several, whose names are `streams`: a mode that all have is said once."""
    if modes.count(modes[0]) == len(modes):
        return (raw_type, stream, len(entries), modes[0], *streams, *entries, *keys)
    return (raw_type, stream, len(entries), "", *streams, *entries, *keys, *modes)
