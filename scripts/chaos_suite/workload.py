"""The application that is put under fire.

Each job leaves two traces: a line in the log of outside effects (executions.py), which the handler writes itself, and a
message on the topic `effects`, which leaves with the commit and carries the agent's counter.
"""

from __future__ import annotations

import asyncio
import functools
import os
import time
from pathlib import Path
from typing import Literal, cast

from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, TopicId, event
from callboard.runtime.runtime import RedisAgentRuntime

from .executions import EffectsLog

FOLDER = "CHAOS_FOLDER"
HEALED = "healed"  # while this file is not in the folder, jobs with the behaviour `raise` raise
LEAK = 5 * 1024 * 1024  # bytes that a job with the behaviour `leak` keeps
MAX_RUNTIME = 0.5  # seconds, of the agent type `frail`
ATTEMPTS = 3  # of the agent type `frail`
OFTEN = (
    100_000  # a job that is killed again and again with its worker is no poison: the suite does the killing
)

Behaviour = Literal["sleep", "block", "raise", "exit", "hang", "leak"]


class Job(BaseModel):
    """A job for a handler: `seconds` of work, then the effect.

    Attributes:
        id: unique.
        published: when, by clock.py.
        behaviour, seconds: what the handler does.
        filler: makes it large.
    """

    id: str
    published: float
    behaviour: Behaviour = "sleep"
    seconds: float = 0.0
    filler: str = ""


class Effect(BaseModel):
    """The message that leaves with the commit of a job. `run` and `worker` name the execution, `count` is the state."""

    id: str
    key: str
    run: str
    worker: str
    count: int
    published: float


class JobFailedError(RuntimeError):
    """The error of a job with the behaviour `raise`."""


app = App("chaos")
leaked: list[bytearray] = []


@functools.cache
def _folder() -> Path:
    return Path(os.environ[FOLDER])


@functools.cache
def _log() -> EffectsLog:
    return EffectsLog(_folder())


async def _behave(job: Job) -> None:
    if job.behaviour == "block":
        time.sleep(job.seconds)  # noqa: ASYNC251 - blocking the event loop is the fault
    elif job.behaviour == "raise" and not (_folder() / HEALED).exists():
        raise JobFailedError("this job fails until it is healed")
    elif job.behaviour == "exit":
        os._exit(7)
    elif job.behaviour == "hang":
        await asyncio.Event().wait()
    elif job.behaviour == "leak":
        leaked.append(bytearray(os.urandom(1024)) * (LEAK // 1024))
    if job.behaviour != "block":
        await asyncio.sleep(job.seconds)


class JobAgent(RoutedAgent):
    """Does jobs and counts them."""

    class State(BaseModel):
        """How many jobs have been done."""

        total: int = 0

    @event
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        worker = cast("RedisAgentRuntime", self.runtime).worker
        run = _log().start(message.id, str(self.id), ctx.attempt, worker)
        how = "raised"
        try:
            await _behave(message)
            self.state.total += 1
            effect = Effect(
                id=message.id,
                key=str(self.id),
                run=run,
                worker=worker,
                count=self.state.total,
                published=message.published,
            )
            await self.publish_message(effect, TopicId("effects", self.id.key))
            how = "returned"
        except asyncio.CancelledError:
            how = "cancelled"
            raise
        finally:
            _log().end(run, how)


@app.agent("job", topics=["jobs"], max_attempts=OFTEN)
class Worker(JobAgent):
    """Does what the publishers of the load want."""


@app.agent("frail", topics=["frail"], max_attempts=ATTEMPTS, max_runtime=MAX_RUNTIME)
class Frail(JobAgent):
    """Does what fails."""


@app.agent("alarm", topics=["alarms"], max_attempts=OFTEN)
class Alarm(JobAgent):
    """Does what is due later."""
