"""Teams whose runs end in each way, and agents that hear of it."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, event
from callboard.agents import BaseChatAgent, Response
from callboard.messages import BaseChatMessage, TextMessage
from callboard.models import ChatCompletionClient, ReplayChatCompletionClient
from callboard.runs import ask_user
from callboard.teams import (
    BaseGroupChat,
    RoundRobinGroupChat,
    RunBudget,
    RunCancelledError,
    RunNotice,
    TeamClient,
    TeamRunError,
)

from .runtimes import Note


class Job(BaseModel):
    """Teams to wait for."""

    teams: list[str]
    tokens: int | None = None
    run_id: str | None = None


class Member(BaseChatAgent):
    """Says what it is; fails, asks or waits for ever if it is named so."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "A member.")

    @property
    def produced_message_types(self) -> tuple[type[BaseChatMessage], ...]:
        return (TextMessage,)

    async def on_messages(self, messages: Any, cancellation_token: Any) -> Response:
        if self.name == "fails":
            raise ValueError("no such refund")
        text = await ask_user("May I?") if self.name == "asks" else f"{self.name} speaks"
        return Response(chat_message=TextMessage(content=text, source=self.name))

    async def on_reset(self, cancellation_token: Any) -> None:
        """It remembers nothing."""


class Direct(Member):
    """Asks a model by itself, so that no budget can hold."""

    def unrecorded_clients(self) -> list[ChatCompletionClient]:
        return [ReplayChatCompletionClient([])]


def team(name: str, *members: str) -> BaseGroupChat:
    """Members in turn, each once."""
    return RoundRobinGroupChat([Member(one) for one in members], name=name, max_turns=len(members))


app = App("notices")
plain = app.team(team("plain", "ann", "bob"))
failing = app.team(team("failing", "fails"))
asking = app.team(team("asking", "asks", "ann"))
app.team(RoundRobinGroupChat([Direct("dan")], name="limited", max_turns=1))
app.team(team("second", "cyd"))
outer = app.team(RoundRobinGroupChat([team("inner", "ann", "asks")], name="outer", max_turns=1))


@app.agent("clerk", topics=["work"])
class Clerk(RoutedAgent):
    """Begins a run for each message, and hears of them."""

    class State(BaseModel):
        """What it heard."""

        heard: list[RunNotice] = []

    state: State

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        await plain.on(self.runtime, ctx.message_id).start(task="Go", run_id=ctx.message_id, on_end=self.id)

    @event
    async def on_notice(self, message: RunNotice, ctx: MessageContext) -> None:
        assert ctx.run_id is None
        self.state.heard = [*self.state.heard, message]


@app.agent("waiter", topics=["tables"])
class Waiter(RoutedAgent):
    """Waits for a run for each message, or for two at once; the text says which."""

    class State(BaseModel):
        """How they ended."""

        said: list[str] = []
        attempts: int = 0

    state: State

    @event
    async def on_job(self, message: Job, ctx: MessageContext) -> None:
        clients = [TeamClient(self.runtime, name, f"{ctx.message_id}-{name}") for name in message.teams]
        budget = None if message.tokens is None else RunBudget(tokens=message.tokens)
        try:
            results = await asyncio.gather(
                *(
                    client.run_within(ctx, task="Go", budget=budget, run_id=message.run_id)
                    for client in clients
                )
            )
        except (TeamRunError, RunCancelledError) as error:
            self.state.said = [*self.state.said, type(error).__name__]
            return
        last = [result.messages[-1].to_model_text() for result in results]  # type: ignore[union-attr]
        self.state.said = [*self.state.said, f"{ctx.attempt} {' '.join(last)}"]


@app.agent("hall", topics=["ended"])
class Hall(Clerk):
    """Hears of runs by a topic."""
