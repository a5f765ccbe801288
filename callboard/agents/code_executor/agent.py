"""The agent that runs code, and may write it with a model."""

from __future__ import annotations

import warnings
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict

from callboard.agents.assistant.draft import Draft
from callboard.agents.base import BaseChatAgent
from callboard.agents.chat_agent import Response
from callboard.agents.copying import copy_of
from callboard.agents.errors import AgentSettingError
from callboard.agents.responding import response_of
from callboard.agents.task import Said
from callboard.cancellation import CancellationToken
from callboard.code import CodeBlock, CodeExecutor, CodeResult
from callboard.foundation.component import Component, ComponentModel, dumped
from callboard.memory.contexts.base import ChatCompletionContext
from callboard.memory.contexts.conversation import Conversation
from callboard.memory.contexts.windows import UnboundedChatCompletionContext
from callboard.memory.llm_messages import SystemMessage
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import TextMessage
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import recorded, unrecorded
from callboard.tools.importing import function_at, function_path

from .approval import ApprovalFuncType
from .blocks import code_blocks_in
from .running import CodeRunner
from .state import CodeExecutorAgentState
from .writing import Writing, WritingTurn

TERMINAL: Final = (
    "A computer terminal. It does nothing but run Python scripts, given in ```python code blocks, and shell scripts, "
    "given in ```sh code blocks."
)
WRITER: Final = (
    "An agent that writes Python and shell scripts for what it is asked, runs them, and says what came of it."
)
SYSTEM_MESSAGE: Final = (
    "You solve tasks by writing code, which is then run. Write Python in ```python code blocks and shell scripts in ```sh "
    "code blocks. Every block is a complete script that prints what is to be known. Think of what may go wrong."
)
NO_CODE: Final = (
    "There are no code blocks in the messages. Give at least one, between ```python or ```sh and ```."
)
UNAPPROVED: Final = (
    "CodeExecutorAgent {name!r} has no approval_func: whatever code messages or a model contain will run on this machine "
    "without anybody having looked at it. Set approval_func, and an executor that confines what it runs."
)


class CodeExecutorAgentConfig(BaseModel):
    """A CodeExecutorAgent as plain data; its fields are the arguments of CodeExecutorAgent.

    Attributes:
        approval_func: Where the function is: ``module:qualname``. AutoGen can't write down an agent that has one.
        max_retries_on_error: See CodeExecutorAgent; AutoGen's is lost.
    """

    model_config = ConfigDict(protected_namespaces=())

    name: str
    code_executor: ComponentModel
    model_client: ComponentModel | None = None
    description: str | None = None
    sources: list[str] | None = None
    system_message: str | None = None
    model_client_stream: bool = False
    model_context: ComponentModel | None = None
    supported_languages: list[str] | None = None
    max_retries_on_error: int = 0
    approval_func: str | None = None


class CodeExecutorAgent(BaseChatAgent, Component[CodeExecutorAgentConfig]):
    """Runs code: that of the messages which it hears or, with a model, code that the model writes.

    Without a model it runs the Markdown code blocks of text messages, and answers with what they wrote. With one, the model
    writes, the code runs, and the model says what came of it; where code fails the model decides whether to try
    again.

    In handlers on the bus answers of the model, approvals and results of code are recorded, so that none of them is had
    twice. Events name the tokens that were used, are a part of the Response, and state is saved; AutoGen's lack all
    three, and its model hears the task once more with every retry.

    Args:
        name: A Python identifier.
        code_executor: Runs the code. Conversations share it.
        model_client: Writes the code; None: it comes in messages.
        model_context: Keeps the conversation with the model; None: all of it.
        model_client_stream: Whether the model's answers are shown in pieces.
        max_retries_on_error: How often the model may try again where code fails; needs structured output.
        description: What it can do, for those who choose who speaks.
        system_message: What the model reads first; None: nothing.
        sources: Names of those whose messages are looked at, without a model; None: everybody.
        supported_languages: Languages of the blocks that are run, others are text; None: python and sh.
        approval_func: Asked before code runs, each time; may be async, an ordinary function runs in a thread.
            None: everything runs, and a UserWarning says so.

    Raises:
        AgentSettingError: Retries are to be made, and the model can't decide on them (a ValueError).
    """

    component_config_schema = CodeExecutorAgentConfig
    component_provider_override = "callboard.agents.CodeExecutorAgent"

    DEFAULT_TERMINAL_DESCRIPTION = TERMINAL
    DEFAULT_AGENT_DESCRIPTION = WRITER
    DEFAULT_SYSTEM_MESSAGE = SYSTEM_MESSAGE
    NO_CODE_BLOCKS_FOUND_MESSAGE = NO_CODE
    DEFAULT_SUPPORTED_LANGUAGES = ("python", "sh")

    def __init__(
        self,
        name: str,
        code_executor: CodeExecutor,
        *,
        model_client: ChatCompletionClient | None = None,
        model_context: ChatCompletionContext | None = None,
        model_client_stream: bool = False,
        max_retries_on_error: int = 0,
        description: str | None = None,
        system_message: str | None = SYSTEM_MESSAGE,
        sources: Sequence[str] | None = None,
        supported_languages: Sequence[str] | None = None,
        approval_func: ApprovalFuncType | None = None,
    ) -> None:
        super().__init__(name, description or (TERMINAL if model_client is None else WRITER))
        if approval_func is None:
            warnings.warn(UNAPPROVED.format(name=name), UserWarning, stacklevel=2)
        _check_retries(name, max_retries_on_error, model_client)
        self._sources = None if sources is None else tuple(sources)
        self._languages = tuple(supported_languages or self.DEFAULT_SUPPORTED_LANGUAGES)
        self._system_message = system_message
        self._model_context = model_context or UnboundedChatCompletionContext()
        self._runner = CodeRunner(code_executor, approval_func)
        self._is_kept = False  # the context, in a list of the bus
        self._is_copy = False  # of an agent to whom the executor belongs
        self._writing = (
            None
            if model_client is None
            else Writing(
                name=name,
                client=recorded(model_client),
                is_streamed=model_client_stream,
                system=() if system_message is None else (SystemMessage(content=system_message),),
                languages=self._languages,
                retries=max_retries_on_error,
                runner=self._runner,
            )
        )

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """The types of what it says."""
        return (TextMessage,)

    @property
    def model_context(self) -> ChatCompletionContext:
        """What its model remembers."""
        return self._model_context

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Run code; see `on_messages_stream`."""
        return await response_of(self.on_messages_stream(messages, cancellation_token), self.name)

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Said | Response, None]:
        """Run code; yields what happens on the way, and at last the Response.

        Raises:
            ModelAnswerError: The model answered with something that is no text or no decision (a RuntimeError).
            Exception: What the executor or `approval_func` raised.
        """
        if self._writing is None:
            yield await self._run_given(messages, cancellation_token)
            return
        async with Draft(self.name, self._model_context) as draft:
            turn = WritingTurn(self._writing, draft, cancellation_token)
            async with aclosing(turn.run(messages)) as items:
                async for item in items:
                    yield item

    async def extract_code_blocks_from_messages(self, messages: Sequence[BaseChatMessage]) -> list[CodeBlock]:
        """The code blocks in the text messages of `sources`."""
        return [
            block
            for message in messages
            if isinstance(message, TextMessage) and (self._sources is None or message.source in self._sources)
            for block in code_blocks_in(message.content, self._languages)
        ]

    async def execute_code_block(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        """Run code once it is approved; the output is in words for a model. Exit code 1: it was not approved, or failed."""
        return await self._runner.run(
            code_blocks, await self._model_context.get_messages(), cancellation_token
        )

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Forget the conversation, and begin with a fresh executor, unless it belongs to several conversations."""
        await self._model_context.clear()
        if not self._is_copy:
            await self._runner.executor.restart()

    async def save_state(self) -> Mapping[str, Any]:
        """What its model remembers."""
        return CodeExecutorAgentState(llm_context=await self._model_context.save_state()).model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned; AutoGen's has nothing to take over.

        Raises:
            ValueError: It is no such state.
        """
        context = CodeExecutorAgentState.model_validate(state).llm_context
        if context is not None:
            await self._model_context.load_state(context)

    # On the bus

    def for_conversation(self) -> Self:
        """An agent like this one, with the same executor, for another conversation."""
        twin = copy_of(self)
        twin._is_copy = True
        return twin

    def keep_context_in(self, messages: Conversation) -> None:
        """Keep what the model remembers in a list that is given, unless its context has more to save than messages."""
        if self._writing is not None and self._model_context.is_only_messages:
            self._model_context.keep_in(messages)
            self._is_kept = True

    async def save_beside_context(self) -> Mapping[str, Any] | None:
        """What `save_state` returns, where its context is not kept in the list of `keep_context_in`."""
        return None if self._is_kept or self._writing is None else await self.save_state()

    async def _run_given(self, messages: Sequence[BaseChatMessage], token: CancellationToken) -> Response:
        blocks = await self.extract_code_blocks_from_messages(messages)
        if not blocks:
            return Response(chat_message=TextMessage(content=NO_CODE, source=self.name))
        result = await self.execute_code_block(blocks, token)
        return Response(chat_message=TextMessage(content=result.output, source=self.name))

    def _to_config(self) -> CodeExecutorAgentConfig:
        writing, approval = self._writing, self._runner.approval
        return CodeExecutorAgentConfig(
            name=self.name,
            code_executor=dumped(self._runner.executor, self),
            model_client=None if writing is None else dumped(unrecorded(writing.client), self),
            description=self.description,
            sources=None if self._sources is None else list(self._sources),
            system_message=self._system_message,
            model_client_stream=writing is not None and writing.is_streamed,
            model_context=dumped(self._model_context, self),
            supported_languages=list(self._languages),
            max_retries_on_error=0 if writing is None else writing.retries,
            approval_func=None if approval is None else function_path(approval, self),
        )

    @classmethod
    def _from_config(cls, config: CodeExecutorAgentConfig) -> Self:
        client, context, approval = config.model_client, config.model_context, config.approval_func
        return cls(
            config.name,
            CodeExecutor.load_component(config.code_executor),
            model_client=None if client is None else ChatCompletionClient.load_component(client),
            model_context=None if context is None else ChatCompletionContext.load_component(context),
            model_client_stream=config.model_client_stream,
            max_retries_on_error=config.max_retries_on_error,
            description=config.description,
            system_message=config.system_message,
            sources=config.sources,
            supported_languages=config.supported_languages,
            approval_func=None if approval is None else function_at(approval),
        )


def _check_retries(name: str, retries: int, client: ChatCompletionClient | None) -> None:
    if retries <= 0:
        return
    if client is None:
        raise AgentSettingError(name, "max_retries_on_error needs a model_client, which decides on retries.")
    if not client.model_info.get("structured_output", False):
        raise AgentSettingError(
            name, "max_retries_on_error needs a model that supports structured output, to decide on retries."
        )
