"""The model of the digest job, when it has one: its name, its budget, and the client that workers and reviewers share.

The variables of the environment below carry the choice into the worker processes. OPENAI_API_KEY, or OPENAI_BASE_URL for a
server of one's own, say where the model is.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from callboard.models import (
    Budget,
    ChatCompletionClient,
    MeteredChatCompletionClient,
    ModelInfo,
    ModelSettings,
    Price,
    RecordedChatCompletionClient,
    RuntimeStore,
    UsageLedger,
)
from callboard.models.info import known_model
from callboard.models.openai import OpenAIChatCompletionClient
from callboard.models.stores import Store

MODEL, TOKENS, PRICE = "DIGEST_MODEL", "DIGEST_TOKENS", "DIGEST_PRICE"
LONGEST_ANSWER = 1_000  # tokens, with what a model thinks before it answers
LONGEST_OF_UNKNOWN = 200  # tokens; small models often find no end
RETRIES = 4  # of a request, after its first attempt
PATIENCE = 60  # seconds without a byte from the model's server
# What a model is taken to be able to do when it is not one of the well-known: it needs to answer in text, no more.
MODEST = ModelInfo(
    vision=False, function_calling=False, json_output=False, family="unknown", structured_output=False
)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model that a job uses.

    Attributes:
        name: As its server calls it.
        tokens: Most tokens that the whole job may use, read and written; None: no limit.
        price: USD for a million tokens; None: not known.
    """

    name: str
    tokens: int | None = None
    price: Price | None = None

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Self | None:
        """The choice of an environment; None: there is none."""
        if not environ.get(MODEL):
            return None
        tokens, price = environ.get(TOKENS), environ.get(PRICE)
        return cls(environ[MODEL], int(tokens) if tokens else None, price_from(price) if price else None)

    @property
    def environ(self) -> dict[str, str]:
        """The variables for `from_environ`."""
        price = f"{self.price.prompt}/{self.price.completion}" if self.price else ""
        return {MODEL: self.name, TOKENS: str(self.tokens or ""), PRICE: price}

    def ledger(self, store: Store) -> UsageLedger:
        """Adds up what the job uses.

        Args:
            store: Of the job's namespace.
        """
        return UsageLedger(store, ModelSettings(prices={self.name: self.price} if self.price else {}))

    def client(self, store: Store, max_retries: int = RETRIES) -> ChatCompletionClient:
        """A client that adds up what is used and stays within the budget.

        Args:
            store: Where the usage of the whole job is added up.
            max_retries: Further attempts after the first.

        Raises:
            AuthenticationError: There is no key for a server that needs one.
        """
        is_known = known_model(self.name) is not None
        asked = OpenAIChatCompletionClient(
            self.name,
            model_info=None if is_known else MODEST,
            max_completion_tokens=LONGEST_ANSWER if is_known else LONGEST_OF_UNKNOWN,
            timeout=PATIENCE,
            max_retries=max_retries,
        )
        budgets = [] if self.tokens is None else [Budget(tokens=self.tokens)]
        return MeteredChatCompletionClient(asked, self.ledger(store), budgets=budgets)


def price_from(text: str) -> Price:
    """A price such as `0.15/0.60`: USD for a million tokens read, and for a million written.

    Raises:
        ValueError: It is something else.
    """
    read, _, written = text.partition("/")
    price = Price(float(read), float(written))
    if not (0 <= price.prompt < float("inf") and 0 <= price.completion < float("inf")):
        raise ValueError(text)
    return price


@functools.cache
def shared_client() -> ChatCompletionClient | None:
    """The client of this process; None: the job uses no model.

    Every answer is recorded with the message that it was asked for: a message that is handled again, because a process
    died, gets it back and pays nothing.
    """
    choice = ModelChoice.from_environ(os.environ)
    return None if choice is None else RecordedChatCompletionClient(choice.client(RuntimeStore()))
