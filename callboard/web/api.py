"""The API, /api/v1: one table of what it answers, and what is done for each line of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from callboard.core.people import InputRequest
from callboard.messages.chat import BaseChatMessage
from callboard.runs.response import RunState
from callboard.teams.errors import RunCancelledError, TeamOutputError, TeamRunError
from callboard.teams.listing import stored_state
from callboard.teams.protocol import IfBusy

from .access import DoorOptions, Identity
from .event_stream import EventStream, Portions, Streams
from .problems import SAFE, Problem
from .requests import body_of, number_of, read_as
from .served_runs import ServedRun, ServedRuns, new_run
from .shared_readings import ShownEvent

LONGEST_WAIT: Final = 60  # seconds
MOST_LISTED: Final = 100
LAST_NUMBER: Final = 2**63 - 1
MOST_KEY: Final = 255  # characters
State = RunState | Literal["queued"]


class _Told(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Task(_Told):
    """A run to begin."""

    task: str = Field(min_length=1, description="What to do.")
    conversation: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="What was said in it before is known; null: a new one.",
    )
    if_busy: IfBusy = Field("reject", description="What to do when the conversation has a run under way.")


class Begun(_Told):
    """A run that the server has."""

    id: str
    service: str
    conversation: str
    run_id: str


class Question(_Told):
    """A question for a person."""

    id: str
    run: str
    service: str
    conversation: str
    agent: str
    question: str
    choices: list[str]
    answer_schema: dict[str, Any]
    details: dict[str, Any]
    to: list[str]
    asked: float
    expires: float | None


class Questions(_Told):
    """The open questions."""

    questions: list[Question]


class Run(Begun):
    """A run, and how it stands."""

    state: State
    text: str | None = Field(None, description="The last message, when it has ended.")
    stop_reason: str | None = None
    error: str | None = None
    tokens: int = Field(0, description="Used by models until now.")
    usd: float = 0.0
    questions: list[Question] = Field(default_factory=list[Question])


class ListedRun(Begun):
    """A run of a list."""

    state: str
    began: datetime
    ended: datetime | None


class Runs(_Told):
    """A page of runs, the newest first."""

    runs: list[ListedRun]
    next: str | None = Field(
        None, description="What to give as `after` for older ones; null: there are none."
    )


class Service(_Told):
    """A team that is served."""

    name: str
    description: str


class Services(_Told):
    """What is served."""

    services: list[Service]


class Answer(_Told):
    """An answer to a question."""

    answer: JsonValue


class Done(_Told):
    """What an order came to."""

    done: bool = Field(description="False: nothing changed, or the order waits for a worker.")


@dataclass(frozen=True, slots=True)
class Call:
    """A request, and who asks.

    Attributes:
        request: The request.
        identity: Who asks.
        runs: The runs that there are.
        streams: Those of this process.
        options: The rules of the door.
    """

    request: Request
    identity: Identity
    runs: ServedRuns
    streams: Streams
    options: DoorOptions

    async def run(self) -> ServedRun:
        """The run that the address names."""
        return await self.runs.found(self.identity, self.request.path_params["id"])

    def query(self, name: str) -> str | None:
        """A word of the query."""
        return self.request.query_params.get(name)


def answered(told: BaseModel, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer as JSON."""
    return Response(
        told.model_dump_json(), status, {**SAFE, **(headers or {})}, media_type="application/json"
    )


async def services(call: Call) -> Response:
    """List what is served."""
    found = call.runs.services(call.identity).items()
    return answered(Services(services=[Service(name=name, description=text) for name, text in found]))


async def begin(call: Call) -> Response:
    """Begin a run. With the same Idempotency-Key, again, it is the same run."""
    service = call.request.path_params["name"]
    call.runs.check_service(call.identity, service)
    body = await body_of(call.request, call.options)
    asked = read_as(Task, call.request, body)
    key = call.request.headers.get("idempotency-key")
    if key is not None and not 0 < len(key) <= MOST_KEY:
        raise Problem(400, f"an Idempotency-Key has 1 to {MOST_KEY} characters")
    new = new_run(call.identity, service, asked.conversation)
    run = await call.runs.begin(new, asked.task, asked.if_busy, key, body)
    prefix = call.request.url.path.partition("/services/")[0]
    return answered(Begun(**_named(run)), 202, {"location": f"{prefix}/runs/{run.id}"})


def _named(run: ServedRun) -> dict[str, Any]:
    return {"id": run.id, "service": run.service, "conversation": run.conversation, "run_id": run.run_id}


async def list_runs(call: Call) -> Response:
    """List runs, the newest first."""
    state, limit = call.query("state"), number_of(call.query("limit"), "limit", most=MOST_LISTED, default=20)
    if state is not None and state not in get_args(RunState):
        raise Problem(400, f"state is one of {', '.join(get_args(RunState))}")
    listed, more = await call.runs.listed(
        call.identity,
        lambda one: state in (None, one.state),
        call.query("service"),
        max(1, limit),
        call.query("after"),
    )
    found = [
        ListedRun(**_named(run), state=one.state, began=one.began, ended=one.ended) for run, one in listed
    ]
    return answered(Runs(runs=found, next=more))


async def show(call: Call) -> Response:
    """Show how a run stands, and its result."""
    return answered(await shown(call.runs, await call.run()))


async def shown(runs: ServedRuns, run: ServedRun) -> Run:
    """How a run stands, and its result."""
    source = runs.source(run)
    is_queued = await stored_state(runs.runtime, run.address, run.run_id) == "queued"
    state: State = "queued" if is_queued else await source.state()
    told = Run(**_named(run), state=state)
    spent = [part.spent for part in (await source.cost()).parts]
    told.tokens = sum(one.prompt_tokens + one.completion_tokens for one in spent)
    told.usd = sum(one.usd for one in spent)
    if state not in ("completed", "failed", "cancelled"):
        told.questions = [_question(*one) for one in await runs.questions(run.identity, run)]
        return told
    said = [one for one in await source.said() if isinstance(one, BaseChatMessage)]
    told.text = said[-1].to_text() if said else None
    try:
        told.stop_reason = (await source.result()).stop_reason
    except (TeamRunError, TeamOutputError, RunCancelledError) as error:
        told.error = str(error)
    return told


def _question(run: ServedRun, question: InputRequest) -> Question:
    return Question(
        id=question.id,
        run=run.id,
        service=run.service,
        conversation=run.conversation,
        agent=question.agent.type,
        question=question.question,
        choices=list(question.choices),
        answer_schema=dict(question.schema),
        details=dict(question.details),
        to=list(question.to),
        asked=question.asked,
        expires=question.expires,
    )


async def result(call: Call) -> Response:
    """Wait for the end of a run, `wait` seconds at most, and show it."""
    run, wait = await call.run(), number_of(call.query("wait"), "wait", most=LONGEST_WAIT, default=0)
    ended = asyncio.ensure_future(call.runs.source(run).wait())
    try:
        await asyncio.wait([ended], timeout=wait)
    finally:
        ended.cancel()
        await asyncio.gather(ended, return_exceptions=True)
    return answered(await shown(call.runs, run))


async def events(call: Call) -> Response:
    """Read what happens, as server-sent events, and go on behind a number. 204: it has ended, and nothing is behind it."""
    run = await call.run()
    call.streams.check_room()
    given = call.request.headers.get("last-event-id") or call.query("after")
    after = number_of(given, "the number of an event", most=LAST_NUMBER, default=0)
    drafts = call.query("drafts") in ("1", "true")
    portions = call.runs.read(run, after, drafts)
    if after and await stored_state(call.runs.runtime, run.address, run.run_id) == "idle":
        async with aclosing(portions):
            left = [event async for portion in portions for event in portion]
        if not left:
            return Response(status_code=204, headers=dict(SAFE))  # so that a browser does not come again
        portions = _all_of(left)
    return EventStream(portions, call.streams, ShownEvent.data, beats=True)


async def _all_of(left: list[Any]) -> Portions:
    yield left


async def cancel(call: Call) -> Response:
    """End a run now. What was said is kept."""
    is_done = await call.runs.cancel(await call.run())
    return answered(Done(done=is_done), 200 if is_done else 202)


async def pause(call: Call) -> Response:
    """Let nobody begin to speak."""
    return answered(Done(done=await call.runs.source(await call.run()).pause()))


async def resume(call: Call) -> Response:
    """Let a paused run go on."""
    return answered(Done(done=await call.runs.source(await call.run()).resume()))


async def questions(call: Call) -> Response:
    """List the open questions, those of one `run` where it is given."""
    name = call.query("run")
    run = None if name is None else await call.runs.found(call.identity, name)
    found = await call.runs.questions(call.identity, run)
    return answered(Questions(questions=[_question(*one) for one in found]))


async def answer(call: Call) -> Response:
    """Answer a question. The first answer counts."""
    name, inputs = call.request.path_params["id"], call.runs.runtime.inputs
    given = read_as(Answer, call.request, await body_of(call.request, call.options))
    await call.runs.question(call.identity, name)
    await inputs.answer(name, given.answer, by=call.identity.name)
    return answered(Done(done=True))


@dataclass(frozen=True, slots=True)
class Route:
    """A line of the API.

    Attributes:
        method: Of HTTP.
        path: Under /api/v1.
        scope: What one has to be allowed.
        does: Answers it; its docstring is the text for those who use it.
        gives: What comes out; None: events.
        takes: What goes in.
        query: Words of the query.
        status: Of success.
    """

    method: str
    path: str
    scope: Literal["read", "run", "answer", "operate"]
    does: Callable[[Call], Awaitable[Response]]
    gives: type[BaseModel] | None
    takes: type[BaseModel] | None = None
    query: tuple[str, ...] = ()
    status: int = 200


ROUTES: Final = (
    Route("GET", "/services", "read", services, Services),
    Route("POST", "/services/{name}/runs", "run", begin, Begun, Task, status=202),
    Route("GET", "/runs", "read", list_runs, Runs, query=("state", "service", "limit", "after")),
    Route("GET", "/runs/{id}", "read", show, Run),
    Route("GET", "/runs/{id}/result", "read", result, Run, query=("wait",)),
    Route("GET", "/runs/{id}/events", "read", events, None, query=("after", "drafts")),
    Route("POST", "/runs/{id}/cancel", "run", cancel, Done),
    Route("POST", "/runs/{id}/pause", "run", pause, Done),
    Route("POST", "/runs/{id}/resume", "run", resume, Done),
    Route("GET", "/questions", "read", questions, Questions, query=("run",)),
    Route("POST", "/questions/{id}", "answer", answer, Done, Answer),
)
