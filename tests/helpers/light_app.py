"""An app whose handler says which modules its process has loaded."""

from __future__ import annotations

import sys

from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, event


class Visit(BaseModel):
    """Somebody comes."""

    name: str


app = App("light")


@app.agent("teller", topics=["visits"])
class Teller(RoutedAgent):
    """Tells at each visit."""

    @event
    async def on_visit(self, message: Visit, ctx: MessageContext) -> None:
        print("loaded", *sorted(sys.modules), flush=True)
