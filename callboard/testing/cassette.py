"""A run written down: what models answered and tools returned, and what was said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from callboard.runtime.taping import Take

from .cassette_lines import VERSION, read_lines
from .errors import CassetteError


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the transcript.

    Attributes:
        source: who said it.
        text: as text.
    """

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Cassette:
    """A run, so that it can be replayed in a test without a network: `replay`.

    It has what models answered, what tools returned and what was said, so whatever personal data was in there; of what was
    asked a hash of each message and the beginning of the last one. Keys and addresses of models are not in it.

    Attributes:
        team: name of the team.
        task: what it was to do, as text.
        takes: answers of models and results of tools, each agent's in their order.
        transcript: what was said, the task included.
        stop_reason: why the run ended.
    """

    team: str
    task: str
    takes: Sequence[Take]
    transcript: Sequence[Said]
    stop_reason: str | None = None

    def dump(self) -> str:
        """JSON lines: the run, its takes, and what was said."""
        head = {
            "cassette": VERSION,
            "team": self.team,
            "task": self.task,
            "stop_reason": self.stop_reason,
            "takes": len(self.takes),
            "said": len(self.transcript),
        }
        said = [{"source": one.source, "text": one.text} for one in self.transcript]
        lines = [head, *(take.model_dump(mode="json") for take in self.takes), *said]
        return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)

    @classmethod
    def parse(cls, text: str) -> Self:
        """What `dump` made.

        Raises:
            CassetteError: it is no cassette, and in which line (a ValueError).
        """
        head, takes, said = read_lines(text)
        return cls(
            head.team, head.task, takes, [Said(one.source, one.text) for one in said], head.stop_reason
        )

    def save(self, path: str | Path) -> None:
        """Write it to a file."""
        Path(path).write_text(self.dump(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read it from a file.

        Raises:
            CassetteError: the file is no cassette, and in which line (a ValueError).
            OSError: it can't be read.
        """
        try:
            return cls.parse(Path(path).read_text(encoding="utf-8-sig"))
        except UnicodeDecodeError as error:
            raise CassetteError(f"byte {error.start} is no UTF-8") from error


def said_in(messages: Sequence[Any]) -> list[Said]:
    """The transcript of a result's messages."""
    return [Said(str(message.source), str(message.to_text())) for message in messages]
