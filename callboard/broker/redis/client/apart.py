"""How messages or commits say where they belong: each for itself, or a run of them at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from operator import ne
from typing import Final

RUN: Final = 4  # values that a run says at once; they are worth it for as many messages
LOOKED_AT: Final = (
    20  # messages of a call, its first ones: to look at all takes time where all are of one stream
)


def are_apart(streams: Sequence[str] | Sequence[bytes]) -> bool:
    """Whether it takes fewer values that each message names its stream than that runs of one stream do.

    Args:
        streams: of the messages, in order.
    """
    changes: int = sum(map(ne, streams, islice(streams, 1, None)))
    return RUN * changes > len(streams)
