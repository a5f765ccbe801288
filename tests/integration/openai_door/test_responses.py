"""Responses, by the real client of `openai`: streams that go on at another door, the background, questions, tenants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI

from tests.helpers.door_processes import DoorProcesses
from tests.helpers.eventually import eventually
from tests.helpers.openai_clients import Place, client as openai_client, has_worker
from tests.helpers.talking_team import WORDS


def client(address: str, token: str = "ada") -> Any:
    """Without types: each event is one of 58 classes."""
    return openai_client(address, token)


def deltas(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


async def test_a_run_is_a_response(doors: DoorProcesses) -> None:
    _, address = await doors.open()
    http = client(address)
    await has_worker(http)
    made = http.responses.create(model="pair", input="Hi.", metadata={"order": "7"}, instructions="Be kind.")
    said = [(item.content[0].text, item.phase) for item in made.output if item.type == "message"]
    assert said == [("A draft.", "commentary"), ("The answer.", "final_answer")]
    assert (made.status, made.metadata, made.instructions) == ("completed", {"order": "7"}, "Be kind.")
    assert http.responses.retrieve(made.id).to_dict() == made.to_dict()
    with http.responses.stream(model="pair", input="Hi.") as stream:
        events = list(stream)
        assert stream.get_final_response().output_text == "A draft.The answer."
    numbers = [event.sequence_number for event in events]
    assert numbers == sorted(set(numbers))
    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="ada") as other:
        read = [event async for event in await other.responses.create(model="words", input="a", stream=True)]
        assert deltas(read) == WORDS
        assert read[-1].type == "response.completed"
    failed = http.responses.create(model="broken", input="Hi.")
    assert (failed.status, "out of order" in str(failed.error)) == ("failed", True)
    events = list(http.responses.create(model="broken", input="Hi.", stream=True))
    assert events[-1].type == "response.failed"


async def test_what_was_said_before_is_known(doors: DoorProcesses) -> None:
    _, address = await doors.open()
    http = client(address)
    await has_worker(http)
    first = http.responses.create(model="echo", input="one")
    second = http.responses.create(previous_response_id=first.id, input="two")
    assert (second.output_text, second.previous_response_id) == ("one|one|two", first.id)
    assert http.responses.create(model="echo", input="one", conversation="c").output_text == "one"
    assert http.responses.create(model="echo", input="two", conversation="c").output_text == "one|one|two"
    told = http.responses.create(model="echo", input="one", instructions="Be brief.").output_text
    assert told == "What was said before, and is known:\n\nsystem: Be brief.|one"
    hidden = http.responses.create(model="echo", input="one", store=False)
    with pytest.raises(openai.NotFoundError):
        http.responses.retrieve(hidden.id)


async def test_a_stream_goes_on_at_another_door_when_its_own_was_killed(
    doors: DoorProcesses, tmp_path: Path
) -> None:
    first, one = await doors.open()
    _, two = await doors.open()
    await has_worker(client(one))
    gate, before = tmp_path / "gate", list[Any]()
    stream = iter(client(one).responses.create(model="words", input=f"Wait {gate}", stream=True))
    while deltas(before) != "One two three":
        before.append(next(stream))
    first.kill()
    with pytest.raises((openai.APIError, httpx.HTTPError)):
        list(stream)
    name, last = before[0].response.id, before[-2].sequence_number
    going_on = iter(client(two).responses.retrieve(name, stream=True, starting_after=last))
    assert next(going_on) == before[-1]
    gate.touch()
    after = list(going_on)
    assert deltas(before + after) == WORDS
    numbers = [event.sequence_number for event in before + after]
    assert numbers == sorted(set(numbers))
    assert (after[-1].type, after[-1].response.output_text) == ("response.completed", WORDS)
    # Who comes when it is over gets the message whole: it begins again.
    late = list(client(two).responses.retrieve(name, stream=True, starting_after=last))
    assert (deltas(late), late[-1].response) == (WORDS, after[-1].response)
    assert not list(
        client(two).responses.retrieve(name, stream=True, starting_after=late[-1].sequence_number)
    )
    for attempt in (client(two, "bob").responses.retrieve, client(two, "bob").responses.cancel):
        with pytest.raises(openai.NotFoundError):
            attempt(name)


async def test_an_attempt_that_is_void_is_no_part_of_the_response(
    place: Place, doors: DoorProcesses, tmp_path: Path
) -> None:
    _, address = await doors.open()
    http = client(address)
    await has_worker(http)
    gate, events = tmp_path / "gate", list[Any]()
    with http.responses.stream(model="words", input=f"Change {gate}") as stream:
        for event in stream:
            events.append(event)
            if event.type == "response.output_text.delta" and not gate.exists():
                place.worker.close()  # kill -9
                place.worker = place.another()
                gate.touch()
        final = stream.get_final_response()
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert [item.status for item in done] == ["incomplete", "completed"]
    assert final.output_text == f"I am {place.worker.pid} here now." == done[1].content[0].text
    assert [item.id for item in final.output] == [done[1].id]


async def test_the_background_is_watched_and_cancelled_at_any_door(
    doors: DoorProcesses, tmp_path: Path
) -> None:
    first, one = await doors.open()
    _, two = await doors.open()
    await has_worker(client(one))
    gate = tmp_path / "gate"
    begun = client(one).responses.create(
        model="words", input=f"Wait {gate}", background=True, conversation="b"
    )
    # The conversation has one run at a time.
    options = {"background": True, "conversation": "b", "metadata": {"order": "8"}}
    waiting = client(one).responses.create(model="words", input="Hi.", **options)
    assert (waiting.metadata, waiting.background) == ({"order": "8"}, True)
    with pytest.raises(openai.ConflictError):
        client(one).responses.create(model="words", input="Hi.", conversation="b")
    first.kill()
    http = client(two)
    assert (begun.status, http.responses.retrieve(waiting.id).status) == ("in_progress", "queued")
    gate.touch()
    await eventually(lambda: http.responses.retrieve(waiting.id).status == "completed", 20)
    assert http.responses.retrieve(begun.id).output_text == WORDS
    assert http.responses.retrieve(waiting.id).created_at == waiting.created_at
    other = http.responses.create(model="words", input=f"Wait {tmp_path / 'never'}", background=True)
    assert http.responses.cancel(other.id).status == "cancelled"
    assert list(http.responses.retrieve(other.id, stream=True))[-1].type == "response.incomplete"


async def test_a_question_is_a_call_and_its_output_the_answer(doors: DoorProcesses) -> None:
    first, one = await doors.open()
    _, two = await doors.open()
    await has_worker(client(one))
    asking = client(one).responses.create(model="support", input="Where is it?", store=True)
    call: Any = asking.output[-1]
    assert (asking.status, call.type, call.name) == ("completed", "function_call", "answer_question")
    first.kill()
    http = client(two)
    answer: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "seven"}]
    with pytest.raises(openai.NotFoundError):
        client(two, "bob").responses.create(model="support", input=answer)
    answered = http.responses.create(previous_response_id=asking.id, input=answer)
    assert answered.output_text == "You said seven."
    assert f'"{answered.id}"' in call.arguments
    # Both stay what they are, and an answer that comes again is the same one.
    assert http.responses.retrieve(asking.id).output == asking.output
    assert http.responses.create(model="support", input=answer).id == answered.id
    answer[0]["output"] = "eight"
    with pytest.raises(openai.ConflictError, match=answered.id):
        http.responses.create(model="support", input=answer)


def answers_of(address: str) -> Iterator[tuple[httpx.Response, int]]:
    """Answers to requests that no client of `openai` sends, and the status that each is to have."""
    kind = {"Content-Type": "application/json", "Authorization": "Bearer ada"}
    path, hi = "/v1/responses", {"model": "echo", "input": "x"}
    with httpx.Client(base_url=address, headers=kind, timeout=30) as http:
        made = http.post(path, json=hi).json()["id"]
        picture = {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}
        output = {"type": "function_call_output", "call_id": "none", "output": "x"}
        yield from [
            (http.post(path, content=b"{"), 400),
            (http.post(path, json={"input": "x"}), 400),
            (http.post(path, json={"model": "echo"}), 400),
            (http.post(path, json={"model": "echo", "input": [{"type": "computer_call"}]}), 400),
            (http.post(path, json={"model": "echo", "input": [picture]}), 400),
            (http.post(path, json={"model": "echo", "input": [output]}), 404),
            (http.post(path, json={**hi, "tools": [{"type": "web_search"}]}), 400),
            (http.post(path, json={**hi, "text": {"format": {"type": "json_object"}}}), 400),
            (http.post(path, json={**hi, "metadata": {"a": "x" * 513}}), 400),
            (http.post(path, json={**hi, "conversation": ""}), 400),
            (http.post(path, json={**hi, "conversation": "c", "previous_response_id": made}), 400),
            (http.post(path, json={**hi, "model": "pair", "previous_response_id": made}), 400),
            (http.post(path, json={**hi, "previous_response_id": "resp_x"}), 404),
            (http.post(path, json={**hi, "background": True, "store": False}), 400),
            (http.post(path, json=hi, headers={"Idempotency-Key": ""}), 400),
            (http.get(f"{path}/{made}.1"), 404),
            (http.get(f"{path}/{made}.0"), 404),
            (http.get(f"{path}/{made}.{'9' * 30}"), 404),
            (http.get(f"{path}/{made.removeprefix('resp_')}"), 404),
            (http.get(f"{path}/{made}?stream=true&starting_after=-1"), 400),
            (http.get(f"{path}/{made}?stream=true&starting_after={'9' * 30}"), 400),
            (http.delete(f"{path}/{made}"), 405),
        ]


async def test_malformed_requests_are_refused_in_the_form_of_openai(doors: DoorProcesses) -> None:
    process, address = await doors.open()
    await has_worker(client(address))
    for answer, status in answers_of(address):
        assert answer.status_code == status, answer.text
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    with pytest.raises(openai.PermissionDeniedError, match="'read'"):
        client(address, "eve").responses.create(model="echo", input="x")
    assert "Traceback" not in process.output()
