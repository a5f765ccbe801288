"""The agent that speaks for a person, and the question that the person is being asked."""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import ClassVar, Final, Self, TypeAlias

from pydantic import BaseModel, Field

from callboard.core.cancellation import CancellationToken
from callboard.core.context import ContextScope
from callboard.core.people import Question, ask_person, can_ask
from callboard.errors import MisuseError
from callboard.foundation.component import Component
from callboard.messages.chat import BaseChatMessage, HandoffMessage, TextMessage
from callboard.messages.events import UserInputRequestedEvent
from callboard.runtime.steps import NumberedStep, running_context
from callboard.tools.named_functions import function_at, function_path

from .base import BaseChatAgent, Response, Said, call, response_of, takes_token
from .errors import UserInputError

_request_id: Final[ContextVar[str]] = ContextVar("callboard_input_request")


class InputRequestContext:
    """Tells the function that asks a person which question it asks; `UserProxyAgent.InputRequestContext`."""

    def __init__(self) -> None:
        raise MisuseError(f"{type(self).__name__} cannot be instantiated: call its class methods.")

    @classmethod
    def populate_context(cls, ctx: str) -> ContextScope[str]:
        """For the length of a `with` block `ctx` is the id of the question."""
        return ContextScope(_request_id, ctx)

    @classmethod
    def request_id(cls) -> str:
        """The id of the question, which its UserInputRequestedEvent has too.

        Raises:
            MisuseError: No person is being asked (a RuntimeError).
        """
        try:
            return _request_id.get()
        except LookupError:
            raise MisuseError(
                "InputRequestContext.request_id() must be called within the input_func of a UserProxyAgent."
            ) from None


SyncInputFunc: TypeAlias = Callable[[str], str]
AsyncInputFunc: TypeAlias = Callable[[str, CancellationToken | None], Awaitable[str]]
InputFuncType: TypeAlias = SyncInputFunc | AsyncInputFunc | Callable[[str], Awaitable[str]]
"""Takes the prompt, and the token if it wants it; returns what the person answers."""

DESCRIPTION: Final = "A human user"
PROMPT: Final = "Enter your response: "
KIND: Final = "user_input"
SHOWN: Final = 4000  # characters of what was said last, as the question
HANDED_OVER: Final = "Handoff received from {source}. "


class UserProxyAgentConfig(BaseModel):
    """A UserProxyAgent as plain data.

    Attributes:
        name: See UserProxyAgent.
        description: See UserProxyAgent.
        input_func: Where the function is: ``module:qualname``; None: there is none. AutoGen's is always None.
        to: See UserProxyAgent.
    """

    name: str
    description: str = DESCRIPTION
    input_func: str | None = None
    to: list[str] = Field(default_factory=list)


class UserProxyAgent(BaseChatAgent, Component[UserProxyAgentConfig]):
    """Speaks for a person: shows a UserInputRequestedEvent, asks, and says what the person answers.

    A handoff to it is answered by a handoff back to the agent that handed over.

    With an `input_func` the team waits in memory until the person has answered; `cancellation_token` ends the wait. In a
    handler on the bus the answer is recorded: a process that dies afterwards does not ask again.

    Without one a team on the bus waits without a process: the question is kept, for days if it has to be, until somebody
    answers it from anywhere, see `MessageContext.ask`; readers see an InputRequestedEvent. Elsewhere the function of
    `asking_by` asks, or else a prompt on the console.

    Args:
        name: A Python identifier.
        description: Who the person is, for those who choose who speaks.
        input_func: Asks the person. An async function is awaited; any other runs in a thread, so that it may block. It
            gets the prompt, and the cancellation token where it has a second parameter for it. None: see above. After a
            cancellation the prompt on the console still takes the next line: its thread can't be stopped.
        to: Who may answer on the bus, a name or several; empty: anybody.
    """

    component_config_schema = UserProxyAgentConfig
    component_provider_override = "callboard.agents.UserProxyAgent"

    InputRequestContext: ClassVar = InputRequestContext

    def __init__(
        self,
        name: str,
        *,
        description: str = DESCRIPTION,
        input_func: InputFuncType | None = None,
        to: str | Sequence[str] = (),
    ) -> None:
        super().__init__(name, description)
        self.input_func: InputFuncType = input_func or input
        self._to = (to,) if isinstance(to, str) else tuple(to)

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The types of what it says."""
        return (TextMessage, HandoffMessage)

    @property
    def hands_over(self) -> bool:
        """It hands back only."""
        return False

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Ask the person.

        Raises:
            UserInputError: See `on_messages_stream`.
        """
        return await response_of(self.on_messages_stream(messages, cancellation_token), self.name)

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """Show that the person is asked, and ask.

        Raises:
            UserInputError: `input_func` failed, or the conversation is being handed over to another (a
                RuntimeError).
            asyncio.CancelledError: The token was cancelled.
        """
        handoff = self._handoff(messages)
        if self.input_func is input and can_ask(running_context()):
            answer = await self._ask_person(messages, cancellation_token)
        else:
            request_id = str(uuid.uuid4())
            yield UserInputRequestedEvent(request_id=request_id, source=self.name)
            prompt = PROMPT if handoff is None else HANDED_OVER.format(source=handoff.source) + PROMPT
            with InputRequestContext.populate_context(request_id):
                answer = await self._answer(prompt, cancellation_token)
        if handoff is None:
            yield Response(chat_message=TextMessage(content=answer, source=self.name))
        else:
            back = HandoffMessage(content=answer, target=handoff.source, source=self.name)
            yield Response(chat_message=back)

    async def on_reset(self, cancellation_token: CancellationToken | None = None) -> None:
        """Nothing to do: it remembers nothing."""

    def _handoff(self, messages: Sequence[BaseChatMessage]) -> HandoffMessage | None:
        if not messages or not isinstance(messages[-1], HandoffMessage):
            return None
        handoff = messages[-1]
        if handoff.target != self.name:
            raise UserInputError(
                self.name, f"{handoff.source!r} handed the conversation over to {handoff.target!r}"
            )
        return handoff

    async def _ask_person(self, messages: Sequence[BaseChatMessage], token: CancellationToken) -> str:
        step = NumberedStep.begin(f"input:{self.name}")
        last = messages[-1] if messages else None
        details = {"kind": KIND, "agent": self.name, "source": "" if last is None else last.source}
        question = Question(
            text=((last and last.to_text().strip()) or PROMPT.strip())[:SHOWN],
            name=self.name if step is None else step.full_name,
            to=self._to,
            details=details,
        )
        answer: str = await ask_person(question, running_context(), token)
        return answer

    async def _answer(self, prompt: str, token: CancellationToken) -> str:
        # The process dies when the person has answered: the next attempt would ask again, and the answers of the two may
        # differ while the models' answers to the first one are recorded already.
        # guard: a person is asked once, whatever becomes of this process
        step = NumberedStep.begin("input")
        return await (self._ask(prompt, token) if step is None else step.run(self._ask, prompt, token))

    async def _ask(self, prompt: str, token: CancellationToken) -> str:
        args = (prompt, token) if takes_token(self.input_func) else (prompt,)
        try:
            return await call(self.input_func, *args, token=token)
        except Exception as error:
            raise UserInputError(self.name, f"{type(error).__name__}: {error}") from error

    def _to_config(self) -> UserProxyAgentConfig:
        path = None if self.input_func is input else function_path(self.input_func, self)
        return UserProxyAgentConfig(
            name=self.name, description=self.description, input_func=path, to=list(self._to)
        )

    @classmethod
    def _from_config(cls, config: UserProxyAgentConfig) -> Self:
        function = None if config.input_func is None else function_at(config.input_func)
        return cls(config.name, description=config.description, input_func=function, to=config.to)
