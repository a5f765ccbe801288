"""Run with: pytest. Needs `pip install 'callboard[testing]'`, and no model, no server and no key."""

from pathlib import Path

import app as assistant
import pytest
from app import Answer, Assistant, Question

from callboard import AgentId
from callboard.testing import Harness

pytest_plugins = ["callboard.testing.fixtures"]
ADA = AgentId("assistant", "ada")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the scripted model, notes in a folder of the test, and without long-term memory."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(assistant, "NOTES", tmp_path / "notes.txt")
    monkeypatch.setattr(assistant, "has_memory", False)


async def test_it_writes_notes_and_answers(harness: Harness) -> None:
    runtime = await harness.run(assistant.app, types=["assistant"])
    written = await runtime.send_message(Question(text="note milk is out"), ADA)
    assert written == Answer(text="It is written down.")
    assert assistant.NOTES.read_text() == "milk is out\n"
    assert await runtime.send_message(Question(text="Hello"), ADA) == Answer(text="You said: Hello")


async def test_it_knows_the_conversation_after_a_restart(harness: Harness) -> None:
    first = await harness.run(assistant.app, types=["assistant"])
    await first.send_message(Question(text="Hello"), ADA)
    await first.close()
    second = await harness.run(assistant.app, types=["assistant"])
    await second.send_message(Question(text="Still there?"), ADA)
    agent = await second.try_get_underlying_agent_instance(ADA, Assistant)
    said = [message.content for message in agent.state.thread]
    assert said == ["Hello", "You said: Hello", "Still there?", "You said: Still there?"]
