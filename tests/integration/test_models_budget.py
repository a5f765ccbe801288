"""Budgets and ledgers on a server, shared by clients with connections of their own, as processes have them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from callboard.broker import BrokerSettings
from callboard.broker.redis.store import RedisStore
from callboard.memory.llm_messages import LLMMessage
from callboard.models import (
    Budget,
    CreateResult,
    MeteredChatCompletionClient,
    ReplayChatCompletionClient,
    UsageLedger,
    UserMessage,
)
from callboard.models.errors import BudgetExceededError
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
