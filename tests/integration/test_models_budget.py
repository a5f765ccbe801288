"""Budgets and ledgers on a server, shared by clients with connections of their own, as processes have them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NoReturn

from callboard import App, MessageContext, RoutedAgent, TopicId, event
from callboard.broker import BrokerSettings
from callboard.broker.redis.store import RedisStore
from callboard.memory.llm_messages import LLMMessage
from callboard.models import (
    Budget,
    CreateResult,
    MeteredChatCompletionClient,
    ReplayChatCompletionClient,
    RuntimeStore,
    Spent,
    UsageLedger,
    UserMessage,
    usage_run,
)
from callboard.models.errors import BudgetExceededError, BudgetHeldError
from callboard.models.stores import Refusal
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually
from tests.helpers.worker_fleet import WorkerFleet

QUESTION = [UserMessage(content="one two three", source="user")]  # 3 tokens
SHORT = {"max_tokens": 7}


async def slowly(messages: Sequence[LLMMessage]) -> str:
    await asyncio.sleep(0.01)
    return "one two three four"


async def test_many_clients_at_once_stay_within_the_budget(fleet: WorkerFleet) -> None:
    settings = BrokerSettings(namespace=fleet.namespace)
    stores = [RedisStore.at(fleet.url, settings) for _ in range(4)]
    clients = []
    for store in stores:
        model = ReplayChatCompletionClient(default=slowly)
        model.set_cached_bool_value(False)
        budgets = [Budget(tokens=100)]
        clients.append(MeteredChatCompletionClient(model, UsageLedger(store), budgets=budgets))

    async def work(client: MeteredChatCompletionClient) -> int:
        answers = 0
        for _ in range(20):
            try:
                answer = await client.create(QUESTION, extra_create_args=SHORT)
            except BudgetExceededError:
                continue
            assert isinstance(answer, CreateResult)
            answers += 1
        return answers

    answers = sum(await asyncio.gather(*map(work, clients)))
    ledger = clients[0].ledger
    spent = await ledger.spent()
    assert (spent.requests, spent.tokens) == (answers, answers * 7)
    assert 90 < spent.tokens <= 100
    assert await ledger.holds() == 0
    for store in stores:
        store.close()


def app_of(model: MeteredChatCompletionClient, answers: list[str]) -> App:
    app = App("asking")

    @app.agent("asker", topics=["questions"])
    class Asker(RoutedAgent):
        def __init__(self) -> None:
            super().__init__("asks")

        @event
        async def on_question(self, message: str, ctx: MessageContext) -> None:
            answers.append(str((await model.create(QUESTION, extra_create_args=SHORT)).content))

    return app


async def test_messages_that_wait_for_the_budget_of_others_are_handled(fleet: WorkerFleet) -> None:
    """Each needs 10 tokens at most and 7 in the end, of 59: five are let in at once, and there is room for all eight."""
    seen: list[BaseException] = []

    async def answer(messages: Sequence[LLMMessage]) -> str:
        await eventually(lambda: seen)
        return "one two three four"

    class Watched(MeteredChatCompletionClient):
        async def _refuse(self, refused: Refusal, most: Spent) -> NoReturn:
            try:
                await super()._refuse(refused, most)
            except BudgetExceededError as error:
                seen.append(error)
                raise

    model = ReplayChatCompletionClient(default=answer)
    model.set_cached_bool_value(False)
    client = Watched(model, UsageLedger(RuntimeStore()), budgets=[Budget("run", tokens=59)])
    answers: list[str] = []
    async with RedisAgentRuntime.from_app(
        app_of(client, answers), fleet.url, namespace=fleet.namespace
    ) as runtime:
        runtime.start()
        with usage_run("r"):
            for number in range(8):
                await runtime.publish_message("?", TopicId("questions", str(number)))
        await eventually(lambda: len(answers) == 8, 20)
    assert all(isinstance(error, BudgetHeldError) for error in seen)
