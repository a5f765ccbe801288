"""Names of speakers as the API takes them: letters, digits, `_` and `-`, at most 64."""

from __future__ import annotations

import hashlib
from typing import Final

from .wire import LONGEST_NAME, OTHER, is_name

DIGITS: Final = 6  # of a hash, where the rest of a name is not enough to tell two sources apart
UNNAMED: Final = "speaker"


class SpeakerNames:
    """The names of the sources of one request, no two of which share one.

    The source of a message may be any text, such as the agent id `writer/ada`, which becomes `writer_ada`. A source that
    comes later never changes the name of one before it, so that a server which has read the conversation so far knows it
    again.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, source: str) -> str:
        """The name of a source; the source itself where the API takes it."""
        name = self._names.get(source)
        if name is None:
            name = self._names[source] = self._free(source)
            self._taken.add(name)
        return name

    def _free(self, source: str) -> str:
        name = source if is_name(source) else OTHER.sub("_", source).strip("_")[:LONGEST_NAME] or UNNAMED
        return f"{name[: LONGEST_NAME - DIGITS - 1]}_{_digest(source)}" if name in self._taken else name


def _digest(source: str) -> str:
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]
