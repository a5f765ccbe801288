"""Who roles ask for a text: a language model, whose costs are counted and drawn from the budget first, or a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from callboard.memory.llm_messages import LLMMessage, SystemMessage, UserMessage
from callboard.models import (
    ChatCompletionClient,
    MeteredChatCompletionClient,
    ModelSettings,
    RecordedChatCompletionClient,
    RuntimeStore,
    UsageLedger,
)
from callboard.models.errors import BudgetExceededError, BudgetHeldError
from callboard.runtime.steps import running_context

from .errors import EnvironmentStateError, NoMoneyException


class Answering(Protocol):
    """Who is asked for a text."""

    async def aask(self, msg: str, system_msgs: Sequence[str] | None = None) -> str:
        """Ask for a text."""
        ...


class Person:
    """A person in the place of a model: the question is kept in the server until somebody answers, see `runtime.inputs`.

    Meanwhile the role holds no process; with the answer its act runs again from its start.
    """

    async def aask(self, msg: str, system_msgs: Sequence[str] | None = None) -> str:
        """Ask for a text; what a model would be told besides is not shown.

        Raises:
            EnvironmentStateError: The role acts outside of an environment (a RuntimeError).
        """
        context = running_context()
        if context is None:
            raise EnvironmentStateError("a person is asked in an environment only: env.add_roles([...])")
        return await context.ask(msg)


class LLM:
    """A language model.

    Args:
        client: Asked for every answer.
        settings: Prices.
    """

    def __init__(self, client: ChatCompletionClient, settings: ModelSettings) -> None:
        # On the bus what is used is added up in the server, and an answer belongs to the message that is handled.
        metered = MeteredChatCompletionClient(client, UsageLedger(RuntimeStore(), settings))
        self._on_the_bus = RecordedChatCompletionClient(metered)
        self._alone = MeteredChatCompletionClient(client, UsageLedger(settings=settings))

    async def aask(self, msg: str, system_msgs: Sequence[str] | None = None) -> str:
        """Ask for a text.

        Args:
            msg: The question.
            system_msgs: What the model is told before.

        Raises:
            NoMoneyException: The budget does not cover it.
        """
        asked: list[LLMMessage] = [SystemMessage(content=text) for text in system_msgs or ()]
        asked.append(UserMessage(content=msg, source="user"))
        client: ChatCompletionClient = self._alone if running_context() is None else self._on_the_bus
        try:
            result = await client.create(asked)
        except BudgetHeldError:
            raise  # requests that are under way hold the rest: it is tried again, as after an outage
        except BudgetExceededError as error:
            raise NoMoneyException(error.spent, error.limit) from error
        return result.content if isinstance(result.content, str) else ""
