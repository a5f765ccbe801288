"""One worker process whose handlers write a history: `python -m tests.helpers.recorded URL NAMESPACE FILE`."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import sys
from pathlib import Path

from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, TopicId, event
from callboard.process.worker import run_worker
from callboard.runtime.runtime import RedisAgentRuntime

from .recorder import Recorder


class Note(BaseModel):
    """To be handled for `seconds`; `name` is unique."""

    name: str
    seconds: float = 0.0


class Noted(BaseModel):
    """The effect of one note, and the run of the handler that made it."""

    name: str
    key: str
    run: str
    total: int


app = App("history")
_runs = itertools.count(1)
_recorders: list[Recorder] = []


@app.agent("noter", topics=["notes"])
class Noter(RoutedAgent):
    """Sends one effect for every note, and counts them."""

    class State(BaseModel):
        """How many notes were handled."""

        total: int = 0

    def __init__(self) -> None:
        super().__init__("takes notes")

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        run = f"{os.getpid()}#{next(_runs)}"
        self._record("invoke", message, run)
        try:
            await asyncio.sleep(message.seconds)
        except asyncio.CancelledError:
            self._record("fail", message, run)  # fenced, or released: nothing of this run may count
            raise
        self.state.total += 1
        effect = Noted(name=message.name, key=self.id.key, run=run, total=self.state.total)
        await self.publish_message(effect, TopicId("noted", self.id.key))

    def _record(self, type: str, message: Note, run: str) -> None:
        for recorder in _recorders:
            recorder.write(type, "commit", self.id.key, message.name, process=run)


async def main(url: str, namespace: str, file: str) -> None:
    """Works until it is told to stop."""
    _recorders.append(Recorder(Path(file), str(os.getpid())))
    runtime = RedisAgentRuntime.from_app(app, url, namespace=namespace)
    await run_worker(runtime, announce=lambda text: print(text, flush=True))


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s", stream=sys.stdout)
    asyncio.run(main(*sys.argv[1:]))
