"""Pages of AG-UI: streaming, questions, a reload at another door, a second page, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from tests.helpers.agui_pages import Page, answer, said
from tests.helpers.door_processes import DoorProcesses
from tests.helpers.eventually import eventually
from tests.helpers.talking_team import WORDS


async def has_worker(door: str) -> None:
    """A run is refused while no worker runs the team."""

    async def is_there() -> bool:
        async with Page("words").stream(door, said("Hello.", "first")) as response:
            await response.aread()
            return response.status_code == 200

    await eventually(is_there, 30)


async def test_a_page_goes_on_at_another_door_when_its_own_is_killed(
    doors: DoorProcesses, tmp_path: Path
) -> None:
    process, door = await doors.open()
    await has_worker(door)
    gate = tmp_path / "gate"
    page, asked = Page("words"), said(f"Wait {gate}", "ada-1")
    await page.read(door, asked, until="One two three")
    process.kill()
    _, other = await doors.open()
    gate.touch()
    # The same input is the same run, and the number the place in it.
    await page.read(other, asked, after=page.place)
    assert page.texts == [WORDS]
    assert page.types[-1] == "RUN_FINISHED"
    assert page.last.outcome.type == "success"
    assert page.numbers == sorted(set(page.numbers))
    # Whoever comes later has what was asked as well, under the id that the first page gave it.
    second = Page("words")
    await second.read(other, said("", "ada-1", messages=[]), "/connect")
    assert second.messages[asked.messages[0].id] == f"Wait {gate}"
    assert second.texts == [f"Wait {gate}", WORDS]
    assert second.types[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]


async def test_a_question_is_an_interrupt_that_any_page_answers(doors: DoorProcesses) -> None:
    _, door = await doors.open()
    await has_worker(door)
    page = Page("support")
    await page.read(door, said("Where is it?", "ada-2"))
    assert page.last.outcome.type == "interrupt"
    [asked] = page.last.outcome.interrupts
    assert asked.message == "Which order?"
    # A second page finds the question, and waits behind it for what comes.
    second = Page("support")
    await second.read(door, said("", "ada-2", messages=[]), "/connect")
    assert second.last.outcome.interrupts == [asked]
    await page.read(door, answer("ada-2", asked.id, "17"))
    assert page.texts[-1] == "You said 17."
    await second.read(door, said("", "ada-2", messages=[]), "/connect", after=second.place)
    assert second.texts[-1] == "You said 17."
    assert second.texts.count("You said 17.") == 1
    # The same answer again is the same; another one comes too late.
    again = Page("support")
    await again.read(door, answer("ada-2", asked.id, "17"))
    assert again.last.outcome.type == "success"
    async with Page("support").stream(door, answer("ada-2", asked.id, "18")) as response:
        assert response.status_code == 409
    # Of another tenant there is nothing, and of another conversation neither.
    async with Page("support", "bob").stream(door, answer("ada-2", asked.id, "17")) as response:
        assert response.status_code == 404
    async with Page("support").stream(door, answer("ada-3", asked.id, "17")) as response:
        assert response.status_code == 404
    stranger = Page("support", "bob")
    await stranger.read(door, said("", "ada-2", messages=[]), "/connect")
    assert stranger.types == ["RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"]
    assert stranger.texts == []


async def test_a_run_that_fails_and_one_that_is_given_up_say_so(doors: DoorProcesses) -> None:
    _, door = await doors.open()
    await has_worker(door)
    page = Page("broken")
    await page.read(door, said("Hello.", "ada-4"))
    assert page.types[-1] == "RUN_ERROR"
    assert "out of order" in page.last.message
    page = Page("support")
    await page.read(door, said("Where is it?", "ada-5"))
    await page.read(door, answer("ada-5", page.last.outcome.interrupts[0].id, None, "cancelled"))
    assert page.last.outcome.type == "cancelled"


async def test_what_makes_no_sense_is_refused_with_a_sentence(doors: DoorProcesses) -> None:
    _, door = await doors.open()
    await has_worker(door)
    good = said("Hello.", "ada-6").model_dump(by_alias=True, mode="json")
    image = {"type": "image", "source": {"type": "data", "value": "", "mimeType": "image/png"}}
    wrong = [
        (b"{", 400),
        (b"[" * 10_000, 400),
        (b'"' + b"x" * 1_000_001 + b'"', 413),
        (b"[]", 422),
        ({**good, "runId": "a:b"}, 422),
        ({**good, "threadId": ""}, 422),
        ({**good, "messages": []}, 422),
        ({**good, "messages": [{"id": "1", "role": "user", "content": [image]}]}, 422),
        ({**good, "resume": [{"interruptId": "none", "status": "resolved"}]}, 404),
    ]
    async with httpx.AsyncClient(headers={"Authorization": "Bearer ada"}) as http:
        for body, status in wrong:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers = {"content-type": "application/json"}
            response = await http.post(f"{door}/agui/words", content=content, headers=headers)
            assert (response.status_code, bool(response.json()["detail"])) == (status, True)
        assert (await http.post(f"{door}/agui/none", json=good)).status_code == 404
        hidden = {"Authorization": "Bearer eve"}  # may begin runs, and not read
        assert (await http.post(f"{door}/agui/words", json=good, headers=hidden)).status_code == 403
