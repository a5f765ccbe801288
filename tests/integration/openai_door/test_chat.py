"""Chat completions, by the real client of `openai`: real sockets, doors and workers that are killed, tenants."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai import AsyncOpenAI, OpenAI

from tests.helpers.door_processes import DoorProcesses
from tests.helpers.eventually import eventually
from tests.helpers.openai_clients import Place, client, has_worker
from tests.helpers.talking_team import WORDS


def chat(http: OpenAI, model: str, *said: str, **options: Any) -> Any:
    messages: list[Any] = [{"role": "user", "content": text} for text in said]
    return http.chat.completions.create(model=model, messages=messages, **options)


def text_of(completion: Any) -> str:
    return str(completion.choices[0].message.content)


def shown(chunks: list[Any]) -> str:
    return "".join((chunk.choices and chunk.choices[0].delta.content) or "" for chunk in chunks)


async def test_a_service_is_a_model_and_a_run_its_completion(doors: DoorProcesses) -> None:
    _, address = await doors.open()
    http = client(address)
    await has_worker(http)
    assert [one.id for one in http.models.list()] == ["words", "echo", "pair", "broken", "support", "polite"]
    assert http.models.retrieve("echo").id == "echo"
    whole = chat(http, "words", "Hi.")
    assert (text_of(whole), whole.usage.total_tokens) == (WORDS, 28)
    assert text_of(http.chat.completions.retrieve(whole.id)) == WORDS
    # What the members say on the way is in a stream; the last message is the answer.
    assert text_of(chat(http, "pair", "Hi.")) == "The answer."
    assert shown(list(chat(http, "pair", "Hi.", stream=True))) == "A draft.\n\nThe answer."
    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="ada") as other:
        made = await other.chat.completions.create(model="words", messages=[{"role": "user", "content": "a"}])
        assert made.choices[0].message.content == WORDS


async def test_a_conversation_is_named_or_each_call_is_its_own(doors: DoorProcesses) -> None:
    _, address = await doors.open()
    http = client(address)
    await has_worker(http)
    known = "What was said before, and is known:\n\nuser: one"
    assert text_of(chat(http, "echo", "one", "two")) == f"{known}|two"
    assert text_of(chat(http, "echo", "one", "two")) == f"{known}|two"
    assert text_of(chat(http, "echo", "one", user="u")) == "one"
    # It knows what was said: the client's copy is not told again.
    assert text_of(chat(http, "echo", "one", "two", user="u")) == "one|one|two"
    named = {"callboard-conversation": "u"}
    assert text_of(chat(http, "echo", "three", extra_headers=named)).endswith("|two|one|one|two|three")
    # The word that ended the run before ends no other.
    history: list[Any] = [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Hello. TERMINATE"},
        {"role": "user", "content": "And now?"},
    ]
    assert text_of(http.chat.completions.create(model="polite", messages=history)) == "Hello. TERMINATE"
    # The same name is another conversation of another tenant.
    assert text_of(chat(client(address, "bob"), "echo", "mine", user="u")) == "mine"


async def test_pieces_come_as_they_are_written(doors: DoorProcesses, tmp_path: Path) -> None:
    _, address = await doors.open()
    http = client(address)
    await has_worker(http)
    gate = tmp_path / "gate"
    options = {"stream": True, "stream_options": {"include_usage": True}}
    read: list[Any] = []
    for chunk in chat(http, "words", f"Wait {gate}", **options):
        read.append(chunk)
        if shown(read) == "One two three":
            gate.touch()
    assert (shown(read), read[-1].usage.total_tokens) == (WORDS, 28)


@pytest.mark.parametrize("order", ["Wait", "Change"])
async def test_a_text_whose_worker_was_killed_goes_on_or_is_said_to_be_void(
    order: str, place: Place, doors: DoorProcesses, tmp_path: Path
) -> None:
    _, address = await doors.open()
    http = client(address)
    await has_worker(http)
    gate, read, problem = tmp_path / "gate", list[Any](), ""
    try:
        for chunk in chat(http, "words", f"{order} {gate}", stream=True):
            read.append(chunk)
            if len(shown(read).split()) == 3 and not gate.exists():
                place.worker.close()  # kill -9
                place.worker = place.another()
                gate.touch()
    except openai.APIError as error:
        problem = str(error)
    answer = text_of(http.chat.completions.retrieve(read[0].id))
    if order == "Wait":
        assert (shown(read), answer, problem) == (WORDS, WORDS, "")
    else:
        assert answer == f"I am {place.worker.pid} here now."
        assert "does not count" in problem
        assert read[0].id in problem


async def test_a_completion_whose_door_was_killed_is_found_at_another(
    doors: DoorProcesses, tmp_path: Path
) -> None:
    first, one = await doors.open()
    _, two = await doors.open()
    await has_worker(client(one))
    gate = tmp_path / "gate"
    chunks = iter(chat(client(one), "words", f"Wait {gate}", stream=True))
    said = next(chunks).id
    first.kill()
    with pytest.raises((openai.APIError, httpx.HTTPError)):
        list(chunks)
    gate.touch()
    assert text_of(client(two).chat.completions.retrieve(said)) == WORDS
    with pytest.raises(openai.NotFoundError):
        client(two, "bob").chat.completions.retrieve(said)


async def test_a_door_that_ends_tells_who_waits_where_to_go_on(doors: DoorProcesses, tmp_path: Path) -> None:
    first, one = await doors.open()
    _, two = await doors.open()
    await has_worker(client(one))
    gate = tmp_path / "gate"
    async with AsyncOpenAI(base_url=f"{one}/v1", api_key="ada", timeout=40) as http:
        # With retries: a second request would begin a second run.
        waiting = asyncio.ensure_future(
            http.chat.completions.create(
                model="words", messages=[{"role": "user", "content": f"Wait {gate}"}], user="w"
            )
        )
        await eventually(lambda: runs_of(two) == 1, 20)
        first.signal(signal.SIGTERM)
        with pytest.raises(openai.InternalServerError, match="retrieve chatcmpl-") as error:
            await waiting
    gate.touch()
    name = error.value.message.rpartition(" ")[2]
    assert text_of(client(two).chat.completions.retrieve(name)) == WORDS
    assert runs_of(two) == 1


def runs_of(address: str) -> int:
    """How many runs of `words` there are."""
    headers = {"Authorization": "Bearer ada"}
    listed = httpx.get(f"{address}/api/v1/runs?service=words", headers=headers).json()
    return len(listed["runs"])


async def test_a_question_is_a_call_that_the_client_answers(doors: DoorProcesses) -> None:
    _, address = await doors.open()
    http = client(address)
    await has_worker(http)
    asking = chat(http, "support", "Where is it?")
    assert asking.choices[0].finish_reason == "tool_calls"
    call = asking.choices[0].message.tool_calls[0]
    assert (call.function.name, '"Which order?"' in call.function.arguments) == ("answer_question", True)
    messages: list[Any] = [
        {"role": "user", "content": "Where is it?"},
        asking.choices[0].message,
        {"role": "tool", "tool_call_id": call.id, "content": "seven"},
    ]
    for _ in range(2):  # a client whose connection broke says it again
        answered = http.chat.completions.create(model="support", messages=messages)
        assert text_of(answered) == "You said seven."
    with pytest.raises(openai.NotFoundError):
        client(address, "bob").chat.completions.create(model="support", messages=messages)
    messages[-1]["content"] = "eight"
    with pytest.raises(openai.ConflictError, match="The run goes on: resp_"):
        http.chat.completions.create(model="support", messages=messages)


async def test_what_does_not_apply_is_named_and_what_can_not_be_is_refused(doors: DoorProcesses) -> None:
    _, address = await doors.open()
    http = client(address)
    await has_worker(http)
    raw = http.chat.completions.with_raw_response.create(
        model="echo", messages=[{"role": "user", "content": "x"}], temperature=0.5, seed=1
    )
    assert raw.headers["warning"] == '299 callboard "these do not apply here: seed, temperature"'
    tool = {"type": "function", "function": {"name": "a"}}
    refused: list[tuple[dict[str, Any], type[openai.APIStatusError], str]] = [
        ({"tools": [tool]}, openai.BadRequestError, "unsupported_parameter"),
        ({"n": 2}, openai.BadRequestError, "unsupported_value"),
        ({"response_format": {"type": "json_object"}}, openai.BadRequestError, "unsupported_parameter"),
        ({"model": "none"}, openai.NotFoundError, "model_not_found"),
        ({"model": "broken"}, openai.InternalServerError, "run_failed"),
    ]
    for options, kind, code in refused:
        with pytest.raises(kind) as error:
            chat(http, options.pop("model", "echo"), "x", **options)
        assert error.value.code == code
    with pytest.raises(openai.AuthenticationError):
        chat(client(address, "x"), "echo", "x")
    with pytest.raises(openai.PermissionDeniedError, match="'read'"):
        chat(client(address, "eve"), "echo", "x")
    with pytest.raises(openai.APIError, match="the run failed"):
        list(chat(http, "broken", "x", stream=True))


def answers_of(address: str) -> Iterator[tuple[httpx.Response, int]]:
    """Answers to requests that no client of `openai` sends, and the status that each is to have."""
    kind = {"Content-Type": "application/json", "Authorization": "Bearer ada"}
    user = {"role": "user", "content": "x"}
    path = "/v1/chat/completions"
    with httpx.Client(base_url=address, headers=kind, timeout=30) as http:
        picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
        yield from [
            (http.post(path, content=b"{"), 400),
            (http.post(path, content=b"[" * 70 + b"]" * 70), 400),
            (http.post(path, json=[]), 400),
            (http.post(path, json={"model": "echo", "messages": []}), 400),
            (http.post(path, json={"model": "echo", "messages": [{"role": "user"}]}), 400),
            (http.post(path, json={"model": "echo", "messages": [user, {**user, "role": "system"}]}), 400),
            (http.post(path, json={"model": "echo", "messages": [picture]}), 400),
            (http.post(path, json={"model": "echo", "messages": [{"role": "tool", "content": "x"}]}), 400),
            (http.post(path, json={"model": "echo", "messages": [user], "user": "x" * 201}), 400),
            (
                http.post(
                    path, content=rb'{"model": "a\ud800", "messages": [{"role": "user", "content": "x"}]}'
                ),
                400,
            ),
            (http.post(path, json={"model": "a\n", "messages": [user]}), 404),
            (http.post(path, content=b" " * 1_000_001), 413),
            (http.post(path, content=b"x", headers={"Content-Type": "text/plain"}), 415),
            (http.get(f"{path}/chatcmpl-x"), 404),
            (http.get(f"{path}/x.1"), 404),
            (http.delete(path), 405),
            (http.post("/v1/embeddings", json={}), 404),
            (http.get("/v1/models/none"), 404),
            (http.get("/v1/models", headers={"Host": "evil.example"}), 421),
            (http.get("/v1/models", headers={"Authorization": ""}), 401),
        ]


async def test_malformed_bodies_are_refused_in_the_form_of_openai(doors: DoorProcesses) -> None:
    process, address = await doors.open()
    for answer, status in answers_of(address):
        assert answer.status_code == status, answer.text
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert "Traceback" not in process.output()
