# counting.py
from pydantic import BaseModel

from callboard import App, MessageContext, Request, RoutedAgent, event, rpc


class Visit(BaseModel):
    name: str


class Count(BaseModel):
    total: int = 0


class HowMany(BaseModel, Request[Count]): ...


app = App("counting")


@app.agent("counter", topics=["visits"])
class Counter(RoutedAgent[Count]):
    @event
    async def on_visit(self, message: Visit, ctx: MessageContext) -> None:
        self.state.total += 1

    @rpc
    async def on_how_many(self, message: HowMany, ctx: MessageContext) -> Count:
        return Count(total=self.state.total)
