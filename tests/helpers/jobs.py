"""The application that the fault tests run in processes of their own.

A job leaves two traces. The effect, a message on the topic `effects`, is part of the commit: it must come exactly once
and in order. The line in the file that LEDGER names is written by the handler itself: it shows every execution.

A process with PACE=0 sleeps for none of the seconds of a job: what is long where it is to be interrupted is done at once
where it is done again, however long the process took to start.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from callboard import AgentId, App, Log, MessageContext, RoutedAgent, TopicId, event, rpc

Behaviour = Literal["sleep", "block", "hold", "raise", "exit", "hang"]


class Job(BaseModel):
    """What to do: `seconds` of it, then the effect. Number `seq` of its agent key."""

    seq: int
    behaviour: Behaviour = "sleep"
    seconds: float = 0.0


class Effect(BaseModel):
    """What a job did."""

    key: str
    seq: int
    count: int


class HowMany(BaseModel):
    """How many jobs have been done for a key?"""


class Count(BaseModel):
    """So many."""

    total: int


class JobFailedError(RuntimeError):
    """What a job with the behaviour `raise` raises."""


app = App("faults")


def note(what: str, key: str, seq: int, attempt: int) -> None:
    """Adds one line to the file of executions; one small write, so lines of several processes do not mix."""
    ledger = os.environ.get("LEDGER")
    if ledger:
        line = f"{what} {key} {seq} {attempt} {os.getpid()} {time.time():.3f}\n"
        with Path(ledger).open("ab", buffering=0) as file:
            file.write(line.encode())


async def pause(seconds: float) -> None:
    await asyncio.sleep(seconds * float(os.environ.get("PACE", "1")))


async def behave(job: Job) -> None:
    if job.behaviour == "sleep":
        await pause(job.seconds)
    elif job.behaviour == "block":
        time.sleep(job.seconds)  # noqa: ASYNC251
    elif job.behaviour == "hold":
        ctypes.PyDLL(None).usleep(
            int(job.seconds * 1_000_000)
        )  # keeps the GIL, as a slow regular expression does
    elif job.behaviour == "raise":
        raise JobFailedError("this job always fails")
    elif job.behaviour == "exit":
        os._exit(7)
    else:
        await asyncio.Event().wait()


class JobAgent(RoutedAgent):
    """Does jobs and counts them."""

    class State(BaseModel):
        """How many jobs have been done, and which."""

        total: int = 0
        done: Log[int] = Log()

    def __init__(self) -> None:
        super().__init__("does jobs")

    @event
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        note("start", self.id.key, message.seq, ctx.attempt)
        await behave(message)
        self.state.total += 1
        self.state.done.append(message.seq)
        effect = Effect(key=self.id.key, seq=message.seq, count=self.state.total)
        await self.publish_message(effect, TopicId("effects", self.id.key))
        note("end", self.id.key, message.seq, ctx.attempt)

    @rpc
    async def on_how_many(self, message: HowMany, ctx: MessageContext) -> Count:
        return Count(total=self.state.total)


@app.agent("job", topics=["jobs"])
class Worker(JobAgent):
    """With the default settings."""


@app.agent("limited", topics=["limited"], max_runtime=0.3)
class Limited(JobAgent):
    """May not run long."""


@app.agent("brief", topics=["brief"], max_runtime=0.3, max_attempts=2)
class Brief(JobAgent):
    """May not run long, nor often."""


class Errand(BaseModel):
    """A job that is done by asking somebody who asks back: `seconds` before and after that. Number `seq` of its key."""

    seq: int
    seconds: float = 0.0


class Help(BaseModel):
    """The request to the one who asks back."""

    seq: int
    seconds: float


class CountOne(BaseModel):
    """The request that comes back."""


@app.agent("asker", topics=["errands"], reentrant=True, max_attempts=20)
class Asker(RoutedAgent):
    """Counts its errands only when it is asked to while it waits."""

    class State(BaseModel):
        """How many errands were done."""

        total: int = 0

    @event
    async def on_errand(self, message: Errand, ctx: MessageContext) -> None:
        key = self.id.key
        note("start", key, message.seq, ctx.attempt)
        helper = AgentId("helper", key)
        count: Count = await self.send_message(Help(seq=message.seq, seconds=message.seconds), helper)
        effect = Effect(key=key, seq=message.seq, count=count.total)
        await self.publish_message(effect, TopicId("effects", key))
        note("end", key, message.seq, ctx.attempt)

    @rpc
    async def on_count_one(self, message: CountOne, ctx: MessageContext) -> Count:
        self.state.total += 1
        return Count(total=self.state.total)


@app.agent("helper", max_attempts=20)
class Helper(RoutedAgent):
    """Asks back before it answers."""

    @rpc
    async def on_help(self, message: Help, ctx: MessageContext) -> Count:
        note("help", self.id.key, message.seq, ctx.attempt)
        await asyncio.sleep(message.seconds)
        count: Count = await self.send_message(CountOne(), AgentId("asker", self.id.key))
        await asyncio.sleep(message.seconds)
        return count


class Purchase(BaseModel):
    """Something to be paid: `seconds` between its first step and what follows. Number `seq` of its key."""

    seq: int
    seconds: float


class Charge(BaseModel):
    """The request to the till."""

    seq: int


@app.agent("payer", topics=["purchases"])
class Payer(RoutedAgent):
    """Makes effects of every kind before its commit: steps, a request, and an event that leaves at once."""

    @event
    async def on_purchase(self, message: Purchase, ctx: MessageContext) -> None:
        key, seq = self.id.key, message.seq

        async def write(what: str) -> None:
            note(what, key, seq, ctx.attempt)

        note("start", key, seq, ctx.attempt)
        await ctx.once("order", write, "order")
        await pause(message.seconds)
        count: Count = await self.send_message(Charge(seq=seq), AgentId("till", key))
        await ctx.once("mail", write, "mail")
        effect = Effect(key=key, seq=seq, count=count.total)
        await self.publish_message(effect, TopicId("effects", key), now=True)
        note("end", key, seq, ctx.attempt)


@app.agent("till")
class Till(RoutedAgent):
    """Counts what it was asked to charge."""

    class State(BaseModel):
        """How often it charged."""

        charged: int = 0

    @rpc
    async def on_charge(self, message: Charge, ctx: MessageContext) -> Count:
        note("charge", self.id.key, message.seq, ctx.attempt)
        self.state.charged += 1
        return Count(total=self.state.charged)
