"""The files of the smallest app that `callboard init` writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

APP = '''"""A small Callboard app: it counts visits, one counter per place."""

from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, event, rpc


class Visit(BaseModel):
    """A visitor came."""

    name: str


class HowMany(BaseModel):
    """Asks a counter for its total."""


class Count(BaseModel):
    """The answer."""

    total: int
    last: str | None


app = App("{name}")


@app.agent("counter", topics=["visits"])
class Counter(RoutedAgent):
    """One counter per place; its state is stored with every message that it handles."""

    class State(BaseModel):
        total: int = 0
        last: str | None = None

    @event
    async def on_visit(self, message: Visit, ctx: MessageContext) -> None:
        self.state.total += 1
        self.state.last = message.name

    @rpc
    async def on_how_many(self, message: HowMany, ctx: MessageContext) -> Count:
        return Count(total=self.state.total, last=self.state.last)
'''

README = """# {name}

An app made of durable actors on Redis, see `app.py`. In one terminal, in this folder:

    callboard up app:app

In another:

    callboard publish app:app visits Visit name=Ada
    callboard publish app:app visits Visit name=Grace --key museum
    callboard ask app:app counter/default HowMany
    callboard ask app:app counter/museum HowMany
    callboard status app:app
    callboard tail app:app --from-start --limit 2

Messages and states are in `.callboard/`, kept by a server that callboard starts by itself; with
`CALLBOARD_URL` set, such as `redis://localhost:6379`, they are in that server instead. Stop `up` with Ctrl-C,
publish meanwhile, start it again: nothing is lost and nothing is counted twice.

How it looks in Redis:

    callboard server cli XINFO GROUPS 'callboard:{{{name}}}:topic:visits'
    callboard server cli HGETALL 'callboard:{{{name}}}:state:counter:default'
"""

COUNTER: Final[Mapping[str, str]] = {"app.py": APP, "README.md": README}
