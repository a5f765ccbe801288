"""Runs on the bus."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import pytest

from callboard.agents import BaseChatAgent, Response
from callboard.broker import AgentId
from callboard.core.cancellation import CancellationToken
from callboard.errors import DeclarationError, InputAnsweredError, InputValueError, SettingValueError
from callboard.groupchat import Agent, ConversableAgent
from callboard.messages import BaseChatMessage, ModelClientStreamingChunkEvent, TextMessage
from callboard.messages.events import AnyMessage
from callboard.models import ReplayChatCompletionClient
from callboard.runs import (
    AsyncRunResponse,
    Event,
    RunCancelledError,
    RunUnknownError,
    a_attach,
    a_run,
    ask_user,
    attach,
    context_variables,
    is_agent_message,
    is_async_input_request,
    is_error,
    is_input_response,
    is_interrupted,
    is_stream,
    load_event,
)
from callboard.runs.response import loop_thread
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import TeamBusyError, TeamRunError
from callboard.teams.listing import stored_state
from callboard.teams.protocol import RunEnded, Shown, stream_of
from tests.helpers.eventually import eventually
from tests.helpers.run_agents import call, chatterer, speaker
from tests.helpers.runtimes import Runtimes, quick


@pytest.fixture
async def runtime(runtimes: Runtimes) -> RedisAgentRuntime:
    made = runtimes.new()
    made.start()
    return made


async def events_of(response: AsyncRunResponse) -> list[Event]:
    return [event async for event in response.events]


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [f"{message['sender']}: {message['text']}" for message in messages]


async def test_a_run_is_the_same_for_every_reader_here_and_in_another_process(
    runtime: RedisAgentRuntime, runtimes: Runtimes
) -> None:
    response = await a_run(chatterer("a"), chatterer("b"), message="Hi", max_turns=3, runtime=runtime)
    live, other = await asyncio.gather(events_of(response), events_of(response))
    elsewhere = await a_attach(runtimes.new(), response.run_id)
    again = await events_of(elsewhere)
    assert live == other == again
    assert [event.number for event in again] == sorted({event.number for event in again})
    assert [load_event(event.model_dump_json()) for event in again] == again
    for place, event in enumerate(again):
        assert [one async for one in elsewhere.events_from(event.number)] == again[place + 1 :]
    assert texts(await elsewhere.messages) == ["user: Hi", "a: a speaks", "b: b speaks", "a: a speaks"]
    assert (await elsewhere.summary, await elsewhere.last_speaker) == ("a speaks", "a")
    assert await elsewhere.state == "completed"
    assert (await elsewhere.result()).stop_reason == "Maximum number of turns 3 reached."
    assert {part.agent: part.spent.requests for part in (await elsewhere.cost).parts} == {"a": 2, "b": 1}


async def test_who_connects_again_every_100_events_sees_the_same(runtime: RedisAgentRuntime) -> None:
    stream, count = stream_of(AgentId("team", "c"), "long"), 250
    for number in range(count):
        said: list[AnyMessage] = [TextMessage(content=f"{number}.{part}", source="a") for part in range(2)]
        shown = Shown(turn=(number,), source="a", attempt="", messages=said, is_final=True)
        await runtime.write_run(stream, [shown])
        if number % 70 == 69:  # what is written beside the turns may be there several times, and counts once
            aside = shown.model_copy(update={"messages": said[:1], "is_aside": True})
            said[0].id = f"aside-{number // 140}"
            await runtime.write_run(stream, [aside])
    await runtime.write_run(stream, [RunEnded(state="completed")])
    response = await a_attach(runtime, "long", team="team", conversation="c")
    whole = await events_of(response)
    assert len(whole) == 2 * count + 3  # of three asides two are the same
    parts: list[Event] = []
    while len(parts) < len(whole):
        begun = len(parts)
        async for event in response.events_from(parts[-1].number if parts else 0):
            parts.append(event)
            if len(parts) == begun + 99:  # in the middle of an entry
                break
    assert parts == whole


class Writer(BaseChatAgent):
    """Shows a piece of its answer, and ends it when somebody has read that."""

    def __init__(self, is_read: Callable[[], Awaitable[object]]) -> None:
        super().__init__("writer", "writes")
        self._is_read = is_read

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        raise NotImplementedError

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Any, None]:
        yield ModelClientStreamingChunkEvent(content="The sea", source=self.name)
        await self._is_read()
        yield Response(chat_message=TextMessage(content="The sea is wide.", source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None: ...


async def test_pieces_of_a_text_are_drafts(runtime: RedisAgentRuntime) -> None:
    seen = asyncio.Event()

    async def is_read() -> object:
        return await seen.wait()

    response = await a_run(Writer(is_read), message="A line", runtime=runtime)
    live: list[Event] = []
    async for event in response.events_from(0, drafts=True):
        live.append(event)
        if is_stream(event):
            seen.set()
    settled = await events_of(response)
    assert [event for event in live if not event.is_draft] == settled
    assert [event.text for event in live if event.is_draft] == ["The sea"]
    assert "stream" not in {event.type for event in settled}


class Stumbling(Writer):
    """Its first two attempts end in the middle of a sentence."""

    attempts = 0

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Any, None]:
        Stumbling.attempts += 1
        for piece in ("The ", "sea ", f"{Stumbling.attempts}"):
            yield ModelClientStreamingChunkEvent(content=piece, source=self.name)
        await self._is_read()
        if Stumbling.attempts < 3:
            raise OSError("the process is gone")
        yield Response(chat_message=TextMessage(content="The sea 3", source=self.name))


def drawn(events: Sequence[Event]) -> list[str]:
    """What a window shows: pieces one behind the other, and messages in their place."""
    whole: list[str] = []
    pieces: list[tuple[int, str]] = []
    for event in events:
        if is_interrupted(event):
            pieces = [one for one in pieces if one[0] < event.since]
        elif is_stream(event) and event.is_draft:
            pieces.append((event.number, event.text))
        elif is_agent_message(event) and not event.is_draft:
            whole.append(event.text)
            pieces = []
    return [*whole, "".join(piece for _, piece in pieces)]


async def test_a_window_is_right_from_whichever_number_it_goes_on(runtime: RedisAgentRuntime) -> None:
    Stumbling.attempts = 0
    seen = asyncio.Event()

    async def is_read() -> object:
        await seen.wait()
        seen.clear()
        return None

    response = await a_run(Stumbling(is_read), message="A line", runtime=runtime, max_turns=1)
    live: list[Event] = []
    behind: list[list[str]] = []
    async for event in response.events_from(0, drafts=True):
        live.append(event)
        if event.text in ("1", "2", "3"):
            again = response.events_from(live[1].number, drafts=True)
            known = [*live[:2], *[await anext(again) for _ in live[2:]]]
            await again.aclose()
            behind.append([drawn(known)[-1], drawn(live)[-1]])
            seen.set()
    assert behind == [["The sea 1"] * 2, ["The sea 2"] * 2, ["The sea 3"] * 2]
    assert drawn(live) == ["user: A line", "writer: The sea 3", ""]
    numbers = [event.number for event in live]
    assert numbers == sorted(set(numbers))
    assert [event for event in live if not event.is_draft] == await events_of(response)
    for place in range(len(live)):
        rest = [event async for event in response.events_from(numbers[place], drafts=True)]
        assert drawn([*live[: place + 1], *rest]) == drawn(live), place
    assert sum(is_interrupted(event) for event in live) == 2
    first = next(event for event in live if is_interrupted(event))
    assert load_event(first.model_dump_json()) == first
    assert first.text == "writer was interrupted, and begins again"


async def test_a_run_goes_on_with_an_earlier_one_and_its_variables(runtime: RedisAgentRuntime) -> None:
    def remember() -> str:
        """Remembers."""
        context_variables()["customer"] = "ada"
        return "noted"

    def read(messages: Any) -> str:
        return f"read {len(messages)}"

    model = ReplayChatCompletionClient([call("remember")], default=read)
    alice = ConversableAgent("Alice", llm_config=model, human_input_mode="NEVER")
    options: dict[str, Any] = {"tools": [remember], "runtime": runtime}
    first = await a_run(alice, message="One", context_variables={"order": 7}, **options)
    assert await first.summary == "read 4"
    assert dict(await first.context_variables) == {"order": 7, "customer": "ada"}
    second = await a_run(alice, message="Two", previous_run=first.run_id, **options)
    assert await second.summary == "read 6"
    assert texts(await second.messages) == ["user: Two", "Alice: read 6"]


async def test_the_same_id_again_reads_the_same_run_and_a_second_task_is_refused_or_waits(
    runtime: RedisAgentRuntime,
) -> None:
    async def hold() -> str:
        """Holds."""
        return str(await ask_user("Go on?"))

    agent = speaker("a", call("hold"), "one", "two")
    options: dict[str, Any] = {"runtime": runtime, "conversation": "c", "tools": [hold]}
    first = await a_run(agent, message="One", run_id="first", **options)
    again = await a_run(agent, message="One", run_id="first", **options)
    with pytest.raises(TeamBusyError):
        await a_run(agent, message="Two", **options)
    waiting = await a_run(agent, message="Two", if_busy="enqueue", **options)
    await answer_all(first)
    assert await again.summary == "one"
    assert await events_of(first) == await events_of(again)
    assert await waiting.summary == "two"


async def answer_all(response: AsyncRunResponse) -> list[str]:
    prompts: list[str] = []
    async for event in response.events:
        if is_async_input_request(event):
            prompts.append(event.prompt)
            await event.a_respond("yes")
    return prompts


async def test_a_question_is_answered_from_another_process_and_the_first_answer_wins(
    runtime: RedisAgentRuntime, runtimes: Runtimes
) -> None:
    async def ask(which: str) -> str:
        """Asks."""
        return str(await ask_user(which, choices=["yes", "no"]))

    agent = speaker("a", call("ask", which="Sure?"), "Done.")
    response = await a_run(agent, message="Hi", tools=[ask], runtime=runtime)
    elsewhere = await a_attach(runtimes.new(), response.run_id)
    async for event in elsewhere.events:
        if is_async_input_request(event):
            assert await response.state == "input_required"
            with pytest.raises(InputValueError):
                await event.a_respond("perhaps")
            await event.a_respond("yes")
            with pytest.raises(InputAnsweredError):
                await response.respond(event.request_id, "no")
    assert await response.summary == "Done."
    kinds = [event.type for event in await events_of(response)]
    assert (kinds.count("async_input_request"), kinds.count("input_response")) == (1, 1)
    [answered] = [event for event in await events_of(response) if is_input_response(event)]
    assert answered.value == "yes"


async def test_cancel_ends_it_and_nothing_more_is_said(runtime: RedisAgentRuntime) -> None:
    response = await a_run(chatterer("a"), chatterer("b"), message="Hi", runtime=runtime)
    async for event in response.events:
        if event.source == "b":
            break
    await response.cancel()
    await response.cancel()
    assert await response.state == "cancelled"
    count = len(await response.messages)
    with pytest.raises(RunCancelledError):
        await response.result()
    assert len(await response.messages) == count
    assert not await response.pause()


async def test_pause_holds_and_resume_goes_on(runtime: RedisAgentRuntime) -> None:
    response = await a_run(chatterer("a"), chatterer("b"), message="Hi", max_turns=30, runtime=runtime)
    assert await response.pause()
    assert await response.state == "paused"
    assert await response.resume()
    assert len(await response.messages) == 31


async def test_an_error_is_an_event_and_then_an_exception(runtimes: Runtimes) -> None:
    def fail(*_: Any, **__: Any) -> tuple[bool, str]:
        raise ValueError("no idea")

    runtime = runtimes.new(settings={"max_attempts": 1})
    runtime.start()
    agent = speaker("a")
    agent.register_reply([Agent, None], fail)
    response = await a_run(agent, message="Hi", runtime=runtime)
    last = (await events_of(response))[-1]
    assert is_error(last)
    assert last.error_type == "ValueError"
    assert await response.state == "failed"
    with pytest.raises(TeamRunError, match="no idea"):
        await response.result()


async def of_desk(
    runtime: RedisAgentRuntime, run_id: str, conversation: str, **options: Any
) -> AsyncRunResponse:
    return await a_run(
        chatterer("a"),
        chatterer("b"),
        name="desk",
        message="Hi",
        max_turns=2,
        run_id=run_id,
        conversation=conversation,
        runtime=runtime,
        **options,
    )


async def test_attaching_can_wait_for_a_run_to_begin(runtime: RedisAgentRuntime) -> None:
    await runtime.open()
    waiting = asyncio.create_task(a_attach(runtime, "desk-7", wait=60))
    named = asyncio.create_task(a_attach(runtime, "desk-7", team="desk", conversation="c", wait=60))
    with pytest.raises(RunUnknownError, match="wait=10"):
        await a_attach(runtime, "desk-7")
    assert not waiting.done()
    assert not named.done()
    first = await of_desk(runtime, "desk-7", "c")
    said = [message.id for message in (await first.result()).messages]
    for response in (await waiting, await named):
        assert [message.id for message in (await response.result()).messages] == said


async def test_attaching_finds_a_run_that_is_queued(runtime: RedisAgentRuntime) -> None:
    first = await of_desk(runtime, "desk-1", "c", step=True)
    await of_desk(runtime, "desk-2", "c", if_busy="enqueue")
    queued = await a_attach(runtime, "desk-2", team="desk", conversation="c", wait=60)
    assert await stored_state(runtime, AgentId("desk", "c"), "desk-2") == "queued"
    await first.cancel()
    assert (await queued.result()).stop_reason == "Maximum number of turns 2 reached."


async def test_attaching_to_one_of_several_with_an_id_does_not_wait(runtime: RedisAgentRuntime) -> None:
    for conversation in ("c1", "c2"):
        await (await of_desk(runtime, "same", conversation)).result()
    with pytest.raises(RunUnknownError, match="2 conversations have a run with this id"):
        await asyncio.wait_for(a_attach(runtime, "same", wait=600), 60)


@pytest.mark.parametrize("named", [{}, {"team": "desk", "conversation": "c"}])
async def test_who_waited_in_vain_is_told_for_which_run(
    runtime: RedisAgentRuntime, named: dict[str, str]
) -> None:
    with pytest.raises(RunUnknownError, match=r"'desk-9' can't be found: .* 0\.01 s") as raised:
        await a_attach(runtime, "desk-9", wait=0.01, **named)
    assert raised.value.run_id == "desk-9"


@pytest.mark.parametrize("wait", [math.nan, math.inf, -1, True, "2", None])
@pytest.mark.parametrize("named", [{}, {"team": "desk", "conversation": "c"}])
async def test_what_is_no_time_can_not_be_waited(
    runtime: RedisAgentRuntime, wait: Any, named: dict[str, str]
) -> None:
    with pytest.raises(SettingValueError, match="wait="):
        await a_attach(runtime, "desk-9", wait=wait, **named)


@pytest.mark.parametrize("run_id", ["", "x" * 5000, "\ud800"])
async def test_what_can_be_no_id_is_refused_in_a_line(runtime: RedisAgentRuntime, run_id: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - which one depends on the id
        await a_attach(runtime, run_id)
    assert len(str(raised.value)) < 250


async def test_attaching_names_no_run_of_others(runtime: RedisAgentRuntime) -> None:
    await a_run(chatterer("a"), message="Hi", max_turns=1, run_id="of-ada-4711", runtime=runtime)
    for name in ("of-ada-4712", "of-ada", "xyz"):
        with pytest.raises(RunUnknownError) as raised:
            await a_attach(runtime, name, wait=0.01)
        assert "4711" not in str(raised.value)


async def test_what_is_not_there_can_not_be_attached_to(runtime: RedisAgentRuntime) -> None:
    with pytest.raises(RunUnknownError, match="xyz"):
        await a_attach(runtime, "xyz")
    first = await a_run(chatterer("a"), message="Hi", max_turns=1, runtime=runtime)
    with pytest.raises(DeclarationError, match="same team"):
        await a_run(chatterer("b"), message="Hi", previous_run=first, runtime=runtime)
    with pytest.raises(DeclarationError, match="on the bus"):
        await a_run(chatterer("a"), message="Hi", previous_run=first)


class Spoken:
    """Who has spoken."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def agent(self, name: str) -> ConversableAgent:
        def note(agent: ConversableAgent, *_: Any, **__: Any) -> tuple[bool, str]:
            self.names.append(agent.name)
            return True, f"{agent.name} speaks"

        made = speaker(name)
        made.register_reply([Agent, None], note)
        return made


async def test_a_run_waits_before_each_turn_for_whoever_reads_it(runtime: RedisAgentRuntime) -> None:
    spoken = Spoken()
    response = await a_run(
        spoken.agent("a"), spoken.agent("b"), message="Hi", max_turns=3, runtime=runtime, step=True
    )
    seen: list[str] = []
    async for event in response.events:
        seen.append(event.type)
        await runtime.stop_when_idle()  # whatever could go on would go on
        assert len(spoken.names) <= max(seen.count("speaker_selected") - 1, seen.count("agent_message") - 1)
        runtime.start()
    assert spoken.names == ["a", "b", "a"]


async def test_steps_are_taken_from_anywhere_and_outlast_a_restart(runtimes: Runtimes) -> None:
    spoken = Spoken()
    agents = spoken.agent("a"), spoken.agent("b")
    options: dict[str, Any] = {"message": "Hi", "max_turns": 4, "step": True, "run_id": "held"}
    first = runtimes.new()
    first.start()
    held = await a_run(*agents, runtime=first, **options)
    assert await held.step()
    await first.stop_when_idle()
    await first.close()
    assert spoken.names == ["a"]

    second = runtimes.new()
    second.start()
    again = await a_run(*agents, runtime=second, **options)
    other = await a_attach(runtimes.new(), "held")
    assert await other.pause()
    assert not await other.step()  # it is noted
    await second.stop_when_idle()
    second.start()
    assert spoken.names == ["a"]
    assert await other.resume()
    await eventually(lambda: spoken.names == ["a", "b"])
    assert len(await again.messages) == 5  # who waits for the end wants all steps
    assert not await other.step()


@pytest.mark.real_server("what it is about has nothing to do with the server, and memory:// is slow")
async def test_a_program_that_is_not_async_attaches_as_well(
    runtime: RedisAgentRuntime, runtimes: Runtimes
) -> None:
    response = await a_run(chatterer("a"), message="Hi", max_turns=1, runtime=runtime)
    other = RedisAgentRuntime(runtimes.url, settings=quick(runtimes.namespace))

    def program() -> tuple[list[str], str]:
        found = attach(other, response.run_id)
        return [event.type for event in found.events], found.summary

    try:
        kinds, summary = await asyncio.to_thread(program)
    finally:
        await asyncio.to_thread(lambda: loop_thread().call(other.close(), "close"))
    assert (kinds, summary) == ([event.type for event in await events_of(response)], "a speaks")
