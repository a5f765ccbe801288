"""A recorded run: what models answered and tools returned, as a file, checked, and replayed in a test.

```
ActorError
├── CassetteError              it is no cassette, or it is not complete (ValueError)
└── CassetteDifferenceError    the run that was recorded, and this one, are not the same (AssertionError)
```
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from callboard.foundation import ActorError
from callboard.models.types import CreateResult
from callboard.runtime.steps import Take, TakeKind, player_here


class Finished(Protocol):
    """A TaskResult, as far as it is compared."""

    @property
    def messages(self) -> Any:
        """The messages that were said, oldest first."""
        ...

    @property
    def stop_reason(self) -> str | None:
        """Why it ended."""
        ...


class replay:  # noqa: N801 - it reads as a verb: with replay(cassette) as tape
    """Let models and tools answer as they did when a cassette was recorded, in a `with` block.

    Start runtimes inside the block: what a runtime handles that was started before it is not replayed. No model and no tool
    is asked, and nothing is paid. People are asked as usual.

    ```python
    with replay(Cassette.load("run.jsonl")) as tape:
        result = await team.run(task=tape.cassette.task)
        tape.check(result)
    ```

    Args:
        cassette: the run.

    Raises:
        CassetteDifferenceError: at the end of the block: an agent asked for something else than it did then, or for less.
    """

    def __init__(self, cassette: Cassette) -> None:
        self.cassette = cassette
        self._left: dict[tuple[str, TakeKind], list[Take]] = defaultdict(list)
        self._asked: dict[tuple[str, TakeKind], int] = defaultdict(int)
        self._difference: CassetteDifferenceError | None = None
        for take in cassette.takes:
            self._left[take.agent, take.kind].append(take)

    def check(self, result: Finished) -> None:
        """Compare what was said.

        Raises:
            CassetteDifferenceError: the first message that differs, or how the run has ended.
        """
        then, now = list(self.cassette.transcript), said_in(result.messages)
        for number, (was, is_now) in enumerate(zip(then, now, strict=False), 1):
            if was != is_now:
                text = f"{is_now.source!r} says {is_now.text!r} where {was.source!r} said {was.text!r}"
                raise CassetteDifferenceError("", f"message {number}", text)
        if len(then) != len(now):
            raise CassetteDifferenceError("", "its end", f"{len(now)} messages instead of {len(then)}")
        if result.stop_reason != self.cassette.stop_reason:
            text = f"it stops with {result.stop_reason!r}, and did with {self.cassette.stop_reason!r}"
            raise CassetteDifferenceError("", "its end", text)

    def answer_to(self, agent: str, kind: TakeKind, request: dict[str, Any]) -> dict[str, Any]:
        """The answer that was recorded; see `Player`."""
        left = self._left[agent, kind]
        self._asked[agent, kind] += 1
        for number, take in enumerate(left):
            if _essence(take.request) == _essence(request) and take.answer is not None:
                del left[number]
                return take.answer
        what = f"request {self._asked[agent, kind]} to its {kind}"
        takes = [take for take in self.cassette.takes if (take.agent, take.kind) == (agent, kind)]
        error = CassetteDifferenceError(agent, what, _difference(left[0] if left else None, request, takes))
        self._difference = self._difference or error
        raise error

    def __enter__(self) -> Self:
        self._token = player_here.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        player_here.reset(self._token)
        if self._difference is not None and error is not self._difference:
            raise self._difference from error
        if error is not None:
            return
        for (agent, of), left in self._left.items():
            if left:
                text = f"it was asked {len(left)} times more in the recorded run, first with {_shown(left[0].request)}"
                if not self._asked:
                    text += "; nobody asked this cassette: on the bus the runtime starts inside of `with replay(...)`"
                raise CassetteDifferenceError(agent, f"the end of its {of}'s work", text)


def _essence(request: dict[str, Any]) -> dict[str, Any]:
    """All of a request that has to be the same; the rest is shown to people."""
    return {name: value for name, value in request.items() if name not in ("texts", "system")}


def _difference(take: Take | None, request: dict[str, Any], takes: Sequence[Take]) -> str:
    if take is None:
        return f"it asks with {_shown(request)}, and the recorded run has no more of them"
    then, now = take.request, request
    if _essence(then) == _essence(now):
        return "its answer was too large to be recorded"
    for number, (was, is_now) in enumerate(
        zip(then.get("messages", ()), now.get("messages", ()), strict=False)
    ):
        if was != is_now:
            is_text, was_text = now.get("texts", [""] * (number + 1))[number], _text_then(number, then, takes)
            return (
                f"message {number + 1} of {len(now['messages'])}, a {is_now.partition(' ')[0]}, is {is_text!r}, and was "
                f"{was_text!r}"
            )
    if len(then.get("messages", ())) != len(now.get("messages", ())):
        return (
            f"it has {len(now['messages'])} messages instead of {len(then['messages'])}; it ends with {now['last']!r}, and "
            f"did with {then['last']!r}"
        )
    if then.get("tools") != now.get("tools"):
        return f"it offers the tools {now.get('tools')} instead of {then.get('tools')}"
    return f"{_shown(now)} instead of {_shown(then)}"


def _text_then(number: int, then: dict[str, Any], takes: Sequence[Take]) -> str:
    """The text of a message of a recorded request: the system's, or the last one of some request before."""
    kind = then["messages"][number].partition(" ")[0]
    if kind == "SystemMessage":
        return str(then.get("system", "not recorded"))
    digests = then["messages"][: number + 1]
    return next(
        (str(one.request["last"]) for one in takes if one.request.get("messages") == digests), "another one"
    )


def _shown(request: dict[str, Any]) -> str:
    if "name" in request:
        return f"{request['name']}({request['arguments']})"
    return repr(request.get("last", ""))


@dataclass(frozen=True, slots=True)
class Said:
    """A message of the transcript.

    Attributes:
        source: who said it.
        text: as text.
    """

    source: str
    text: str


VERSION: Final = 1


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
        """Read what `dump` made.

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


LONGEST: Final = 200  # characters of what is wrong

T = TypeVar("T", bound=BaseModel)


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class Head(_Line):
    """The first line.

    Attributes:
        cassette: Version of the format.
        team: Name of the team.
        task: What it was to do, as text.
        stop_reason: Why the run ended.
        takes: How many follow.
        said: How many messages follow them; None: it was written when this was not counted.
    """

    cassette: Literal[1]
    team: str
    task: str
    stop_reason: str | None
    takes: int
    said: int | None = None


class SaidLine(_Line):
    """A message of the transcript, as a line."""

    source: str
    text: str


class _ModelRequest(_Line):
    messages: list[str]
    tools: list[str]
    last: str


class _ToolRequest(_Line):
    name: str
    arguments: str


class _ToolAnswer(_Line):
    name: str
    result: list[dict[str, Any]]


def read_lines(text: str) -> tuple[Head, Sequence[Take], Sequence[SaidLine]]:
    """The lines of a cassette.

    Raises:
        CassetteError: One of them is none, or some are missing; it says which (a ValueError).
    """
    # Not `splitlines`: it also parts lines within texts, at U+2028 and others that JSON leaves as they are.
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise CassetteError("it is empty")
    head = _head(*lines[0])
    takes = [_take(*line) for line in lines[1 : head.takes + 1]]
    said = [_read(SaidLine, *line) for line in lines[head.takes + 1 :]]
    for what, found, expected in (("takes", len(takes), head.takes), ("messages", len(said), head.said)):
        if expected is not None and found != expected:
            raise CassetteError(f"it has {found} of its {expected} {what}: it was cut off, or edited")
    return head, takes, said


def _head(number: int, line: str) -> Head:
    found = _parsed(number, line)
    version = found.get("cassette") if isinstance(found, dict) else None
    if isinstance(version, int) and version != VERSION:
        raise CassetteError(f"it is of version {version}, and {VERSION} is known here")
    head = _checked(Head, number, found)
    if head.takes < 0:
        raise CassetteError(f"line {number}: takes={head.takes} can't be")
    return head


def _take(number: int, line: str) -> Take:
    take = _read(Take, number, line)
    is_model = take.kind == "model"
    _checked(_ModelRequest if is_model else _ToolRequest, number, take.request, "request")
    if take.answer is not None:
        _checked(CreateResult if is_model else _ToolAnswer, number, take.answer, "answer")
    return take


def _read(cls: type[T], number: int, line: str) -> T:
    return _checked(cls, number, _parsed(number, line))


def _parsed(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError as error:
        raise CassetteError(f"line {number} is no JSON: {error.msg}, at character {error.colno}") from error
    except ValueError as error:  # a number of thousands of digits
        raise CassetteError(f"line {number} is no JSON: {str(error)[:LONGEST]}") from error
    except RecursionError as error:
        raise CassetteError(f"line {number} has lists in lists without end") from error


def _checked(cls: type[T], number: int, value: Any, part: str = "") -> T:
    try:
        return cls.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, (*([part] if part else []), *first["loc"])))
        at = f" at {where!r}" if where else ""
        raise CassetteError(f"line {number}{at}: {first['msg']}"[:LONGEST]) from error


class CassetteError(ActorError, ValueError):
    """A cassette can't be made or read."""

    template = "This is no cassette that can be used: {reason}."

    reason: str


class CassetteDifferenceError(ActorError, AssertionError):
    """A run does something else than the recorded one."""

    template = "The run differs from its cassette at {what}{by}: {difference}."
    permanent = True

    agent: str  # "": the transcript differs
    what: str  # which request of this agent, or which message
    difference: str

    @property
    def by(self) -> str:
        """Of whom."""
        return f" of {self.agent!r}" if self.agent else ""
