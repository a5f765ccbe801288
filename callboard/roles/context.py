"""What the roles of an environment share: the language model, its prices, and what was spent."""

from __future__ import annotations

from typing import Any, Self

from callboard.models import ChatCompletionClient, ModelSettings, UsageLedger
from callboard.models.usage import Spent

from .errors import NoMoneyException, RoleDeclarationError
from .llm import LLM


class CostManager:
    """What was spent, as the server had it when the environment looked last: behind every `run`.

    Attributes:
        spent: Requests, tokens and USD.
        max_budget: Most that may be spent, USD; None: no limit.
    """

    def __init__(self) -> None:
        self.spent = Spent()
        self.max_budget: float | None = None

    @property
    def total_cost(self) -> float:
        """USD."""
        return self.spent.usd

    @property
    def total_prompt_tokens(self) -> int:
        """Tokens that models read."""
        return self.spent.prompt_tokens

    @property
    def total_completion_tokens(self) -> int:
        """Tokens that models wrote."""
        return self.spent.completion_tokens

    def check(self) -> None:
        """Refuse to go on without money.

        Raises:
            NoMoneyException: The budget is spent.
        """
        if self.max_budget is not None and self.total_cost >= self.max_budget:
            raise NoMoneyException(self.total_cost, self.max_budget)


class Context:
    """What the roles of an environment share. It reads no file and asks nobody.

    Args:
        model_client: The language model; needed where something asks one.
        settings: Prices of models, which a budget needs, and how long an answer is reckoned with.
        **kwargs: Whatever else roles want to share; found in `kwargs`.

    Attributes:
        cost_manager: What was spent.
        kwargs: See above.
    """

    def __init__(
        self,
        model_client: ChatCompletionClient | None = None,
        *,
        settings: ModelSettings | None = None,
        **kwargs: Any,
    ) -> None:
        self.cost_manager = CostManager()
        self.kwargs = kwargs
        self._model_client = model_client
        self._settings = settings or ModelSettings()
        self._llm: LLM | None = None

    def llm(self) -> LLM:
        """The language model, with its usage counted.

        Raises:
            RoleDeclarationError: There is none (a ValueError).
        """
        if self._llm is None:
            if self._model_client is None:
                raise RoleDeclarationError("Context", "give model_client= to ask a language model")
            self._llm = LLM(self._model_client, self._settings)
        return self._llm

    def check_price(self) -> None:
        """Refuse a budget where nobody could say what a request costs.

        Raises:
            RoleDeclarationError: There is a model, and no price of it (a ValueError).
        """
        client = self._model_client
        if client is not None and UsageLedger(settings=self._settings).price(client.model) is None:
            price = f"ModelSettings(prices={{{client.model!r}: Price(...)}})"
            raise RoleDeclarationError("Context", f"a budget needs the price of its model: settings={price}")

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Itself: roles that are copied share it."""
        return self
