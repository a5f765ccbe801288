"""Actions of roles, the language model or the person that they ask, and what all of it costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self

from pydantic import BaseModel, ConfigDict, PrivateAttr

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
from callboard.models.types import Spent
from callboard.runtime.steps import running_context

from .errors import EnvironmentStateError, NoMoneyException, RoleDeclarationError
from .message import any_to_str


class Answering(Protocol):
    """Who is asked for a text."""

    async def aask(self, msg: str, system_msgs: Sequence[str] | None = None) -> str:
        """Ask for a text."""
        ...


class Person:
    """A person in the place of a model: the question is kept in the server until a person answers, see `runtime.inputs`.

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


class CostManager:
    """Costs, as the server had them when the environment looked last: behind every `run`.

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
    """Objects that the roles of an environment share. It reads no file and asks no person.

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
        """Refuse a budget where the cost of a request is not known.

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


class Action(BaseModel):
    """Something that a role can do; write `run`.

    ```python
    class WriteCode(Action):
        async def run(self, with_messages: list[Message] | None = None, **kwargs: Any) -> str: ...
    ```

    Attributes:
        name: Its name; that of the class without.
        prefix: What models are told about the role, before every question.
        desc: What it does, in a sentence.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="allow")

    name: str = ""
    prefix: str = ""
    desc: str = ""
    _context: Context | None = PrivateAttr(default=None)
    _llm: Answering | None = PrivateAttr(default=None)

    def model_post_init(self, context: Any, /) -> None:
        """Name it."""
        self.name = self.name or type(self).__name__

    @property
    def context(self) -> Context:
        """The context of its role; one of its own where it has none."""
        if self._context is None:
            self._context = Context()
        return self._context

    @property
    def llm(self) -> Answering:
        """The language model; a person, where its role is one."""
        return self._llm or self.context.llm()

    def set_context(self, context: Context) -> None:
        """Give it the context of its role."""
        self._context = context

    def set_llm(self, llm: Answering | None) -> None:
        """Say who is asked; None: the model of the context."""
        self._llm = llm

    def set_prefix(self, prefix: str) -> Action:
        """Say what models are told about the role."""
        self.prefix = prefix
        return self

    async def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do it.

        Args:
            *args: What its role gives it: all that the role remembers, as a list of messages.
            **kwargs: Whatever else.

        Returns:
            A text, an ActionOutput, a pydantic model, or a Message.
        """
        raise NotImplementedError(f"{any_to_str(self)} has no run(): write one.")

    async def _aask(self, prompt: str, system_msgs: Sequence[str] | None = None) -> str:
        """Ask the model; in an environment its answer is recorded, so that a crash behind it does not pay again.

        Args:
            prompt: The question.
            system_msgs: What it is told before; the prefix of the role without.

        Raises:
            NoMoneyException: The budget does not cover it.
        """
        told = [self.prefix] if system_msgs is None and self.prefix else system_msgs
        return await self.llm.aask(prompt, told)

    def __str__(self) -> str:
        return type(self).__name__

    __repr__ = __str__


class UserRequirement(Action):
    """A wish of a user: the cause of a message that names none."""


class ActionOutput:
    """A result that is text and data.

    Args:
        content: The text.
        instruct_content: The data; its class is marked with `known_content`.
    """

    def __init__(self, content: str, instruct_content: BaseModel | None = None) -> None:
        self.content = content
        self.instruct_content = instruct_content
