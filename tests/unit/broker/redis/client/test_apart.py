"""Whether each message names its stream, or a run of them at once."""

from __future__ import annotations

import pytest

from callboard.broker.redis.client.lane import are_apart


@pytest.mark.parametrize(
    ("streams", "expected"),
    [
        ("", False),
        ("a", False),
        ("aaaa", False),
        ("ab", True),
        ("abababab", True),
        ("aaaabbbb", False),
        ("aaabbb", False),
        ("aabb", False),
        ("aab", True),
        ("aabbcc", True),
    ],
)
def test_they_are_apart_where_runs_of_one_stream_take_more_values(streams: str, expected: bool) -> None:
    assert are_apart(list(streams)) is expected
