"""Whether a server holds what the reference says: every fact that a user could see, and what keeps them safe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from callboard.broker.envelope import Delivery

from .bus import Photo
from .reference import AGENT_TYPE, EFFECTS, LOG, RUN, Reference

Held = Mapping[str, Mapping[str, Sequence[Delivery]]]  # by worker and agent key


def check(reference: Reference, held: Held, photo: Photo) -> None:
    """Raises AssertionError where they differ."""
    _check_work(reference, held, photo)
    _check_questions(reference, photo)
    _check_effects(reference, photo)
    _check_entries(reference, photo)


def timer_names(photo: Photo) -> dict[str, str]:
    """The member of `timers` by the id of the message that waits there."""
    return {fields["id"].decode(): f"m|{name}" for name, fields in photo.starting_with("timer:").items()}


def _check_work(reference: Reference, held: Held, photo: Photo) -> None:
    busy = photo.hash(f"busy:{AGENT_TYPE}")
    assert {key: name for key, name in busy.items() if name} == reference.holder
    assert {busy.get(key) for key in reference.resting} <= {""}, "a key that backs off is free"
    for worker, keys in held.items():
        expected = {
            f"{AGENT_TYPE} {one.stream.decode()} {one.entry.decode()}": key
            for key, deliveries in keys.items()
            for one in deliveries
        }
        assert photo.hash(f"own:{worker}") == expected
    assert photo.sets.get("cancelled", set()) == reference.cancelled
    lines = [line.split(" ") for line in photo.hash(f"tries:{AGENT_TYPE}").values()]
    tried = {*reference.attempts, *reference.deaths, *reference.questions.waited}
    assert sorted((int(line[0]), int(line[2])) for line in lines) == sorted(
        (reference.attempts.get(one, 0), reference.deaths.get(one, 0)) for one in tried
    )
    delayed = timer_names(photo)
    shown = {name: f"m|{message}" for message, name in delayed.items()}
    assert {shown.get(member, member) for member in photo.sets.get("timers", set())} == reference.waits()
    assert {f"m|{message}" for message in delayed} == set(reference.timers)


def _check_questions(reference: Reference, photo: Photo) -> None:
    questions = reference.questions
    assert photo.hash(f"suspended:{AGENT_TYPE}") == questions.suspended
    assert photo.sets.get("inputs", set()) == set(questions.open())
    status = {one: fields["status"].decode() for one, fields in photo.starting_with("input:").items()}
    assert status == questions.status


def _check_effects(reference: Reference, photo: Photo) -> None:
    assert [entry["id"].decode() for entry in photo.entries(EFFECTS)] == reference.effects
    assert [entry["body"].decode() for entry in photo.entries(f"run:{RUN}")] == reference.events
    replies: dict[str, list[str]] = {}
    for process, entry_id in reference.replies:
        replies.setdefault(process, []).append(entry_id)
    for process, ids in replies.items():
        assert [entry["id"].decode() for entry in photo.entries(f"reply:{process}")] == ids
    assert "reply:zombie" not in photo.streams
    states = {key: (int(f["v"]), f["d"]) for key, f in photo.starting_with(f"state:{AGENT_TYPE}:").items()}
    assert states == {key: (state.version, state.data) for key, state in reference.states.items()}
    logs = {key: photo.lists.get(f"log:{AGENT_TYPE}:{key}:{LOG}", []) for key in reference.states}
    assert logs == {key: [item.decode() for item in state.said] for key, state in reference.states.items()}
    once = {entry_id: set(names) for entry_id, names in photo.starting_with(f"once:{AGENT_TYPE}:").items()}
    assert once == {entry_id: set(names) for entry_id, names in reference.once.items() if names}
    calls = {
        entry_id: (tuple(fields["to"].decode().split()), "body" in fields)
        for entry_id, fields in photo.starting_with("call:").items()
    }
    assert calls == reference.calls
    letters = sorted(
        (one["id"].decode(), one["key"].decode(), one["reason"].decode(), int(one["attempts"]))
        for one in photo.entries(f"dead:{AGENT_TYPE}")
    )
    assert letters == sorted(
        (one.item.id, one.item.key, one.reason, one.attempts) for one in reference.letters
    )
    stats = {name: int(number) for name, number in photo.hash(f"stats:{AGENT_TYPE}").items()}
    assert stats == {name: number for name, number in reference.counters.items() if number}


def _check_entries(reference: Reference, photo: Photo) -> None:
    """What is to be done is still there, and pending once it was read; nothing else is pending."""
    unfinished = reference.unfinished()
    there: set[str] = set()
    missing = read_of(photo, AGENT_TYPE)
    for suffix in photo.sets.get(f"streams:{AGENT_TYPE}", ()):
        stream = photo.streams.get(suffix)
        if stream is None:
            continue
        ids = {entry_id: fields["id"].decode() for entry_id, fields in stream.entries.items()}
        there.update(ids.values())
        group = stream.groups.get(AGENT_TYPE)
        pending = set(group.pending) if group else set(ids)  # a lost group is made again at the next reading
        missing -= {f"{suffix} {entry_id}" for entry_id in pending}
        if group:
            handled = {ids.get(entry_id, entry_id) for entry_id in pending} - unfinished
            assert not handled, "pending, but handled"
    assert unfinished <= there, "trimmed, but not handled"
    assert not missing, "read and not handled, but not pending"


def read_of(photo: Photo, agent_type: str) -> set[str]:
    """References of what was read for a type and is not handled: it is held, parked or read ahead."""
    wait = f"wait:{agent_type}:"
    found = {ref for suffix, refs in photo.lists.items() if suffix.startswith(wait) for ref in refs}
    found |= {member.partition("|")[2] for member in photo.sets.get(f"early:{agent_type}", ())}
    for fields in photo.starting_with("own:").values():
        held = (field.partition(" ") for field in fields)
        found |= {ref for its_type, _, ref in held if its_type == agent_type}
    return found
