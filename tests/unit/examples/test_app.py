"""The four agents, played without a runtime: every order and every repetition ends with the same digest."""

import random
from collections import Counter
from typing import Any, cast

import pytest
from pydantic import BaseModel

from callboard import AgentId, AgentRuntime, BaseAgent, CancellationToken, MessageContext, TopicId
from examples.counting import Count, Counter as CountingAgent, HowMany, Visit, app as counting_app
from examples.digest import app as exported
from examples.digest.app import app
from examples.digest.errors import StraySubtaskError
from examples.digest.messages import PARTS, ROUNDS, Document, Feedback, Requirements, Result
from examples.digest.result import render
from examples.digest.steps import rehearse


def recipient(topic: TopicId) -> AgentId:
    """The one agent that hears a topic, by what the app declares."""
    [agent_id] = [
        subscription.map_to_agent(topic)
        for one in app.declarations
        for subscription in one.subscriptions
        if subscription.is_match(topic)
    ]
    return agent_id


class Outbox:
    """Keeps what a handler publishes until its commit."""

    def __init__(self) -> None:
        self.published: list[tuple[BaseModel, TopicId]] = []

    async def publish_message(self, message: BaseModel, topic_id: TopicId, **options: object) -> None:
        self.published.append((message, topic_id))


class Play:
    """Delivers in a random order, one message per agent at a time, states and messages as JSON in between."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.states: dict[AgentId, str] = {}
        self.queue: list[tuple[str, TopicId, type[BaseModel]]] = []
        self.handled: Counter[str] = Counter()
        self.results: list[Result] = []

    async def run(self, requirements: Requirements) -> None:
        self.publish(requirements, TopicId("requirements", requirements.job))
        while self.queue:
            body, topic, message_class = self.queue.pop(self.random.randrange(len(self.queue)))
            agent_id = recipient(topic)
            message = message_class.model_validate_json(body)
            if self.random.random() < 0.3:
                # A worker that dies after its work and before its commit.
                await self.handle(agent_id, message, topic)
            agent, outbox = await self.handle(agent_id, message, topic)
            self.handled[agent_id.type] += 1
            if agent_id.type != "splitter":
                self.states[agent_id] = agent.state.model_dump_json()
            for published, where in outbox.published:
                self.publish(published, where)

    def publish(self, message: BaseModel, topic: TopicId) -> None:
        if isinstance(message, Result):
            assert topic == TopicId("results", message.key)
            self.results.append(message)
            return
        self.queue.append((message.model_dump_json(), topic, type(message)))

    async def handle(self, agent_id: AgentId, message: BaseModel, topic: TopicId) -> tuple[BaseAgent, Outbox]:
        outbox = Outbox()
        agent = cast("BaseAgent", app[agent_id.type].agent_class())
        await agent.bind_id_and_runtime(agent_id, cast("AgentRuntime", outbox))
        if agent_id in self.states:
            agent.state = cast("Any", agent).State.model_validate_json(self.states[agent_id])
        await agent.on_message(message, context(topic))
        return agent, outbox


def context(topic: TopicId | None) -> MessageContext:
    return MessageContext(
        sender=None,
        topic_id=topic,
        is_rpc=topic is None,
        cancellation_token=CancellationToken(),
        message_id="id",
    )


def job() -> Requirements:
    lines = [
        f"Worker w{at % 7}x commits the stream s{at % 11}x with its state number n{at}x." for at in range(80)
    ]
    text = "\n\n".join(f"## Part {at}\n\n{' '.join(lines[at * 8 : at * 8 + 8])}" for at in range(10))
    return Requirements(job="job-1", title="Streams", documents=[Document(name="a.md", text=text)])


@pytest.mark.parametrize("seed", range(5))
async def test_every_order_and_repetition_gives_the_same_digest_and_the_exact_counts(seed: int) -> None:
    play = Play(seed)
    await play.run(job())
    each = PARTS * ROUNDS
    assert play.handled == {"splitter": 1, "worker": each, "compiler": each, "reviewer": each}
    assert len(play.results) == PARTS
    assert render(play.results) == render(rehearse(job()))


async def test_two_jobs_do_not_mix() -> None:
    play = Play(0)
    play.publish(
        job().model_copy(update={"job": "other", "title": "Other"}), TopicId("requirements", "other")
    )
    await play.run(job())
    for name, title in (("job-1", "Streams"), ("other", "Other")):
        text = render(result for result in play.results if result.job == name)
        assert text == render(rehearse(job().model_copy(update={"title": title})))


async def test_nothing_of_the_text_is_kept_after_the_last_round() -> None:
    play = Play(1)
    await play.run(job())
    kept = {state for agent_id, state in play.states.items() if agent_id.type in ("worker", "compiler")}
    assert kept == {'{"subtask":null}', '{"drafts":[]}'}


async def test_feedback_without_a_subtask_is_refused_for_good() -> None:
    stray = Feedback(job="job", number=3, round=1, verdict="fine", note="fine", budget=9, cover=[], drop=[])
    with pytest.raises(StraySubtaskError, match="Worker job/3 got feedback") as caught:
        await Play(0).handle(AgentId("worker", "job/3"), stray, TopicId("feedback", "job/3"))
    assert caught.value.permanent


def test_the_app_declares_one_process_per_type_and_three_workers() -> None:
    assert exported is app
    assert {one.type: one.processes for one in app.declarations} == {
        "splitter": 1,
        "worker": 3,
        "compiler": 1,
        "reviewer": 1,
    }
    assert "Result" in app.message_types()


async def test_hello_world_counts() -> None:
    agent = CountingAgent()
    await agent.bind_id_and_runtime(AgentId("counter", "default"), cast("AgentRuntime", Outbox()))
    for name in ("Ada", "Bob"):
        await agent.on_message(Visit(name=name), context(TopicId("visits", "default")))
    assert await agent.on_message(HowMany(), context(None)) == Count(total=2)
    assert [one.type for one in counting_app] == ["counter"]
