"""How commits are written for the server: in runs."""

from __future__ import annotations

from callboard.broker.envelope import Delivery
from callboard.broker.redis.client.endpoint import Argument
from callboard.broker.redis.client.lane import add_commits
from tests.helpers.commits import Done
from tests.helpers.lanes import entry


def _held(stream: bytes, *names: str) -> list[Delivery]:
    held = [entry("a", name) for name in names]
    for one in held:
        one.stream = stream
    return held


def _written(*done: Done) -> list[Argument]:
    arguments: list[Argument] = []
    add_commits(arguments, done)
    return arguments


def _entries(*held: Delivery) -> list[Argument]:
    return [one.entry for one in held]


def test_commits_of_one_stream_are_a_run() -> None:
    one, two = _held(b"topic:a", "1", "2")
    kind, keys = one.raw_type, [one.raw_key, two.raw_key]
    written = _written(Done(one, "C", ()), Done(two, "C", ()))
    assert written == [2, kind, b"topic:a", 2, "C", *_entries(one, two), *keys]


def test_commits_that_go_from_stream_to_stream_are_a_run_in_which_each_names_its_own() -> None:
    one, two = *_held(b"topic:a", "1"), *_held(b"topic:b", "2")
    kind, keys = one.raw_type, [one.raw_key, two.raw_key]
    begin = [2, kind, b"", 2]
    streams = [b"topic:a", b"topic:b"]
    written = _written(Done(one, "C", ()), Done(two, "C", ()))
    assert written == [*begin, "C", *streams, *_entries(one, two), *keys]
    written = _written(Done(one, "CM", ()), Done(two, "R", (1, 2)))
    assert written == [*begin, "", *streams, *_entries(one, two), *keys, "CM", "R", 1, 2]


def test_another_type_begins_a_run() -> None:
    one, two, three = *_held(b"topic:a", "1"), *_held(b"topic:b", "2"), *_held(b"topic:a", "3")
    three.raw_type = b"other"
    written = _written(*(Done(each, "C", ()) for each in (one, two, three)))
    assert written[1:5] == [one.raw_type, b"", 2, "C"]
    assert written[11:] == [b"other", b"", 1, "C", b"topic:a", three.entry, three.raw_key]
