"""The agent that runs code, and may write it with a model."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from callboard import CancellationToken
from callboard.agents import ApprovalRequest, ApprovalResponse, CodeExecutorAgent, Response, TaskResult
from callboard.agents.code_executor import code_blocks_in
from callboard.agents.errors import NoResponseError
from callboard.code import CodeBlock, CodeExecutor, CodeResult
from callboard.memory.llm_messages import FunctionCall, LLMMessage
from callboard.messages import (
    CodeExecutionEvent,
    CodeGenerationEvent,
    ModelClientStreamingChunkEvent,
    StopMessage,
    TextMessage,
    ThoughtEvent,
)
from callboard.models import ModelFamily, ModelInfo, ReplayChatCompletionClient, Streamed
from callboard.models.replay import Answer

HELLO = "```python\nprint('hello')\n```"
UNSTRUCTURED = ModelInfo(
    vision=False,
    function_calling=False,
    json_output=False,
    family=ModelFamily.UNKNOWN,
    structured_output=False,
)


class Executor(CodeExecutor):
    """Gives results from a list; the last one again and again."""

    def __init__(self, *results: CodeResult) -> None:
        self.results = list(results) or [CodeResult(0, "hello\n")]
        self.ran: list[list[CodeBlock]] = []
        self.restarts = 0

    async def execute_code_blocks(
        self, code_blocks: Sequence[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        self.ran.append(list(code_blocks))
        return self.results[min(len(self.ran), len(self.results)) - 1]

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def restart(self) -> None:
        self.restarts += 1


def yes(_: ApprovalRequest) -> ApprovalResponse:
    return ApprovalResponse(approved=True, reason="")


def terminal(executor: CodeExecutor | None = None, **settings: Any) -> CodeExecutorAgent:
    return CodeExecutorAgent("terminal", executor or Executor(), **{"approval_func": yes, **settings})


def said(content: str, source: str = "writer") -> TextMessage:
    return TextMessage(content=content, source=source)


async def answer(agent: CodeExecutorAgent, *messages: Any) -> str:
    return (await agent.on_messages(list(messages), CancellationToken())).chat_message.to_text()


# Blocks


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        (HELLO, [("python", "print('hello')\n")]),
        ("Text ```python\n1\n``` and ```sh\nls\n```.", [("python", "1\n"), ("sh", "ls\n")]),
        ("``` python \r\n1\n```", [("python", "1\n")]),
        ("```Python\n1\n```", [("Python", "1\n")]),
        ("```\n1\n```", []),
        ("```javascript\n1\n```", []),
        ("```pythonic\n1\n```", []),
        ("```python\n1\n", []),
        ("no code", []),
    ],
)
def test_blocks_in_texts(text: str, blocks: list[tuple[str, str]]) -> None:
    found = code_blocks_in(text, ["python", "sh"])

    assert [(block.language, block.code) for block in found] == blocks


def test_languages_are_no_patterns() -> None:
    assert code_blocks_in("```c++\n1\n```", ["c++"]) == [CodeBlock(code="1\n", language="c++")]


# Without a model


async def test_code_in_messages_is_run() -> None:
    executor = Executor()

    assert await answer(terminal(executor), said(HELLO), said("```sh\nls\n```")) == "hello\n"
    assert [[block.language for block in blocks] for blocks in executor.ran] == [["python", "sh"]]


async def test_without_code_it_says_so() -> None:
    assert await answer(terminal(), said("Hi")) == CodeExecutorAgent.NO_CODE_BLOCKS_FOUND_MESSAGE
    assert await answer(terminal(), StopMessage(content=HELLO, source="writer")) == (
        CodeExecutorAgent.NO_CODE_BLOCKS_FOUND_MESSAGE
    )


@pytest.mark.parametrize(("sources", "count"), [(None, 2), (["writer"], 1), ([], 0)])
async def test_only_sources_are_listened_to(sources: list[str] | None, count: int) -> None:
    agent = terminal(sources=sources)

    blocks = await agent.extract_code_blocks_from_messages([said(HELLO), said(HELLO, "user")])

    assert len(blocks) == count


async def test_languages_can_be_chosen() -> None:
    blocks = await terminal(supported_languages=["lua"]).extract_code_blocks_from_messages(
        [said("```lua\n1\n```"), said(HELLO)]
    )

    assert [block.language for block in blocks] == ["lua"]


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (CodeResult(0, "fine"), "fine"),
        (CodeResult(0, " \n"), "The code ran and wrote nothing; its exit code was 0."),
        (CodeResult(3, "boom"), "The code ended with the exit code 3, which means an error. It wrote:\nboom"),
        (CodeResult(3, ""), "its exit code was 3."),
    ],
)
async def test_results_are_put_into_words(result: CodeResult, text: str) -> None:
    assert text in await answer(terminal(Executor(result)), said(HELLO))


# Approval


def test_without_approval_there_is_a_warning_at_the_line_of_the_caller() -> None:
    with pytest.warns(UserWarning, match="'terminal' has no approval_func") as seen:
        CodeExecutorAgent("terminal", Executor())

    assert seen[0].filename == __file__


def test_with_approval_there_is_none() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        terminal()


async def no(request: ApprovalRequest) -> ApprovalResponse:
    assert request.code == HELLO.replace("\n```", "\n\n```")
    return ApprovalResponse(approved=False, reason="it is loud")


def no_in_thread(request: ApprovalRequest) -> ApprovalResponse:
    assert threading.current_thread() is not threading.main_thread()
    return ApprovalResponse(approved=False, reason="it is loud")


@pytest.mark.parametrize("approval_func", [no, no_in_thread])
async def test_code_that_is_not_approved_does_not_run(approval_func: Callable[..., Any]) -> None:
    executor = Executor()

    text = await answer(terminal(executor, approval_func=approval_func), said(HELLO))

    assert text == "Code execution was not approved. Reason: it is loud"
    assert executor.ran == []


async def test_blocks_can_be_run_by_hand() -> None:
    blocks = [CodeBlock(code="print('hello')", language="python")]

    ran = await terminal().execute_code_block(blocks, CancellationToken())
    refused = await terminal(approval_func=no_at_all).execute_code_block(blocks, CancellationToken())

    assert (ran.exit_code, ran.output) == (0, "hello\n")
    assert (refused.exit_code, refused.output) == (1, "Code execution was not approved. Reason: never")


def no_at_all(_: ApprovalRequest) -> ApprovalResponse:
    return ApprovalResponse(approved=False, reason="never")


async def test_who_approves_sees_what_the_model_was_told() -> None:
    asked: list[ApprovalRequest] = []

    def look(request: ApprovalRequest) -> ApprovalResponse:
        asked.append(request)
        return yes(request)

    model = ReplayChatCompletionClient([HELLO, "Done."])
    await terminal(model_client=model, approval_func=look).run(task="Say hello.")

    assert [message.content for message in asked[0].context] == ["Say hello.", HELLO]


# With a model


def writer(
    answers: Sequence[Answer], *results: CodeResult, info: ModelInfo | None = None, **settings: Any
) -> tuple[CodeExecutorAgent, ReplayChatCompletionClient]:
    model = ReplayChatCompletionClient(answers, info)
    return terminal(Executor(*results), model_client=model, **settings), model


def kinds(result: TaskResult | Sequence[Any]) -> list[str]:
    messages = result.messages if isinstance(result, TaskResult) else result
    return [type(message).__name__ for message in messages]


async def test_the_model_writes_code_and_says_what_came_of_it() -> None:
    agent, model = writer([HELLO, "It says hello."])

    result = await agent.run(task="Say hello.")

    assert kinds(result) == ["TextMessage", "CodeGenerationEvent", "CodeExecutionEvent", "TextMessage"]
    _, wrote, ran, reply = result.messages
    assert isinstance(wrote, CodeGenerationEvent)
    assert isinstance(ran, CodeExecutionEvent)
    assert (wrote.retry_attempt, wrote.content, len(wrote.code_blocks)) == (0, HELLO, 1)
    assert (ran.retry_attempt, ran.result) == (0, CodeResult(0, "hello\n"))
    assert reply.to_text() == "It says hello."
    assert wrote.models_usage is not None
    assert reply.models_usage is not None
    assert [message.content for message in model.create_calls[1]["messages"]] == [
        CodeExecutorAgent.DEFAULT_SYSTEM_MESSAGE,
        "Say hello.",
        HELLO,
        "hello\n",
    ]


async def test_a_model_that_writes_no_code_has_answered() -> None:
    agent, _ = writer(["Hello."], system_message=None)

    result = await agent.run(task="Hi")

    assert [message.to_text() for message in result.messages] == ["Hi", "Hello."]
    assert result.messages[-1].models_usage is not None


RETRY, GIVE_UP = '{"reason": "a typo", "retry": true}', '{"reason": "hopeless", "retry": false}'
BAD = CodeResult(1, "SyntaxError")
GOOD = CodeResult(0, "hello")


@pytest.mark.parametrize(
    ("retries", "answers", "results", "runs", "asked"),
    [
        (0, [HELLO, "It failed."], [BAD], 1, 2),
        (1, [HELLO, "Done."], [GOOD], 1, 2),
        (1, [HELLO, GIVE_UP, "It failed."], [BAD], 1, 3),
        (1, [HELLO, RETRY, HELLO, "Done."], [BAD, GOOD], 2, 4),
        (1, [HELLO, RETRY, HELLO, "It failed."], [BAD], 2, 4),
        (2, [HELLO, RETRY, HELLO, RETRY, HELLO, "It failed."], [BAD], 3, 6),
        (1, [HELLO, RETRY, "I would rather not."], [BAD], 1, 3),
    ],
)
async def test_failed_code_is_tried_again(
    retries: int, answers: list[str], results: list[CodeResult], runs: int, asked: int
) -> None:
    agent, model = writer(answers, *results, max_retries_on_error=retries)

    result = await agent.run(task="Say hello.")

    executed = [message for message in result.messages if isinstance(message, CodeExecutionEvent)]
    assert [event.retry_attempt for event in executed] == list(range(runs))
    assert len(model.create_calls) == asked
    assert result.messages[-1].to_text() == answers[-1]
    heard = [message.content for message in model.create_calls[-1]["messages"]]
    assert heard.count("Say hello.") == 1


async def test_the_correction_is_shown() -> None:
    agent, _ = writer([HELLO, RETRY, HELLO, "Done."], BAD, GOOD, max_retries_on_error=1)

    result = await agent.run(task="Say hello.")

    assert kinds(result)[3] == "CodeGenerationEvent"
    assert result.messages[3].to_text() == "Attempt number: 1\nProposed correction: a typo"


async def test_the_same_is_seen_in_a_stream_and_in_the_response() -> None:
    agent, _ = writer([Streamed([HELLO], thought="Hm."), Streamed(["It ", "did."])], model_client_stream=True)

    items = [item async for item in agent.on_messages_stream([said("Go")], CancellationToken())]

    *shown, response = items
    assert isinstance(response, Response)
    pieces = [item for item in shown if isinstance(item, ModelClientStreamingChunkEvent)]
    events = [item for item in shown if not isinstance(item, ModelClientStreamingChunkEvent)]
    assert [piece.content for piece in pieces] == [HELLO, "It ", "did."]
    assert kinds(events) == ["ThoughtEvent", "CodeGenerationEvent", "CodeExecutionEvent"]
    assert isinstance(events[0], ThoughtEvent)
    assert response.inner_messages == events
    assert isinstance(events[1], CodeGenerationEvent)
    assert [piece.full_message_id for piece in pieces] == [
        events[1].id,
        response.chat_message.id,
        response.chat_message.id,
    ]


@pytest.mark.parametrize(
    ("client", "reason"),
    [
        (None, "max_retries_on_error needs a model_client"),
        (ReplayChatCompletionClient([], UNSTRUCTURED), "supports structured output"),
    ],
)
def test_retries_need_a_model_that_can_decide(client: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        terminal(model_client=client, max_retries_on_error=1)


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([[FunctionCall(id="1", name="f", arguments="{}")]], "something else than a text"),
        ([HELLO, "Why not."], "no decision whether to try again"),
    ],
)
async def test_answers_that_can_not_be_used(answers: list[Answer], reason: str) -> None:
    agent, _ = writer(answers, BAD, max_retries_on_error=1)

    with pytest.raises(NoResponseError, match=reason):
        await agent.run(task="Go")


@pytest.mark.parametrize(
    ("answers", "left"),
    [
        ([OSError("no network"), "Hello."], ["Go", "Hello."]),
        ([HELLO, OSError("no network"), "Hello."], ["Go", HELLO, "hello\n", "Go", "Hello."]),
    ],
)
async def test_a_turn_that_fails_leaves_only_what_was_done(answers: list[Answer], left: list[str]) -> None:
    agent, _ = writer(answers)
    with pytest.raises(OSError, match="no network"):
        await agent.run(task="Go")

    await agent.run(task="Go")

    assert [message.content for message in await agent.model_context.get_messages()] == left


# State


async def test_the_context_is_saved() -> None:
    first, _ = writer(["Hello."])
    second, _ = writer([])
    await first.run(task="Hi")

    await second.load_state(await first.save_state())

    assert await second.model_context.get_messages() == await first.model_context.get_messages() != []


async def test_what_autogen_saved_changes_nothing() -> None:
    agent, _ = writer(["Hello."])
    await agent.run(task="Hi")

    await agent.load_state({"type": "BaseState", "version": "1.0.0"})

    assert len(await agent.model_context.get_messages()) == 2


async def test_the_context_is_kept_in_a_list_of_the_bus() -> None:
    kept: list[LLMMessage] = []
    agent, _ = writer(["Hello."])
    agent.keep_context_in(kept)

    await agent.run(task="Hi")

    assert [message.content for message in kept] == ["Hi", "Hello."]
    assert await agent.save_beside_context() is None


async def test_a_terminal_has_nothing_to_keep() -> None:
    kept: list[LLMMessage] = []
    agent = terminal()
    agent.keep_context_in(kept)

    await agent.on_messages([said(HELLO)], CancellationToken())

    assert kept == []
    assert await agent.save_beside_context() is None


async def test_conversations_share_the_executor_and_only_its_owner_restarts_it() -> None:
    executor = Executor()
    agent = terminal(executor, model_client=ReplayChatCompletionClient([HELLO, "Done."]))
    twin = agent.for_conversation()

    await twin.run(task="Go")
    await twin.on_reset(CancellationToken())
    assert len(executor.ran) == 1
    assert executor.restarts == 0

    await agent.on_reset(CancellationToken())
    assert executor.restarts == 1
