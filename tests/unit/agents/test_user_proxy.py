"""The agent that speaks for a person."""

from __future__ import annotations

import asyncio
import functools
import io
import threading
from typing import Any

import pytest

from callboard import CancellationToken, Question, asking_by
from callboard.agents import Response, UserProxyAgent
from callboard.agents.errors import UserInputError
from callboard.agents.user_proxy import InputFuncType
from callboard.errors import MisuseError
from callboard.messages import HandoffMessage, TextMessage, UserInputRequestedEvent
from tests.helpers.eventually import eventually

HELLO = TextMessage(content="What is your name?", source="assistant")
HANDOFF = HandoffMessage(content="Please take over.", target="human", source="assistant")


async def asks(prompt: str) -> str:
    return f"{prompt}?"


async def asks_with_token(prompt: str, token: CancellationToken | None) -> str:
    assert isinstance(token, CancellationToken)
    return f"{prompt}?"


def asks_in_thread(prompt: str) -> str:
    assert threading.current_thread() is not threading.main_thread()
    return f"{prompt}?"


def asks_in_thread_with_token(prompt: str, cancellation_token: CancellationToken | None = None) -> str:
    assert isinstance(cancellation_token, CancellationToken)
    return f"{prompt}?"


def asks_with_something_else(prompt: str, tries: int = 3) -> str:
    assert tries == 3
    return f"{prompt}?"


class Asker:
    async def __call__(self, prompt: str, token: CancellationToken | None) -> str:
        return f"{prompt}?"


@pytest.mark.parametrize(
    "input_func",
    [
        asks,
        asks_with_token,
        asks_in_thread,
        asks_in_thread_with_token,
        asks_with_something_else,
        Asker(),
        functools.partial(asks_with_token, token=CancellationToken()),
        lambda prompt: f"{prompt}?",
    ],
)
async def test_a_person_is_asked_by_any_kind_of_function(input_func: InputFuncType) -> None:
    agent = UserProxyAgent("human", input_func=input_func)

    response = await agent.on_messages([HELLO], CancellationToken())

    assert response.chat_message.source == "human"
    assert isinstance(response.chat_message, TextMessage)
    assert response.chat_message.content == "Enter your response: ?"


async def test_a_handoff_is_answered_by_one() -> None:
    agent = UserProxyAgent("human", input_func=asks)

    said = (await agent.on_messages([HELLO, HANDOFF], CancellationToken())).chat_message

    assert isinstance(said, HandoffMessage)
    assert (said.target, said.source) == ("assistant", "human")
    assert said.content == "Handoff received from assistant. Enter your response: ?"


async def test_only_the_last_message_hands_over() -> None:
    agent = UserProxyAgent("human", input_func=asks)

    assert isinstance(
        (await agent.on_messages([HANDOFF, HELLO], CancellationToken())).chat_message, TextMessage
    )


async def test_a_handoff_to_somebody_else_is_refused() -> None:
    agent = UserProxyAgent("human", input_func=asks)
    other = HandoffMessage(content="", target="writer", source="assistant")

    with pytest.raises(RuntimeError, match="'assistant' handed the conversation over to 'writer'"):
        await agent.on_messages([other], CancellationToken())


async def test_the_question_is_shown_before_it_is_asked_and_has_an_id() -> None:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(UserProxyAgent.InputRequestContext.request_id())
        return "Ada"

    agent = UserProxyAgent("human", input_func=ask)
    stream = agent.on_messages_stream([HELLO], CancellationToken())

    event = await anext(stream)
    assert isinstance(event, UserInputRequestedEvent)
    assert not asked
    assert isinstance(await anext(stream), Response)
    assert asked == [event.request_id]


def test_the_id_exists_only_while_a_person_is_asked() -> None:
    with pytest.raises(MisuseError, match="input_func of a UserProxyAgent"):
        UserProxyAgent.InputRequestContext.request_id()
    with pytest.raises(MisuseError):
        UserProxyAgent.InputRequestContext()


async def test_the_loop_goes_on_while_a_function_blocks() -> None:
    may_go_on = threading.Event()

    def block(prompt: str) -> str:
        assert may_go_on.wait(10)
        return "at last"

    agent = UserProxyAgent("human", input_func=block)
    answer = asyncio.ensure_future(agent.run(task="?"))
    await asyncio.sleep(0)
    may_go_on.set()  # reached only because the loop is free

    assert (await answer).messages[-1].to_text() == "at last"


@pytest.mark.parametrize("is_async", [True, False])
async def test_the_token_ends_the_wait(is_async: bool) -> None:
    began, over = threading.Event(), threading.Event()

    async def ask(prompt: str) -> str:
        began.set()
        await asyncio.Event().wait()
        return ""

    def block(prompt: str) -> str:
        began.set()
        over.wait(10)
        return ""

    token = CancellationToken()
    agent = UserProxyAgent("human", input_func=ask if is_async else block)
    answer = asyncio.ensure_future(agent.on_messages([HELLO], token))
    await eventually(began.is_set)

    token.cancel()

    with pytest.raises(asyncio.CancelledError):
        await answer
    over.set()


async def test_a_function_that_fails_says_why() -> None:
    def fail(prompt: str) -> str:
        raise EOFError("no more input")

    with pytest.raises(UserInputError, match="Failed to get user input for 'human': EOFError: no more input"):
        await UserProxyAgent("human", input_func=fail).on_messages([HELLO], CancellationToken())


async def test_the_console_is_asked_by_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("Ada\n"))

    result = await UserProxyAgent("human").run(task="What is your name?")

    assert result.messages[-1].to_text() == "Ada"
    assert capsys.readouterr().out == "Enter your response: "


async def test_a_conversation_has_an_agent_that_asks_the_same_function() -> None:
    class Window:
        def __init__(self) -> None:
            self.lock: Any = threading.Lock()  # can't be copied

        def ask(self, prompt: str) -> str:
            return "from the window"

    window = Window()
    twin = UserProxyAgent("human", input_func=window.ask).for_conversation()

    assert (await twin.run()).messages[-1].to_text() == "from the window"


async def test_without_a_function_of_its_own_the_one_around_it_asks() -> None:
    asked: list[Question] = []

    def ask(question: Question) -> str:
        asked.append(question)
        return "Ada"

    agent = UserProxyAgent("human", to="ada")
    with asking_by(ask):
        result = await agent.run(task="Who is there?")
    assert result.messages[-1].to_text() == "Ada"
    assert [(question.text, question.to) for question in asked] == [("Who is there?", ("ada",))]
    config = agent.dump_component()
    assert UserProxyAgent.load_component(config).dump_component() == config
