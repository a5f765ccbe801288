"""Notices of runs: an agent, or a topic, hears that a run has ended or asks a person, without anything that reads the run.

The notice of an end leaves with the commit that ends the run, so it is sent once, whatever dies. That of a question leaves
with it; a later attempt that asks again sends the same message, which is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from contextvars import Context
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict

from callboard.broker import AgentId, TopicId
from callboard.broker.codec import message
from callboard.broker.redis.client.questions import AWAITED_RUN
from callboard.core.context import ContextScope
from callboard.errors import InputError, SettingValueError
from callboard.runtime.effects import RUN, noting
from callboard.runtime.execution import in_run_path

from .protocol import StartRun, conversation_of, stream_of

if TYPE_CHECKING:
    from callboard.core.agent import Messaging
    from callboard.core.context import MessageContext
    from callboard.core.people import Question
    from callboard.messages.chat import BaseChatMessage
    from callboard.runtime.runtime import RedisAgentRuntime

    from .protocol import CurrentRun, RunEnded

Hearer: TypeAlias = AgentId | TopicId
"""Who is told what becomes of a run."""

MOST_TEXT: Final = 10_000  # characters of what was said last
QUESTION: Final = "question"  # the kind of a hearer that is a handler which waits, see `waiting_in`


@message(name="callboard.team.RunNotice")
class RunNotice(BaseModel):
    """A run that was started with `on_end`, or whose team is heard by the agent's type, has ended, or asks a person.

    Attributes:
        team: Agent type of its team.
        conversation: Id of the conversation.
        run_id: Id of the run.
        state: How it ended; "input_required": it has not, it asks.
        stop_reason: Why it was completed; None: it was not.
        error_type: Class of the error of a run that failed; "": it did not.
        problem: The text of that error.
        text: What was said last, in 10,000 characters at most; of a run that asks: the question.
        input_id: The question, for `runtime.inputs`; "": it does not ask.
        at: When that was, in Unix time, by the clock of the process.
    """

    model_config = ConfigDict(frozen=True)

    team: str
    conversation: str
    run_id: str
    state: Literal["completed", "failed", "cancelled", "input_required"]
    stop_reason: str | None = None
    error_type: str = ""
    problem: str = ""
    text: str = ""
    input_id: str = ""
    at: float = 0.0


class Hearers(NamedTuple):
    """All who are told of a run.

    Attributes:
        own: The hearer that it was started with, see `name_of`; "": none.
        types: Agent types that hear of every run of the team; the key of the agent is the run's stream.
    """

    own: str
    types: tuple[str, ...]


@message(name="callboard.team.Wake")
class Wake(BaseModel):
    """A handler waits for a run that has ended: what a manager tells itself, so that it goes on when that is committed.

    Attributes:
        input_id: The question as which it waits.
        notice: Its answer.
    """

    model_config = ConfigDict(frozen=True)

    input_id: str
    notice: RunNotice


def name_of(hearer: Hearer | None) -> str:
    """The hearer as it is written in orders; "": none.

    Raises:
        SettingValueError: It is something else (a ValueError).
    """
    if hearer is None:
        return ""
    if isinstance(hearer, AgentId | TopicId):
        return f"{'agent' if isinstance(hearer, AgentId) else 'topic'} {hearer}"
    raise SettingValueError(
        "on_end", f"{hearer!r:.80}", "an AgentId or a TopicId, such as `self.id` in a handler"
    )


def waiting_in(hearer: str) -> str:
    """Id of the question as which a handler waits for a run; "": the hearer is none that waits."""
    kind, _, input_id = hearer.partition(" ")
    return input_id if kind == QUESTION else ""


async def tell_end(manager: Messaging, run: CurrentRun, end: RunEnded, said: str) -> None:
    """Tell who is to hear of it that a run has ended; it leaves with the commit.

    Args:
        manager: Leads the conversation.
        run: The run.
        end: Its last entry.
        said: What was said last in it.
    """
    notice = RunNotice(
        team=manager.id.type,
        conversation=manager.id.key,
        run_id=run.run_id,
        state=end.state,
        stop_reason=end.stop_reason,
        error_type="" if end.error is None else end.error.error_type,
        problem="" if end.error is None else end.error.text,
        text=said[:MOST_TEXT],
        at=time.time(),
    )
    stream = stream_of(manager.id, run.run_id)
    message_id = f"{stream}:end"
    # What is done because of it is not done in the run that is over; it may be in the one that has started it.
    input_id = waiting_in(run.hearer)
    with in_run_path(run.path.rpartition(RUN)[0]):
        await _tell_types(manager, run.heard_by, stream, notice, message_id)
        if run.hearer and not input_id:
            await _send(manager, run.hearer, notice, message_id)
    if input_id:
        await manager.tell(Wake(input_id=input_id, notice=notice), manager.id, message_id=message_id)


async def tell_question(
    runtime: RedisAgentRuntime,
    agent: AgentId,
    hearers: Hearers,
    stream: str,
    input_id: str,
    question: Question,
) -> None:
    """Tell who is to hear of it that a run asks a person. At once: the handler that asks is never committed.

    Args:
        runtime: That of the agent.
        agent: The agent that asks, a member or the one that asks for the manager.
        hearers: Who is to hear it.
        stream: That of the run.
        input_id: Id of the question.
        question: The question.
    """
    notice = RunNotice(
        team=agent.type.partition(".")[0],
        conversation=conversation_of(agent),
        run_id=stream.rpartition("@")[0],
        state="input_required",
        text=question.text[:MOST_TEXT],
        input_id=input_id,
        at=time.time(),
    )

    async def send() -> None:
        message_id = f"{input_id}:asks"
        await _tell_types(runtime, hearers.types, stream, notice, message_id)
        if hearers.own and not waiting_in(hearers.own):  # a handler waits for the end
            await _send(runtime, hearers.own, notice, message_id)

    # In a context of its own it belongs to no handler, so it does not wait for a commit.
    await asyncio.get_running_loop().create_task(send(), context=Context())


async def _tell_types(
    by: Messaging | RedisAgentRuntime, types: Sequence[str], stream: str, notice: RunNotice, message_id: str
) -> None:
    sender: Any = by
    for kind in types:
        # An agent for each run: what waits for one that can't be told of a run holds up no other run.
        await sender.tell(notice, AgentId(kind, stream), message_id=f"{message_id}:{kind}")


async def _send(by: Messaging | RedisAgentRuntime, hearer: str, notice: RunNotice, message_id: str) -> None:
    kind, _, name = hearer.partition(" ")
    sender: Any = by
    if kind == "topic":
        await sender.publish_message(notice, TopicId.from_str(name), message_id=message_id)
    else:
        await sender.tell(notice, AgentId.from_str(name), message_id=message_id)


async def wake(runtime: RedisAgentRuntime, told: Wake) -> None:
    """Let the handler go on that waits for a run; one that does not wait any more is left alone."""
    with contextlib.suppress(InputError):
        await runtime.inputs.answer(told.input_id, told.notice)


def awaited_id(message_id: str, manager: AgentId, task: Sequence[BaseChatMessage]) -> str:
    """Id of the run for which the handler of a message waits: the same in every attempt."""
    # Without the messages' ids and times, which are new in every attempt.
    said = [f"{type(one).__name__} {one.source}\0{one.to_text()}" for one in task]
    parts = "\0".join([message_id, str(manager), *said])
    return sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()[:32]


async def wait_for_end(ctx: MessageContext, start: RunStart) -> None:
    """Start a run, and wait for its end without a process.

    Args:
        ctx: The context of the handler.
        start: The run.
    """
    manager, run_id = start.manager, start.order.run_id
    with ContextScope(noting, start):
        await ctx.ask(
            f"waits for the run {run_id} of {manager}",
            name=f"run {stream_of(manager, run_id)}",
            answer_type=RunNotice,
            details={
                "kind": AWAITED_RUN,
                "team": manager.type,
                "conversation": manager.key,
                "run_id": run_id,
            },
        )


class RunStart:
    """Starts a run once the question is kept by which a handler waits for its end: it may end at once.

    Args:
        runtime: That of the agent.
        manager: Address of the manager.
        order: The run.
    """

    stream = ""

    def __init__(self, runtime: RedisAgentRuntime, manager: AgentId, order: StartRun) -> None:
        self._runtime = runtime
        self.manager = manager
        self.order = order

    def asked(self, input_id: str, question: Question) -> list[Any]:
        """Readers of another run see nothing of it."""
        return []

    async def waits(self, input_id: str, question: Question) -> None:
        """Start it; in a later attempt it is the same message, which is dropped."""
        await asyncio.get_running_loop().create_task(self._start(input_id), context=Context())

    async def _start(self, input_id: str) -> None:
        order = self.order.model_copy(update={"hearer": f"{QUESTION} {input_id}"})
        # Not the id with which a client starts the run: it would be taken for that order come again, and be dropped.
        with in_run_path(order.path):
            await self._runtime.tell(order, self.manager, message_id=f"{input_id}:starts")

    async def ended(self, input_id: str) -> None:
        """The handler goes on."""
