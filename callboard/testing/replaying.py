"""A recorded run in a test: the same code, and no network."""

from __future__ import annotations

from collections import defaultdict
from types import TracebackType
from typing import Any, Protocol, Self

from callboard.runtime.taping import Take, TakeKind, player_here

from .cassette import Cassette, said_in
from .errors import CassetteDifferenceError


class Finished(Protocol):
    """A TaskResult, as far as it is compared."""

    @property
    def messages(self) -> Any:
        """What was said, oldest first."""
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
            if take.request == request and take.answer is not None:
                del left[number]
                return take.answer
        what = f"request {self._asked[agent, kind]} to its {kind}"
        error = CassetteDifferenceError(agent, what, _difference(left[0] if left else None, request))
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
                raise CassetteDifferenceError(agent, f"the end of its {of}'s work", text)


def _difference(take: Take | None, request: dict[str, Any]) -> str:
    if take is None:
        return f"it asks with {_shown(request)}, and the recorded run has no more of them"
    if take.request == request:
        return "its answer was too large to be recorded"
    then, now = take.request, request
    for number, (was, is_now) in enumerate(
        zip(then.get("messages", ()), now.get("messages", ()), strict=False)
    ):
        if was != is_now:
            return f"message {number + 1} of {len(now['messages'])} is another one; {_beside(then, now)}"
    if len(then.get("messages", ())) != len(now.get("messages", ())):
        return (
            f"it has {len(now['messages'])} messages instead of {len(then['messages'])}; {_beside(then, now)}"
        )
    if then.get("tools") != now.get("tools"):
        return f"it offers the tools {now.get('tools')} instead of {then.get('tools')}"
    return f"{_shown(now)} instead of {_shown(then)}"


def _beside(then: dict[str, Any], now: dict[str, Any]) -> str:
    return f"it ends with {now['last']!r}, and did with {then['last']!r}"


def _shown(request: dict[str, Any]) -> str:
    if "name" in request:
        return f"{request['name']}({request['arguments']})"
    return repr(request.get("last", ""))
