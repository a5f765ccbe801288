"""The agent that runs code, and may write it with a model."""

from __future__ import annotations

import hashlib
import re
import uuid
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

from pydantic import BaseModel, ConfigDict

from callboard.code import CodeBlock, CodeExecutor, CodeResult
from callboard.core.cancellation import CancellationToken
from callboard.foundation.component import Component, ComponentModel, dumped
from callboard.memory.contexts import ChatCompletionContext, Conversation, UnboundedChatCompletionContext
from callboard.memory.llm_messages import AssistantMessage, LLMMessage, SystemMessage, UserMessage
from callboard.messages.chat import BaseChatMessage, TextMessage
from callboard.messages.events import (
    CodeExecutionEvent,
    CodeGenerationEvent,
    ModelClientStreamingChunkEvent,
    ThoughtEvent,
)
from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import recorded, unrecorded
from callboard.models.types import CreateResult, RequestUsage
from callboard.runtime.steps import NumberedStep
from callboard.tools.named_functions import function_at, function_path

from .base import BaseChatAgent, Response, Said, call, copy_of, response_of
from .draft import Draft, add_heard, fit_for
from .errors import AgentSettingError, NoResponseError

__all__ = []


class CodeExecutorAgentState(BaseModel):
    """The state of a CodeExecutorAgent. AutoGen's has none.

    Attributes:
        llm_context: The state of its model context; None: it is kept elsewhere, or AutoGen's state was read.
    """

    type: str = "CodeExecutorAgentState"
    version: str = "1.0.0"
    llm_context: Mapping[str, Any] | None = None


class ApprovalRequest(BaseModel):
    """Asks whether code may run.

    Attributes:
        code: The blocks, each between fences as in Markdown, with an empty line between them.
        context: What the agent's model was told; empty for an agent without a model.
    """

    model_config = ConfigDict(frozen=True)

    code: str
    context: list[LLMMessage]


class ApprovalResponse(BaseModel):
    """Says whether code may run.

    Attributes:
        approved: Whether it may.
        reason: Why, or why not; the model and the others read it where it may not.
    """

    model_config = ConfigDict(frozen=True)

    approved: bool
    reason: str


SyncApprovalFunc: TypeAlias = Callable[[ApprovalRequest], ApprovalResponse]
AsyncApprovalFunc: TypeAlias = Callable[[ApprovalRequest], Awaitable[ApprovalResponse]]
ApprovalFuncType: TypeAlias = SyncApprovalFunc | AsyncApprovalFunc

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
        """The messages that its model remembers."""
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
            NoResponseError: The model answered with something that is no text or no decision (a RuntimeError).
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
        """The code blocks in what agents of `sources` said: in text messages, and in those of AG2's agents."""
        return [
            block
            for message in messages
            if self._sources is None or message.source in self._sources
            for block in code_blocks_in(message.said_text() or "", self._languages)
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
        """The messages that its model remembers."""
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
        """Its state, where its context is not kept in the list of `keep_context_in`."""
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
        raise AgentSettingError(
            f"The agent {name!r} can't work: max_retries_on_error needs a model_client, which decides on retries."
        )
    if not client.model_info.get("structured_output", False):
        raise AgentSettingError(
            f"The agent {name!r} can't work: max_retries_on_error needs a model that supports structured output, "
            f"to decide on retries."
        )


RETRY: Final = (
    "The last code did not work:\n{output}\n\n"
    "Is it worth another try? Answer with `retry`, whether it is, and with `reason`: what is wrong, why you decide so, "
    "and how you would mend it."
)
CORRECTION: Final = "Attempt number: {number}\nProposed correction: {reason}"


class RetryDecision(BaseModel):
    """Decision of the model about code that failed.

    Attributes:
        reason: What is wrong, and how to mend it.
        retry: Whether to try again.
    """

    model_config = ConfigDict(frozen=True)

    reason: str
    retry: bool


REFUSED: Final = "Code execution was not approved. Reason: {reason}"


class CodeRunner:
    """Runs code blocks after an approval.

    In a handler on the bus the approval and the result are recorded, each before it is used: after a crash no person is
    asked again, and code that has run does not run again. Code that was running when its process died does: it can't be
    known how far it came.

    Args:
        executor: Runs the code.
        approval: Asked first; None: everything is approved.
    """

    def __init__(self, executor: CodeExecutor, approval: ApprovalFuncType | None) -> None:
        self.executor = executor
        self.approval = approval

    async def run(
        self, blocks: Sequence[CodeBlock], context: Sequence[LLMMessage], token: CancellationToken
    ) -> CodeResult:
        """The result of the blocks, in words for a model; exit code 1 where they were not approved.

        Args:
            blocks: The code.
            context: Shown to who approves.
            token: Stops it.
        """
        code = fenced(blocks)
        if self.approval is not None:
            answer = await self._approved(ApprovalRequest(code=code, context=list(context)), token)
            if not answer.approved:
                return CodeResult(1, REFUSED.format(reason=answer.reason))
        # The process dies behind the run and before the commit: the next attempt has the same code from the recorded model,
        # and would transfer the money, or delete the file, a second time.
        # guard: code that has run is not run again
        step = NumberedStep.begin(f"code:{_digest(code)}")
        ran = await (self._ran(blocks, token) if step is None else step.run(self._ran, blocks, token))
        return in_words(CodeResult(ran["exit_code"], ran["output"]))

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # conversations share it

    async def _approved(self, request: ApprovalRequest, token: CancellationToken) -> ApprovalResponse:
        # The same, before it runs: a person who has said yes would be asked again, and might say no to code that has run.
        # guard: an approval is asked for once
        step = NumberedStep.begin(f"approval:{_digest(request.code)}")
        found = await (self._asked(request, token) if step is None else step.run(self._asked, request, token))
        return ApprovalResponse.model_validate(found)

    async def _asked(self, request: ApprovalRequest, token: CancellationToken) -> dict[str, Any]:
        if self.approval is None:
            return {"approved": True, "reason": ""}
        answer: ApprovalResponse = await call(self.approval, request, token=token)
        return answer.model_dump()

    async def _ran(self, blocks: Sequence[CodeBlock], token: CancellationToken) -> dict[str, Any]:
        result = await self.executor.execute_code_blocks(list(blocks), token)
        return {"exit_code": result.exit_code, "output": result.output}


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing:
    """The settings of an agent that writes code.

    Attributes:
        name: Of the agent.
        client: Its model, whose answers are recorded.
        is_streamed: Whether its answers are shown in pieces.
        system: What every prompt begins with.
        languages: Of the code that is run.
        retries: How often it may try again when code fails.
        runner: Runs the code.
    """

    name: str
    client: ChatCompletionClient
    is_streamed: bool
    system: Sequence[SystemMessage]
    languages: Sequence[str]
    retries: int
    runner: CodeRunner

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # conversations share it


class WritingTurn:
    """One turn: hear, write and run code until it works or may not be tried again, and say what came of it.

    Args:
        setup: The agent.
        draft: What the turn adds to its model context: nothing, when the turn fails before any code was run.
        token: Ends the turn.
    """

    def __init__(self, setup: Writing, draft: Draft, token: CancellationToken) -> None:
        self._setup = setup
        self._draft = draft
        self._token = token
        self._inner: list[Said] = []
        self._answer = ""
        self._usage: RequestUsage | None = None
        self._result: CodeResult | None = None

    async def run(self, messages: Sequence[BaseChatMessage]) -> AsyncGenerator[Said | Response, None]:
        """The turn; yields what happens on the way, and at last the Response."""
        await add_heard(self._draft, messages)
        for number in range(self._setup.retries + 1):
            message_id = str(uuid.uuid4())
            async with aclosing(self._think(message_id)) as items:
                async for item in items:
                    yield item
            blocks = code_blocks_in(self._answer, self._setup.languages)
            if not blocks:
                yield self._response(message_id)
                return
            async with aclosing(self._try(number, blocks, message_id)) as items:
                async for item in items:
                    yield item
            if self._result is None or self._result.exit_code == 0 or number == self._setup.retries:
                break
            correction = await self._correction(number, self._result)
            if correction is None:
                break
            yield self._noted(correction)
        message_id = str(uuid.uuid4())
        async with aclosing(self._think(message_id)) as items:
            async for item in items:
                yield item
        yield self._response(message_id)

    # Steps

    async def _think(self, message_id: str) -> AsyncGenerator[Said, None]:
        """The model answers; its text is kept in `_answer`."""
        client, name = self._setup.client, self._setup.name
        prompt = fit_for(client, [*self._setup.system, *await self._draft.get_messages()])
        result: CreateResult | None = None
        if self._setup.is_streamed:
            async with aclosing(client.create_stream(prompt, cancellation_token=self._token)) as items:
                async for item in items:
                    if isinstance(item, CreateResult):
                        result = item
                        break
                    yield ModelClientStreamingChunkEvent(
                        content=item, source=name, full_message_id=message_id
                    )
        else:
            result = await client.create(prompt, cancellation_token=self._token)
        if result is None or not isinstance(result.content, str):
            raise NoResponseError(f"The model of {name!r} answered with something else than a text")
        self._answer, self._usage = result.content, result.usage
        if result.thought:
            yield self._noted(ThoughtEvent(content=result.thought, source=name))
        await self._draft.add_message(
            AssistantMessage(content=result.content, source=name, thought=result.thought)
        )

    async def _try(self, number: int, blocks: list[CodeBlock], message_id: str) -> AsyncGenerator[Said, None]:
        name = self._setup.name
        yield self._noted(
            CodeGenerationEvent(
                id=message_id,
                retry_attempt=number,
                content=self._answer,
                code_blocks=blocks,
                source=name,
                models_usage=self._usage,
            )
        )
        seen = await self._draft.get_messages()
        self._draft.act({})
        self._result = await self._setup.runner.run(blocks, seen, self._token)
        await self._draft.add_message(UserMessage(content=self._result.output, source=name))
        yield self._noted(CodeExecutionEvent(retry_attempt=number, result=self._result, source=name))

    async def _correction(self, number: int, failed: CodeResult) -> CodeGenerationEvent | None:
        """The correction that the model proposes; None: it would not try again."""
        setup = self._setup
        question = UserMessage(content=RETRY.format(output=failed.output), source=setup.name)
        prompt = fit_for(setup.client, [*await self._draft.get_messages(), question])
        answer = await setup.client.create(prompt, json_output=RetryDecision, cancellation_token=self._token)
        try:
            decision = RetryDecision.model_validate_json(str(answer.content))
        except ValueError as error:
            raise NoResponseError(
                f"The model of {setup.name!r} gave no decision whether to try again"
            ) from error
        if not decision.retry:
            return None
        return CodeGenerationEvent(
            retry_attempt=number,
            content=CORRECTION.format(number=number + 1, reason=decision.reason),
            code_blocks=[],
            source=setup.name,
            models_usage=answer.usage,
        )

    def _response(self, message_id: str) -> Response:
        self._draft.settle()
        said = TextMessage(
            id=message_id, content=self._answer, source=self._setup.name, models_usage=self._usage
        )
        return Response(chat_message=said, inner_messages=self._inner)

    def _noted(self, event: Said) -> Said:
        self._inner.append(event)
        return event


DIGITS: Final = 32  # of the code's hash
SILENT: Final = "The code ran and wrote nothing; its exit code was {code}. Where output is expected, it has to be printed."
FAILED: Final = "The code ended with the exit code {code}, which means an error. It wrote:\n{output}"


def in_words(result: CodeResult) -> CodeResult:
    """A result whose output says what to make of it where it is silent, or an error."""
    if not result.output.strip():
        return CodeResult(result.exit_code, SILENT.format(code=result.exit_code))
    if result.exit_code:
        return CodeResult(result.exit_code, FAILED.format(code=result.exit_code, output=result.output))
    return result


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


def code_blocks_in(text: str, languages: Sequence[str]) -> list[CodeBlock]:
    """The blocks between Markdown fences that name one of the languages; upper and lower case do not differ."""
    names = "|".join(re.escape(language) for language in languages)
    fence = re.compile(rf"```[ \t]*({names})[ \t]*\r?\n(.*?)```", re.IGNORECASE | re.DOTALL)
    return [CodeBlock(code=code, language=language) for language, code in fence.findall(text)]


def fenced(blocks: Sequence[CodeBlock]) -> str:
    """The blocks as Markdown."""
    return "\n\n".join(f"```{block.language}\n{block.code}\n```" for block in blocks)
