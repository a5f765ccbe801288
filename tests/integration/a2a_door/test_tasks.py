"""Questions, orders and lists through the A2A door, and what may not be done there."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from a2a.client import Client
from a2a.types import (
    CancelTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    A2AError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from google.protobuf.json_format import MessageToDict

from callboard.web import door_id
from tests.helpers.a2a_clients import (
    BINDINGS,
    Binding,
    Reader,
    client,
    got,
    message,
    sent,
    state,
    subscribe,
    text,
)
from tests.helpers.door_processes import DoorProcesses
from tests.helpers.eventually import eventually

from .test_messages import has_worker

LACKS = r"403|lacks the scope"


def asked(task: Task) -> tuple[str, dict[str, Any]]:
    """The question of a task: its text, and what there is to know of it."""
    words, data = task.status.message.parts
    return words.text, MessageToDict(data.data)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_question_is_answered_at_another_door_when_the_first_was_killed(
    doors: DoorProcesses, binding: Binding
) -> None:
    first, one = await doors.open()
    _, two = await doors.open()
    async with client(one, "support", binding=binding, streaming=False) as ada:
        await has_worker(ada)
        task = await sent(ada, message("Help."))
        assert state(task) == "INPUT_REQUIRED"
        words, told = asked(task)
        assert words == "Which order? [a text]"
        first.kill()
    async with (
        client(two, "support", binding=binding, streaming=False) as ada,
        client(two, "support", "bob", binding=binding, streaming=False) as bob,
        client(two, "support", "eve", binding=binding, streaming=False) as eve,
    ):
        assert asked(await got(ada, task.id)) == (words, told)
        with pytest.raises(TaskNotFoundError):
            await sent(bob, message("42", task=task.id))
        with pytest.raises(A2AError, match=LACKS):
            await sent(eve, message("42", task=task.id))
        with pytest.raises(InvalidParamsError, match="another context_id"):
            await sent(ada, message("42", task=task.id, context="other"))
        answer = message("42", task=task.id, context=task.context_id)
        ended = await sent(ada, answer)
        assert (ended.id, state(ended), text(ended)) == (task.id, "COMPLETED", "You said 42.")
        # The answer again, of a client that got nothing back; and another one, which comes too late.
        assert await sent(ada, answer) == ended
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            await sent(ada, message("43", task=task.id))


async def test_a_stream_ends_where_somebody_is_asked_and_goes_on_with_the_answer(
    doors: DoorProcesses,
) -> None:
    _, door = await doors.open()
    async with client(door, "support") as ada:
        await has_worker(ada)
        reader = Reader()
        async for one in ada.send_message(message("Help.")):
            reader.take(one)
        task = reader.task
        assert reader.states[-1] == "INPUT_REQUIRED"
        before = reader.numbers[-1]
        async for one in ada.send_message(message("7", task=task)):
            reader.take(one)
        assert (reader.text, reader.states[-1]) == ("You said 7.", "COMPLETED")
        assert reader.numbers == sorted(set(reader.numbers))
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            await anext(subscribe(ada, task))
        # One who has not heard the end may still hear it, and an old question holds nobody up.
        late = Reader()
        async for one in subscribe(ada, task, str(before - 1)):
            late.take(one)
        assert late.numbers == [number for number in reader.numbers if number >= before]
        assert late.states[-1] == "COMPLETED"


@pytest.mark.parametrize("binding", BINDINGS)
async def test_a_task_is_cancelled_once_and_by_those_who_may(doors: DoorProcesses, binding: Binding) -> None:
    _, door = await doors.open()
    async with (
        client(door, "support", binding=binding, streaming=False) as ada,
        client(door, "support", "bob", binding=binding) as bob,
        client(door, "support", "eve", binding=binding) as eve,
        client(door, "echo", binding=binding) as other,
    ):
        await has_worker(ada)
        task = await sent(ada, message("Help."))
        order = CancelTaskRequest(id=task.id)
        for stranger in (bob, other):
            with pytest.raises(TaskNotFoundError):
                await stranger.cancel_task(order)
        with pytest.raises(A2AError, match=LACKS):
            await eve.cancel_task(order)
        assert state(await got(eve, task.id)) == "INPUT_REQUIRED"
        assert state(await ada.cancel_task(order)) == "CANCELED"
        with pytest.raises(TaskNotCancelableError):
            await ada.cancel_task(order)
        with pytest.raises(UnsupportedOperationError, match="has ended"):
            await sent(ada, message("42", task=task.id))


async def test_a_task_that_fails_says_why_and_one_that_waits_is_submitted(doors: DoorProcesses) -> None:
    _, door = await doors.open()
    async with (
        client(door, "broken", streaming=False) as broken,
        client(door, "support", streaming=False) as ada,
    ):
        await has_worker(ada)
        failed = await sent(broken, message("Hello."))
        assert state(failed) == "FAILED"
        assert "the model is out of order" in failed.status.message.parts[0].text
        first = await sent(ada, message("Help.", context="one"))
        now = SendMessageConfiguration(return_immediately=True)
        request = message("And help.", context="one")
        request.configuration.CopyFrom(now)
        second = await sent(ada, request)
        assert state(second) == "SUBMITTED"
        assert [part.text for said in second.history for part in said.parts] == ["And help."]
        await sent(ada, message("1", task=first.id))

        async def is_asked() -> bool:
            return state(await got(ada, second.id)) == "INPUT_REQUIRED"

        await eventually(is_asked, 20)
        assert text(await sent(ada, message("2", task=second.id))) == "You said 2."


@pytest.mark.parametrize("binding", BINDINGS)
async def test_tasks_are_listed_by_context_and_state_page_by_page(
    doors: DoorProcesses, binding: Binding
) -> None:
    _, door = await doors.open()
    context = f"list-{binding[:4]}"
    async with (
        client(door, "echo", binding=binding, streaming=False) as ada,
        client(door, "echo", "bob", binding=binding) as bob,
    ):
        await has_worker(ada)
        tasks = [(await sent(ada, message(f"{at}", context=context))).id for at in range(3)]
        await sent(ada, message("x", context="elsewhere"))
        listed = await ada.list_tasks(ListTasksRequest(context_id=context, page_size=2))
        assert [one.id for one in listed.tasks] == [tasks[2], tasks[1]]
        assert (listed.page_size, listed.total_size) == (2, 3)
        assert not any(one.artifacts or one.history for one in listed.tasks)
        rest = await ada.list_tasks(
            ListTasksRequest(
                context_id=context,
                page_size=2,
                page_token=listed.next_page_token,
                include_artifacts=True,
                history_length=1,
            )
        )
        assert [one.id for one in rest.tasks] == [tasks[0]]
        assert (text(rest.tasks[0]), len(rest.tasks[0].history), rest.next_page_token) == ("0", 1, "")
        failed = ListTasksRequest(context_id=context, status=TaskState.TASK_STATE_FAILED)
        assert not (await ada.list_tasks(failed)).tasks
        assert not (await bob.list_tasks(ListTasksRequest(context_id=context))).tasks
        with pytest.raises(InvalidParamsError, match="page_token"):
            await bob.list_tasks(ListTasksRequest(page_token=listed.next_page_token))
        with pytest.raises(InvalidParamsError, match="page_size"):
            await ada.list_tasks(ListTasksRequest(page_size=101))


async def refused(ada: Client, **changed: Any) -> str:
    said: dict[str, Any] = {"message_id": "m-2", "role": Role.ROLE_USER, "parts": [Part(text="x")]}
    configuration = changed.pop("configuration", None)
    request = SendMessageRequest(message=Message(**(said | changed)), configuration=configuration)
    with pytest.raises(A2AError) as caught:
        await sent(ada, request)
    return f"{type(caught.value).__name__}: {caught.value}"


async def test_what_can_not_be_taken_is_refused_in_a_sentence(doors: DoorProcesses) -> None:
    _, door = await doors.open()
    push = TaskPushNotificationConfig(url="http://127.0.0.1:1/")
    async with client(door, "echo", streaming=False) as ada:
        for given, said in (
            ({"parts": []}, "InvalidParamsError"),
            ({"parts": [Part(text="")]}, "a message has a text"),
            ({"parts": [Part(url="http://x.example/")]}, "ContentTypeNotSupportedError: only parts"),
            ({"role": Role.ROLE_AGENT}, "ROLE_USER"),
            ({"context_id": "c" * 201}, "context_id has 200"),
            ({"message_id": "m" * 201}, "message_id has 200"),
            ({"task_id": "none"}, "TaskNotFoundError"),
            ({"task_id": door_id("words", "c", "r")}, "TaskNotFoundError"),
            (
                {"configuration": SendMessageConfiguration(task_push_notification_config=push)},
                "UnsupportedOperationError: push",
            ),
            (
                {"configuration": SendMessageConfiguration(accepted_output_modes=["image/png"])},
                "ContentTypeNotSupportedError",
            ),
        ):
            assert said in await refused(ada, **given)
        with pytest.raises(UnsupportedOperationError, match="push notifications"):
            await ada.create_task_push_notification_config(push)


async def test_what_is_no_request_is_refused_without_a_fault(doors: DoorProcesses) -> None:
    process, door = await doors.open()
    kind = {"Authorization": "Bearer ada", "A2A-Version": "1.0", "Content-Type": "application/json"}
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": said}}
    path, rest = f"{door}/a2a/echo", f"{door}/a2a/echo/message:send"
    cases: list[tuple[str, dict[str, str], bytes, int, int | None]] = [
        (path, {"Authorization": "Bearer x"}, b"{}", 401, -32600),
        (path, {"Origin": "https://evil.example"}, b"{}", 403, -32600),
        (path, {"Host": "evil.example"}, b"{}", 421, -32600),
        (path, {"Content-Type": "text/plain"}, b"{}", 415, -32600),
        (path, {"A2A-Version": ""}, json.dumps(call).encode(), 200, -32009),
        (path, {"A2A-Version": "0.3"}, json.dumps(call).encode(), 200, -32009),
        (path, {}, b"{", 200, -32700),
        (path, {}, b"\xff", 200, -32700),
        (path, {}, b'{"id": ' + b"9" * 5000 + b"}", 200, None),
        (path, {}, b"[" * 100_000, 200, -32700),
        (path, {}, b" " * 1_000_001, 413, -32600),
        (path, {}, b"[]", 200, -32600),
        (path, {}, b"null", 200, -32600),
        (path, {}, json.dumps([call]).encode(), 200, -32600),
        (path, {}, json.dumps(call | {"id": {}}).encode(), 200, -32600),
        (path, {}, json.dumps(call | {"method": 1}).encode(), 200, -32600),
        (path, {}, json.dumps(call | {"method": "Nothing"}).encode(), 200, -32601),
        (path, {}, json.dumps(call | {"params": []}).encode(), 200, -32602),
        (path, {}, json.dumps(call | {"params": None}).encode(), 200, -32602),
        (path, {}, json.dumps(call | {"params": {"message": 1}}).encode(), 200, -32602),
        (path, {}, json.dumps(call | {"params": {"message": said | {"role": "x"}}}).encode(), 200, -32602),
        (path, {}, json.dumps(call | {"method": "GetTask"}).encode(), 200, -32602),
        (f"{door}/a2a/none", {}, json.dumps(call).encode(), 200, -32001),
        (f"{door}/a2a/none/message:send", {}, b"{}", 404, None),
        (rest, {"Authorization": "Bearer x"}, b"{}", 401, None),
        (rest, {}, b"{", 400, None),
        (rest, {}, b"", 400, None),
        (rest, {}, b'{"message": "x"}', 400, None),
        (rest, {}, b" " * 1_000_001, 413, None),
        (f"{door}/a2a/echo/tasks/none:cancel", {}, b"", 404, None),
        (f"{door}/a2a/echo/tasks", {}, b"{}", 405, None),
        (f"{door}/a2a/echo/nothing", {}, b"{}", 404, None),
        (f"{door}/a2a/echo/tenant/message:send", {}, b"{}", 404, None),
    ]
    async with httpx.AsyncClient(timeout=20) as http:
        for address, headers, body, status, code in cases:
            answer = await http.post(address, headers=kind | headers, content=body)
            assert answer.status_code == status, (address, headers, body[:60], answer.text)
            error = answer.json()["error"]
            assert error["message"]
            assert code is None or error["code"] == code, (body[:60], answer.text)
        listed = (await http.get(f"{door}/a2a/echo/tasks?contextId=none", headers=kind)).json()
        assert listed == {"tasks": [], "nextPageToken": "", "pageSize": 0, "totalSize": 0}
        for address, status in (
            (f"{door}/a2a/echo/tasks/none", 404),
            (f"{door}/a2a/echo/tasks?pageSize=x", 400),
            (f"{door}/a2a/echo/tasks?status=nothing", 200),
            (f"{door}/a2a/echo/tasks/none:subscribe", 404),
            (f"{door}/a2a/echo/extendedAgentCard", 400),
            (f"{door}/a2a/echo", 405),
            (f"{door}/.well-known/agent-card.json", 404),
        ):
            answer = await http.get(address, headers=kind)
            assert answer.status_code == status, (address, answer.text)
    assert "Traceback" not in process.output()
