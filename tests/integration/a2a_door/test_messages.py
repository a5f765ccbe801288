"""Teams as agents of A2A: the protocol's own client over both bindings, and doors that are killed."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import httpx
import pytest
from a2a.client import Client
from a2a.client.errors import A2AClientError
from a2a.types import GetTaskRequest
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError

from tests.helpers.a2a_clients import (
    BINDINGS,
    Binding,
    Reader,
    all_of,
    client,
    got,
    message,
    number,
    sent,
    state,
    subscribe,
    text,
)
from tests.helpers.door_processes import DoorProcesses
from tests.helpers.eventually import eventually
from tests.helpers.talking_team import WORDS


async def has_worker(ada: Client) -> None:
    """A run is refused while no worker runs the team."""

    async def is_there() -> bool:
        try:
            await all_of(ada.send_message(message("x")))
        except Exception as error:
            if "503" not in str(error):
                raise
            return False
        return True

    await eventually(is_there, 30)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_service_has_a_card_and_answers(doors: DoorProcesses, binding: Binding) -> None:
    _, door = await doors.open()
    async with client(door, "echo", binding=binding, streaming=False) as ada:
        await has_worker(ada)
        task = await sent(ada, message("Hello.", context=binding))
        assert (state(task), text(task), task.context_id) == ("COMPLETED", "Hello.", binding)
        assert [part.text for said in task.history for part in said.parts] == ["Hello.", "Hello."]
        assert await got(ada, task.id) == task
        short = await ada.get_task(GetTaskRequest(id=task.id, history_length=0))
        assert list(short.history) == []
        following = await sent(ada, message("Again.", context=binding))
        assert following.id != task.id
        assert text(following) == "Hello.|Hello.|Again."
    async with httpx.AsyncClient(headers={"Authorization": "Bearer kim"}) as http:
        card = (await http.get(f"{door}/.well-known/agent-card.json")).json()
        assert (card["name"], card["description"]) == ("echo", "Says what it was told.")
        assert {one["url"] for one in card["supportedInterfaces"]} == {f"{door}/a2a/echo"}
        assert (await http.get(f"{door}/a2a/words/.well-known/agent-card.json")).status_code == 404


@pytest.mark.parametrize("binding", BINDINGS)
async def test_what_is_written_comes_in_pieces_and_the_result_at_the_end(
    doors: DoorProcesses, tmp_path: Path, binding: Binding
) -> None:
    _, door = await doors.open()
    gate = tmp_path / "gate"
    async with client(door, "words", binding=binding) as ada:
        await has_worker(ada)
        reader, pieces = Reader(), 0
        async for one in ada.send_message(message(f"Wait {gate}")):
            reader.take(one)
            pieces += one.HasField("artifact_update") and one.artifact_update.append
            if reader.text == "One two three":
                gate.touch()
        assert pieces >= 2
        assert reader.text == WORDS
        assert reader.said == [WORDS]
        assert reader.states[-1] == "COMPLETED"
        assert reader.numbers == sorted(set(reader.numbers))


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_client_goes_on_at_another_door_when_its_own_was_killed(
    doors: DoorProcesses, tmp_path: Path, binding: Binding
) -> None:
    first, one = await doors.open()
    _, two = await doors.open()
    gate, reader = tmp_path / "gate", Reader()
    async with client(one, "words", binding=binding) as ada:
        await has_worker(ada)
        stream = ada.send_message(message(f"Wait {gate}"))
        while reader.text != "One two three":
            reader.take(await anext(stream))
        task, last = reader.task, str(reader.numbers[-1])
        first.kill()
        with pytest.raises(A2AClientError, match="Network communication error"):
            await anext(stream)
    async with client(two, "words", binding=binding) as ada:
        assert state(await got(ada, task)) == "WORKING"
        stream = subscribe(ada, task, last)
        told = await anext(stream)
        assert (told.task.id, number(told), text(told.task)) == (task, last, "One two three")
        gate.touch()
        async for told in stream:
            reader.take(told)
        assert (reader.text, reader.states[-1]) == (WORDS, "COMPLETED")
        assert reader.numbers == sorted(set(reader.numbers))
        # What counts has the same numbers for one who reads it again; drafts are gone by then.
        again = Reader()
        async for told in subscribe(ada, task, "1"):
            again.take(told)
        assert again.numbers == reader.numbers[-3:]
        assert (again.text, again.states[-1]) == (WORDS, "COMPLETED")


async def test_a_message_that_is_sent_again_is_the_same_task(doors: DoorProcesses) -> None:
    first, one = await doors.open()
    _, two = await doors.open()
    async with client(one, "echo", streaming=False) as ada:
        await has_worker(ada)
        task = await sent(ada, message("Once.", id="m-1"))
    first.kill()
    async with client(two, "echo", streaming=False) as ada:
        assert (await sent(ada, message("Once.", id="m-1"))).id == task.id
        with pytest.raises(InvalidParamsError, match="sent with another message"):
            await sent(ada, message("Twice.", id="m-1"))
    async with client(two, "echo", "bob", streaming=False) as bob:
        assert (await sent(bob, message("Once.", id="m-1"))).id != task.id
        with pytest.raises(TaskNotFoundError, match="no such task"):
            await got(bob, task.id)


async def test_a_door_that_is_told_to_end_says_how_the_task_stands(
    doors: DoorProcesses, tmp_path: Path
) -> None:
    first, one = await doors.open()
    _, two = await doors.open()
    gate = tmp_path / "gate"
    async with (
        client(one, "words", streaming=False) as waits,
        client(one, "words") as reads,
        client(two, "words", streaming=False) as ada,
    ):
        await has_worker(ada)
        request = message(f"Wait {gate}")
        waiting = asyncio.ensure_future(sent(waits, request))
        reader = Reader()
        stream = reads.send_message(message(f"Wait {gate}"))
        while reader.text != "One two three":
            reader.take(await anext(stream))
        os.kill(first.pid, signal.SIGTERM)
        # A stream ends, and does not break; who waits for a result is told the state.
        async for told in stream:
            reader.take(told)
        assert reader.states[-1] == "WORKING"
        task = await waiting
        assert state(task) == "WORKING"
        gate.touch()
        # The same message again waits on.
        ended = await sent(ada, request)
        assert (ended.id, state(ended), text(ended)) == (task.id, "COMPLETED", WORDS)
        await eventually(lambda: not first.is_alive, 20)
        assert first.exit_code == 0
