"""The agent that lets a team think, and answers for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from callboard.core.cancellation import CancellationToken
from callboard.foundation.component import Component, ComponentModel, dumped
from callboard.memory.contexts import ChatCompletionContext, Conversation, UnboundedChatCompletionContext
from callboard.memory.llm_messages import LLMMessage, SystemMessage, UserMessage
from callboard.messages.chat import BaseChatMessage, HandoffMessage, TextMessage
from callboard.messages.events import ModelClientStreamingChunkEvent
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import recorded, unrecorded

from .base import BaseChatAgent, Response, Said, TaskResult, Team, response_of
from .draft import add_heard, fit_for
from .errors import NoResponseError, no_response

INSTRUCTION: Final = (
    "You were given a request, and your team has worked on it for you. This is what was said in the team:"
)
RESPONSE_PROMPT: Final = (
    "Now answer the request with a text that can be understood by itself. Do not mention the team or its "
    "discussion."
)
DESCRIPTION: Final = "An agent that lets a team of agents work on each request and answers for it."
EARLIER: Final = "relevant previous messages"
NO_RESPONSE: Final = "No response."


class SocietyOfMindAgentState(BaseModel):
    """The state of a SocietyOfMindAgent; AutoGen's can be read, and AutoGen can read this.

    Attributes:
        inner_team_state: What the team's `save_state` returned.
        model_context: The state of its model context, which AutoGen's lacks; None: it is kept elsewhere.
    """

    type: Literal["SocietyOfMindAgentState"] = "SocietyOfMindAgentState"
    version: str = "1.0.0"
    inner_team_state: Mapping[str, Any] = Field(default_factory=dict)
    model_context: Mapping[str, Any] | None = None


class SocietyOfMindAgentConfig(BaseModel):
    """A SocietyOfMindAgent as plain data; its fields are the arguments of SocietyOfMindAgent."""

    model_config = ConfigDict(protected_namespaces=())

    name: str
    team: ComponentModel
    model_client: ComponentModel
    description: str | None = None
    instruction: str | None = None
    response_prompt: str | None = None
    model_context: ComponentModel | None = None


class SocietyOfMindAgent(BaseChatAgent, Component[SocietyOfMindAgentConfig]):
    """Lets a team work on each request, and makes one answer of what was said there, with a model.

    What the team says is shown while it is said, and only the answer is heard by others. Then the team is reset; what
    earlier requests were is given to it as the context of a HandoffMessage, before the new request. AutoGen forgets what
    the answers were, loses the context when the state is saved, and leaves the team as it is when a turn fails; here none
    of this happens.

    Args:
        name: A Python identifier.
        team: Works on the requests. It belongs to this agent: nothing else may run it.
        model_client: Makes the answer. In handlers on the bus its answers are recorded.
        description: What it can do, for those who choose who speaks.
        instruction: What the model reads before what was said in the team.
        response_prompt: What it reads after that.
        model_context: Keeps the requests and answers; None: all of them.
    """

    component_config_schema = SocietyOfMindAgentConfig
    component_provider_override = "callboard.agents.SocietyOfMindAgent"

    DEFAULT_INSTRUCTION = INSTRUCTION
    DEFAULT_RESPONSE_PROMPT = RESPONSE_PROMPT
    DEFAULT_DESCRIPTION = DESCRIPTION

    def __init__(
        self,
        name: str,
        team: Team,
        model_client: ChatCompletionClient,
        *,
        description: str = DESCRIPTION,
        instruction: str = INSTRUCTION,
        response_prompt: str = RESPONSE_PROMPT,
        model_context: ChatCompletionContext | None = None,
    ) -> None:
        super().__init__(name, description)
        self._team = team
        self._model_client = recorded(model_client)
        self._instruction = instruction
        self._response_prompt = response_prompt
        self._model_context = model_context or UnboundedChatCompletionContext()
        self._is_kept = False  # the context, in a list of the bus

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The types of what it says."""
        return (TextMessage,)

    @property
    def model_context(self) -> ChatCompletionContext:
        """The requests and answers."""
        return self._model_context

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Let the team work, and answer; see `on_messages_stream`."""
        return await response_of(self.on_messages_stream(messages, cancellation_token), self.name)

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """Let the team work, and answer; yields what is said in the team, and at last the Response.

        Raises:
            NoResponseError: The model asked for tools instead of answering (a RuntimeError).
            TeamRunError: A member of the team failed (a RuntimeError).
        """
        task = await self._task(messages)
        said: list[Said] = []
        try:
            async with aclosing(
                self._team.run_stream(
                    task=task or None, cancellation_token=cancellation_token, output_task_messages=False
                )
            ) as items:
                async for item in items:
                    if isinstance(item, TaskResult):
                        break
                    yield item
                    if not isinstance(item, ModelClientStreamingChunkEvent):
                        said.append(item)
                else:
                    raise no_response(self.name)
            answer = await self._answer(said, cancellation_token)
        finally:
            await self._team.reset()
        await add_heard(self._model_context, [*messages, answer])
        # What was said in the team stays in it: others hear the answer only.
        yield Response(chat_message=answer, inner_messages=[])

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Forget the requests and answers, and let the team be as in the beginning."""
        await self._team.reset()
        await self._model_context.clear()

    async def save_state(self) -> Mapping[str, Any]:
        """All that it and its team remember."""
        return await self._state(await self._model_context.save_state())

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned, or AutoGen's, which has no context.

        Raises:
            ValueError: It is no such state, or does not fit the team.
        """
        saved = SocietyOfMindAgentState.model_validate(state)
        await self._team.load_state(saved.inner_team_state)
        if saved.model_context is not None:
            await self._model_context.load_state(saved.model_context)

    # On the bus

    def keep_context_in(self, messages: Conversation) -> None:
        """Keep requests and answers in a list that is given, unless its context has more to save than messages."""
        if self._model_context.is_only_messages:
            self._model_context.keep_in(messages)
            self._is_kept = True

    async def save_beside_context(self) -> Mapping[str, Any]:
        """Its state but for messages that are kept in the list of `keep_context_in`."""
        return await self._state(None if self._is_kept else await self._model_context.save_state())

    async def _state(self, context: Mapping[str, Any] | None) -> dict[str, Any]:
        team = await self._team.save_state()
        return SocietyOfMindAgentState(inner_team_state=team, model_context=context).model_dump()

    # Steps

    async def _task(self, messages: Sequence[BaseChatMessage]) -> list[BaseChatMessage]:
        earlier = await self._model_context.get_messages()
        if not earlier:
            return list(messages)
        return [HandoffMessage(content=EARLIER, source=self.name, target="", context=earlier), *messages]

    async def _answer(self, said: Sequence[Said], token: CancellationToken) -> TextMessage:
        if not said:
            return TextMessage(source=self.name, content=NO_RESPONSE)
        heard = [message.to_model_message() for message in said if isinstance(message, BaseChatMessage)]
        prompt = [self._direction(self._instruction), *heard, self._direction(self._response_prompt)]
        result = await self._model_client.create(
            fit_for(self._model_client, prompt), cancellation_token=token
        )
        if not isinstance(result.content, str):
            raise NoResponseError(
                f"The model of {self.name!r} asked for tools, where it has none and is to answer"
            )
        return TextMessage(source=self.name, content=result.content, models_usage=result.usage)

    def _direction(self, text: str) -> LLMMessage:
        if self._model_client.model_info.get("multiple_system_messages", False):
            return SystemMessage(content=text)
        return UserMessage(content=text, source="user")

    def _to_config(self) -> SocietyOfMindAgentConfig:
        return SocietyOfMindAgentConfig(
            name=self.name,
            team=dumped(self._team, self),
            model_client=dumped(unrecorded(self._model_client), self),
            description=self.description,
            instruction=self._instruction,
            response_prompt=self._response_prompt,
            model_context=dumped(self._model_context, self),
        )

    @classmethod
    def _from_config(cls, config: SocietyOfMindAgentConfig) -> Self:
        context = config.model_context
        return cls(
            config.name,
            Team.load_component(config.team),
            ChatCompletionClient.load_component(config.model_client),
            description=config.description or DESCRIPTION,
            instruction=INSTRUCTION if config.instruction is None else config.instruction,
            response_prompt=RESPONSE_PROMPT if config.response_prompt is None else config.response_prompt,
            model_context=None if context is None else ChatCompletionContext.load_component(context),
        )
