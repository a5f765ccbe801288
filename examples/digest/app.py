"""The digest job as an app: four agent types that split, work, compile and review.

| agent type | key | hears | says |
|---|---|---|---|
| splitter | job | Requirements | 10 Subtask |
| worker | job/number | Subtask, then Feedback | Draft, three times |
| compiler | job | Draft | 10 Compiled once a round is complete |
| reviewer | job/number | Compiled | Feedback, and Result after the third round |

One run handles exactly 1 + 30 + 30 + 30 messages and leaves 10 on the topic `results`. Every handler is a
function of its message and its state, so the digest is the same whatever processes there are and whatever
happens to them. With a model (see `model`) the worker's sentences and the reviewer's notes are in its words.
"""

import asyncio

from pydantic import BaseModel

from callboard.app import App
from callboard.broker import TopicId
from callboard.core.context import MessageContext
from callboard.core.handlers import RoutedAgent, event

from . import steps, wording
from .errors import StraySubtaskError
from .messages import ROUNDS, Compiled, Draft, Feedback, Requirements, Result, Subtask, Verdict
from .model import shared_client

app = App("digest")
# No agent subscribes to the results: the process that started the job reads them.
app.messages(Result)


@app.agent("splitter", topics=["requirements"])
class Splitter(RoutedAgent):
    """Splits the documents into ten subtasks."""

    @event
    async def on_requirements(self, message: Requirements, ctx: MessageContext) -> None:
        # Nearly a megabyte takes a second or more; the event loop stays free for other jobs.
        for subtask in await asyncio.to_thread(steps.split, message):
            await self.publish_message(subtask, TopicId("subtasks", subtask.key))


@app.agent("worker", topics=["subtasks", "feedback"], processes=3)
class Worker(RoutedAgent):
    """Chooses the best sentences of one subtask, and again after each feedback."""

    class State(BaseModel):
        """The subtask, from its arrival to the last draft."""

        subtask: Subtask | None = None

    @event
    async def on_subtask(self, message: Subtask, ctx: MessageContext) -> None:
        self.state.subtask = message
        await self._publish_draft(message, None)

    @event
    async def on_feedback(self, message: Feedback, ctx: MessageContext) -> None:
        if self.state.subtask is None:
            raise StraySubtaskError(message.key)
        await self._publish_draft(self.state.subtask, message)

    async def _publish_draft(self, subtask: Subtask, feedback: Feedback | None) -> None:
        await asyncio.sleep(subtask.pace)
        draft = await asyncio.to_thread(steps.write, subtask, feedback)
        model = shared_client()
        if model is not None and draft.picks:
            answer = await model.create(wording.ask_writer(draft, feedback))
            draft = wording.reworded(draft, str(answer.content))
        if draft.round == ROUNDS:
            self.state.subtask = None
        await self.publish_message(draft, TopicId("drafts", draft.job))


@app.agent("compiler", topics=["drafts"])
class Compiler(RoutedAgent):
    """Puts the drafts of a round together and sets each part against the others."""

    class State(BaseModel):
        """The drafts of the round that is not complete yet."""

        drafts: list[Draft] = []

    @event
    async def on_draft(self, message: Draft, ctx: MessageContext) -> None:
        drafts = steps.collect(self.state.drafts, message)
        compiled = steps.gather(drafts)
        for part in compiled:
            await self.publish_message(part, TopicId("compiled", part.key))
        self.state.drafts = [] if compiled else drafts


@app.agent("reviewer", topics=["compiled"])
class Reviewer(RoutedAgent):
    """Checks length, repetition and coverage of headings; sends feedback, at last the result."""

    class State(BaseModel):
        """The verdicts on the part so far; each feedback repeats the demands of the one before."""

        verdicts: list[Verdict] = []
        cover: list[int] = []
        drop: list[int] = []

    @event
    async def on_compiled(self, message: Compiled, ctx: MessageContext) -> None:
        state = self.state
        if message.round == ROUNDS:
            result = steps.conclude(message, state.verdicts)
            await self.publish_message(result, TopicId("results", message.key))
            return
        feedback = steps.review(message, state.cover, state.drop)
        model = shared_client()
        if model is not None and message.draft.picks:
            answer = await model.create(wording.ask_reviewer(message.draft))
            feedback = wording.annotated(feedback, str(answer.content))
        state.verdicts.append(feedback.verdict)
        state.cover, state.drop = feedback.cover, feedback.drop
        await self.publish_message(feedback, TopicId("feedback", message.key))
