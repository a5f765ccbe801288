"""An assistant whose process is killed with -9 in the middle of its model's answers, again and again.

It is the one of `callboard init --template assistant`: an `AssistantAgent` in a handler, with a conversation, a tool and
long-term memory. The model is a real HTTP server that takes its time and writes down what it is asked.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import itertools
import json
import os
import random
import textwrap
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis
from starlette.responses import Response

from callboard import AgentId
from callboard.memory_service import MemoryServiceClient
from callboard.runtime.runtime import RedisAgentRuntime
from examples.assistant.app import Answer as Answered, Assistant, Question, app
from tests.helpers.eventually import eventually
from tests.helpers.openai_server import Answer, Asked, Call, OpenAIServer
from tests.helpers.processes import ROOT, Process, python
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE

ADA = AgentId("assistant", "ada")
THINKING = 0.4  # seconds that the model takes for an answer
MOST_LINES = 20


def number_of(text: str) -> int:
    """The number of a question, or of what is remembered of one."""
    return int(text.split()[1])


@dataclass
class Thinking:
    """The model: it has a note written, and then says that it is done; every answer has a number of its own."""

    asked: list[tuple[int, int]] = field(default_factory=list)
    numbers: Any = field(default_factory=itertools.count)

    async def __call__(self, asked: Asked, server: OpenAIServer) -> Response:
        messages = asked.body["messages"]
        last = max(i for i, message in enumerate(messages) if message["role"] == "user")
        question = number_of(messages[last]["content"])
        step = sum(1 for message in messages[last:] if message["role"] == "assistant")
        self.asked.append((question, step))
        await asyncio.sleep(THINKING)
        return await self._answer(question, step)(asked, server)

    def _answer(self, question: int, step: int) -> Answer:
        text = f"{question} by answer {next(self.numbers)}"
        if step:
            return Answer(f"Done: {text}")
        # The same id every time, as some models have it.
        return Answer(calls=[Call("write_note", json.dumps({"text": text}), id="call_1")])


@dataclass(frozen=True)
class Kept:
    """What was recorded for the message that was handled when the process was killed."""

    model: int
    tools: int


class AssistantFixture:
    """The assistant's process, the one of its memory, and the model."""

    def __init__(self, server: ServerProcess, model: OpenAIServer, folder: Path) -> None:
        self.folder = folder
        self.namespace = f"assistant-{os.urandom(4).hex()}"
        self.thinking = Thinking()
        self.model = model
        model.default = self.thinking
        self.url = server.url
        self.environ = {
            **SHORT_LEASE,
            "PYTHONPATH": str(ROOT),
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": model.url,
            "OPENAI_MODEL": "gpt-4o-mini",
        }
        self.runtime = RedisAgentRuntime.from_app(app, server.url, namespace=self.namespace, types=())
        self.processes: list[Process] = []
        self._redis: Any = redis.Redis.from_url(server.url)

    def start(self, agent_type: str) -> Process:
        command = python("-m", "callboard", "worker", "examples.assistant.app:app", "--type", agent_type)
        options = ["--url", self.url, "--namespace", self.namespace]
        self.processes.append(Process([*command, *options], self.environ, self.folder))
        return self.processes[-1]

    def notes(self, question: int) -> list[str]:
        file = self.folder / "notes.txt"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line for line in lines if line.startswith(f"{question} ")]

    async def was_asked(self, moment: tuple[int, int], worker: Process) -> None:
        """Waits until the model has the request of a question with this many answers before it."""
        await eventually(lambda: moment in self.thinking.asked, 60, what=worker.output)

    def kept(self) -> Kept:
        prefix = f"callboard:{{{self.namespace}}}:once:assistant:"
        fields = [field for key in self._redis.scan_iter(f"{prefix}*") for field in self._redis.hkeys(key)]
        return Kept(
            sum(1 for field in fields if field.startswith(b".model:")),
            sum(1 for field in fields if field.startswith(b".tool:")),
        )

    def check_conversation(self, answers: list[str]) -> None:
        """Every question once, in order, with what was answered and written down: the model is sent all of it."""
        messages = self.model.last.body["messages"]
        thread = [
            message for message in messages if message["role"] != "system"
        ]  # rules, and what was recalled
        assert [message["role"] for message in thread[:-3]] == [
            "user",
            "assistant",
            "tool",
            "assistant",
        ] * len(answers)
        for question in range(len(answers)):
            asked, call, result, answer = thread[4 * question : 4 * question + 4]
            assert number_of(asked["content"]) == question
            (made,) = call["tool_calls"]
            assert json.loads(made["function"]["arguments"])["text"] in self.notes(question)
            assert result["content"] == "It is written down."
            assert answer["content"] == answers[question]

    async def check_memory(self, questions: int) -> None:
        """Every question is remembered once."""
        memory = MemoryServiceClient(self.runtime, "everybody")
        await eventually(lambda: self._remembers(memory, questions), 20)
        found = await memory.query("question", k=2 * questions)
        assert sorted(number_of(one.text) for one in found.results) == list(range(questions))

    @staticmethod
    async def _remembers(memory: MemoryServiceClient, count: int) -> bool:
        return len(await memory.ids()) >= count

    async def close(self) -> None:
        for process in self.processes:
            process.close()
        await self.runtime.close()
        self._redis.close()


@pytest.fixture
async def fixture(shared_server: ServerProcess, tmp_path: Path) -> AsyncIterator[AssistantFixture]:
    with OpenAIServer() as model:
        made = AssistantFixture(shared_server, model, tmp_path)
        await made.runtime.open()
        yield made
        await made.close()


def test_its_handler_has_at_most_20_lines() -> None:
    source = textwrap.dedent(inspect.getsource(Assistant.on_question))
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.AsyncFunctionDef)
    assert function.end_lineno is not None
    assert function.end_lineno - function.lineno < MOST_LINES


@pytest.mark.slow
@pytest.mark.parametrize("kills", [3, pytest.param(10, marks=pytest.mark.full)])
async def test_an_assistant_that_is_killed_again_and_again_answers_all_and_pays_nothing_twice(
    fixture: AssistantFixture, kills: int
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    fixture.start("memory")
    worker = fixture.start("assistant")
    answers: list[Answered] = []
    hits = 0
    for question in range(kills):
        asking = asyncio.ensure_future(
            fixture.runtime.send_message(Question(text=f"question {question}"), ADA, timeout=90.0)
        )
        moment = (question, chance.randrange(2))
        await fixture.was_asked(moment, worker)
        await asyncio.sleep(chance.uniform(0.0, THINKING))
        worker.kill()
        hits += not asking.done()
        kept, asked, notes = fixture.kept(), len(fixture.thinking.asked), fixture.notes(question)
        worker = fixture.start("assistant")
        answers.append(await asking)

        steps = [step for number, step in fixture.thinking.asked[asked:] if number == question]
        # Whoever asks for the second answer has kept the first one, and what the tool returned.
        answered = max(kept.model, moment[1])
        assert all(step >= answered for step in steps), f"an answer that was kept was paid for again: {kept}"
        if kept.tools or moment[1]:
            assert fixture.notes(question) == notes, "a tool whose result was kept ran again"

    await fixture.runtime.send_message(Question(text=f"question {kills}"), ADA, timeout=90.0)
    fixture.check_conversation([answer.text for answer in answers])
    await fixture.check_memory(kills + 1)
    assert hits >= kills // 3
    print(f"{hits} kills in an answer; {len(fixture.thinking.asked)} requests for {2 * kills + 2} answers")
