"""The end of a run: its result as an object that was asked for, its errors, a token that cancels it, and the loss of it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from callboard.agents.base import TaskResult
from callboard.broker.errors import BrokerError
from callboard.broker.retry import Buried
from callboard.core.cancellation import CancellationToken
from callboard.messages.chat import BaseChatMessage, StructuredMessage

from .budget import Overspent, budget_error, run_error
from .errors import RunBudgetExceededError, TeamNotRunError, TeamOutputError, TeamRunError
from .protocol import Accepted, TurnFailed

logger = logging.getLogger("callboard.teams")

PATIENCE: Final = 10.0  # seconds without an event of a run after which a member may be missing
NOT_KNOWN: Final = (BrokerError, TimeoutError, LookupError)
"""Errors of `describe` where the server, or the manager, can't be asked now: they are asked again."""


class Absent:
    """Looks, for the reader of a run, whether it is there, and those who are to speak; a warning names who is not, once.

    Args:
        team: Name of the team.
        describe: Asks the manager how the run stands.

    Attributes:
        is_over: The manager knew no such run any more when it was last asked, and nothing was read since.
    """

    def __init__(self, team: str, describe: Callable[[], Awaitable[Accepted]]) -> None:
        self.is_over = False
        self._team = team
        self._describe = describe
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._missing: list[str] = []
        self._looking = self._loop.create_task(self._look(), name="callboard-absent-members")

    def heard(self) -> None:
        """There was an event."""
        self._heard_at = self._loop.time()
        self.is_over = False

    async def close(self) -> None:
        """Looks no more."""
        self._looking.cancel()
        await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self) -> None:
        while True:
            wait = self._heard_at + PATIENCE - self._loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            self._heard_at = self._loop.time()
            try:
                described = await self._describe()
            except NOT_KNOWN as error:
                logger.debug("it is not known who is missing in %s: %s", self._team, error)
                continue
            self._say(described.missing)
            self.is_over = described.state == "idle"

    def _say(self, missing: list[str]) -> None:
        if missing and missing != self._missing:
            types = ", ".join(f"{self._team}.{name}" for name in missing)
            logger.warning("the team %s waits: no process runs %s. Start one.", self._team, types)
        self._missing = missing


class Cancelling:
    """Cancels a run when a token is cancelled. Who reads the run sees its end; or why it could not be cancelled.

    Args:
        token: The token.
        abort: Cancels the run.
    """

    def __init__(self, token: CancellationToken, abort: Callable[[], Awaitable[bool]]) -> None:
        self._abort = abort
        self._loop = asyncio.get_running_loop()
        self._order: asyncio.Task[None] | None = None
        self._failed: asyncio.Future[Any] = self._loop.create_future()
        self._is_open = True
        token.add_callback(self._wake)

    def _wake(self) -> None:
        # A token may outlive the reader and its loop.
        if self._is_open:
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._is_open:
            self._order = asyncio.ensure_future(self._give_order())

    async def _give_order(self) -> None:
        try:
            await self._abort()
        except TeamNotRunError:
            return  # it has ended, and the reader sees how
        except Exception as error:  # noqa: BLE001 - the reader gets it
            if not self._failed.done():
                self._failed.set_exception(error)

    async def watched(self, entries: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
        """The entries of the run; when it can't be cancelled, its end is not waited for, which may never come."""
        async with aclosing(entries):
            while (entry := await self._next(entries)) is not None:
                yield entry

    async def _next(self, entries: AsyncGenerator[Any, None]) -> Any:
        following = asyncio.ensure_future(anext(entries, None))
        try:
            await asyncio.wait({following, self._failed}, return_when=asyncio.FIRST_COMPLETED)
            return following.result() if following.done() else self._failed.result()
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    async def close(self) -> None:
        """No order is given any more."""
        self._is_open = False
        self._failed.cancel()
        if self._order is not None:
            await asyncio.gather(self._order, return_exceptions=True)


def failure_of(error: BaseException, where: str, turn: int = 0) -> TurnFailed:
    """The same as a message."""
    failed = run_error(error, where)
    return TurnFailed(
        turn=turn,
        error_type=failed.error_type,
        text=failed.text,
        where=failed.where,
        traceback=failed.traceback,
        overspent=_overspent(failed),
    )


def _overspent(failed: TeamRunError) -> Overspent | None:
    if not isinstance(failed, RunBudgetExceededError):
        return None
    return Overspent(unit=failed.unit, limit=failed.limit, spent=failed.spent)


def failure_by(buried: Buried, where: str, turn: int) -> TurnFailed:
    """The same of a message that became a dead letter."""
    error_type, _, text = buried.error.partition(": ")
    return TurnFailed(
        turn=turn,
        error_type=error_type or buried.reason,
        text=f"{text or buried.reason} (dead letter {buried.message_id}, {buried.reason})",
        where=where,
    )


def answer_id(turn: int, asked: str) -> str:
    """The id of the message that answers a turn: it tells which turn, should the message become a dead letter.

    Args:
        turn: Number of the turn.
        asked: Id of the message that asked for it.
    """
    return f"{turn}@{asked}"


def turn_answered(buried: Buried, last: int) -> int:
    """The turn that a message that became a dead letter was about.

    Args:
        buried: The dead letter.
        last: For one whose id does not say it: the last turn that was taken.
    """
    number, at, _ = buried.message_id.partition("@")
    return int(number) if at and number.isdecimal() else last


def unborn_text(unborn: Mapping[str, str]) -> str:
    """Why there is no run in a fork in which a member could not take over its part.

    Args:
        unborn: The members, and the error of each.
    """
    reasons = "; ".join(f"{name!r} could not take over its part ({error})" for name, error in unborn.items())
    return f"this fork is not whole: {reasons}. Replay that dead letter, or fork again under another id"


def error_of(failed: TurnFailed) -> TeamRunError:
    """The error that such a message tells of."""
    if failed.overspent is not None:
        return budget_error(failed.overspent, failed.where)
    return TeamRunError(failed.error_type, failed.text, failed.where, failed.traceback)


def with_output(result: TaskResult, content_type: type[BaseModel] | None, team: str) -> TaskResult:
    """A result whose `output` is the last message of the run, read as an object.

    Args:
        result: The result.
        content_type: Class of the object; None: there is none, and the result stays as it is.
        team: Name of the team.

    Raises:
        TeamOutputError: The last message does not fit (a ValueError).
    """
    if content_type is None:
        return result
    last = next((said for said in reversed(result.messages) if isinstance(said, BaseChatMessage)), None)
    if last is None:
        raise TeamOutputError(team, content_type.__name__, "", "nothing was said")
    try:
        output = _read(last, content_type)
    except ValidationError as error:
        problem = first_problem(error)
        raise TeamOutputError(team, content_type.__name__, last.source, problem) from error
    except ValueError as error:
        raise TeamOutputError(team, content_type.__name__, last.source, str(error)) from error
    return result.model_copy(update={"output": output})


def _read(message: BaseChatMessage, content_type: type[BaseModel]) -> BaseModel:
    content = message.content if isinstance(message, StructuredMessage) else None
    if isinstance(content, content_type):
        return content
    if isinstance(content, BaseModel):
        return content_type.model_validate(content.model_dump())
    return content_type.model_validate_json(json_text(message.to_model_text()))


FENCED: Final = re.compile(r"```[ \t]*([\w+-]*)[ \t]*\n(.*?)```", re.DOTALL)


def json_text(text: str) -> str:
    """The JSON in an answer: the one fenced block in it, or all of it.

    Raises:
        ValueError: There are several blocks, or one in another language.
    """
    blocks = FENCED.findall(text)
    if not blocks:
        return text
    if len(blocks) > 1:
        raise ValueError(f"there are {len(blocks)} blocks in the answer")
    language, content = blocks[0]
    if language.lower() not in ("", "json"):
        raise ValueError("the block in the answer is not JSON")
    return str(content)


def first_problem(error: ValidationError) -> str:
    """The field that does not fit, and why; not its value, which may be secret."""
    first = error.errors(include_input=False, include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else first["msg"]
