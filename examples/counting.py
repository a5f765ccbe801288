# counting.py
from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, event, rpc


class Visit(BaseModel):
    name: str


class HowMany(BaseModel): ...


class Count(BaseModel):
    total: int


app = App("counting")


@app.agent("counter", topics=["visits"])
class Counter(RoutedAgent):
    class State(BaseModel):
        total: int = 0

    @event
    async def on_visit(self, message: Visit, ctx: MessageContext) -> None:
        self.state.total += 1

    @rpc
    async def on_how_many(self, message: HowMany, ctx: MessageContext) -> Count:
        return Count(total=self.state.total)
