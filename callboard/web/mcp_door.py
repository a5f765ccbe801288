"""The door for clients of the Model Context Protocol: each service is a tool.

A call begins a run and waits for its end. What the client has to name when it comes back, at this process or another one, is
the run's id at a door: as `request_state` where a person is asked, and in every result. So a call whose connection broke is
not lost: the run goes on, and `callboard_run` waits for it. Nothing is kept here.

A question of the run is put to the person before the client: as the protocol of 2026-07-28 does it, by a result that asks
for input; by an elicitation in an older one that has a way back (stdio); and to a client that can do neither by a result
that says how `callboard_answer` answers. There a model could answer instead of a person: the text says that it must not.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict, Field, ValidationError

import callboard
from callboard.core.answers import answer_of, how_to_answer
from callboard.core.people import InputRequest
from callboard.errors import InputAnsweredError, InputError
from callboard.foundation import CallboardError
from callboard.runs.events import Event, is_question

from .access import Identity
from .api import Run, shown
from .problems import Problem, problem_of
from .requests import misfit
from .served_runs import ServedRun, ServedRuns, new_run

Context = ServerRequestContext[Any, Any]
Result = types.CallToolResult | types.InputRequiredResult
Who = Callable[[Context, str], Awaitable[Identity]]
"""Says who calls, from what came and the scope that it takes."""

SHOW, ANSWER, CANCEL = "callboard_run", "callboard_answer", "callboard_cancel"
LONGEST_WAIT: Final = 3_600.0  # seconds
LONGEST_PROGRESS: Final = 400  # characters


class _Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Begin(_Arguments):
    """Arguments of a service."""

    task: str = Field(min_length=1, description="What to do.")
    conversation: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        description="What was said in it before is known. Leave out for a new one.",
    )
    wait: float | None = Field(
        None,
        ge=0,
        le=LONGEST_WAIT,
        description=f"Seconds to wait for the end; then {SHOW} waits on. Default: to the end.",
    )


class Show(_Arguments):
    """Arguments of SHOW."""

    run: str = Field(description="Its id.")
    wait: float | None = Field(
        0, ge=0, le=LONGEST_WAIT, description="Seconds to wait for the end; null: to the end."
    )


class Answer(_Arguments):
    """Arguments of ANSWER."""

    question: str = Field(description="Its id.")
    answer: str = Field(description="The person's own answer.")


class Cancel(_Arguments):
    """Arguments of CANCEL."""

    run: str = Field(description="Its id.")


OF_RUNS: Final[Mapping[str, tuple[type[_Arguments], str]]] = {
    SHOW: (Show, "Shows a run that was begun, and waits for its end."),
    ANSWER: (
        Answer,
        "Answers a question of a run. Only with what a person has said to it; never by yourself.",
    ),
    CANCEL: (Cancel, "Ends a run now."),
}


class McpDoor:
    """The services of an app as an MCP server.

    Args:
        runs: The runs that there are.
        who: Says who calls.
        name: Of the server.
    """

    def __init__(self, runs: ServedRuns, who: Who, name: str) -> None:
        self._runs = runs
        self._who = who
        self.server: Server[Any] = Server(
            name, version=callboard.__version__, on_list_tools=self._list, on_call_tool=self._call
        )

    async def _list(self, ctx: Context, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        identity = await self._who(ctx, "read")
        services = self._runs.services(identity).items()
        tools = [_tool(name, text or f"A run of the team {name}.", Begin) for name, text in services]
        tools += [_tool(name, text, arguments) for name, (arguments, text) in OF_RUNS.items()]
        return types.ListToolsResult(tools=tools)

    async def _call(self, ctx: Context, params: types.CallToolRequestParams) -> Result:
        try:
            return await self._do(ctx, params)
        except Problem as problem:
            return _refusal(problem.detail)
        except CallboardError as error:
            if problem_of(error) is None:
                raise
            return _refusal(str(error))
        except ValidationError as error:
            return _refusal(misfit(error, "the arguments"))

    async def _do(self, ctx: Context, params: types.CallToolRequestParams) -> Result:
        given = params.arguments or {}
        if params.name == ANSWER:
            return await self._answer(await self._who(ctx, "answer"), Answer.model_validate(given))
        if params.name == CANCEL:
            run = await self._runs.found(await self._who(ctx, "run"), Cancel.model_validate(given).run)
            await self._runs.cancel(run)
            return _said(await shown(self._runs, run))
        if params.name == SHOW:
            asked = Show.model_validate(given)
            run = await self._runs.found(await self._who(ctx, "read"), asked.run)
            return await self._follow(ctx, run, asked.wait)
        identity, begun = await self._who(ctx, "run"), Begin.model_validate(given)
        self._runs.check_service(identity, params.name)
        if params.request_state is not None:
            return await self._go_on(ctx, identity, params, begun.wait)
        new = new_run(identity, params.name, begun.conversation)
        run = await self._runs.begin(new, begun.task, "reject", None, b"")
        return await self._follow(ctx, run, begun.wait)

    async def _go_on(
        self, ctx: Context, identity: Identity, params: types.CallToolRequestParams, wait: float | None
    ) -> Result:
        """The same call again, with what a person said."""
        run = await self._runs.found(identity, params.request_state or "")
        problem = ""
        for name, response in (params.input_responses or {}).items():
            if isinstance(response, types.ElicitResult):
                problem = await self._take(await self._who(ctx, "answer"), name, response) or problem
        return await self._follow(ctx, run, wait, problem)

    # A run until its end, or until somebody is asked

    async def _follow(self, ctx: Context, run: ServedRun, wait: float | None, problem: str = "") -> Result:
        """Wait for the end, and put each question meanwhile.

        Args:
            ctx: Of the call.
            run: The run.
            wait: Seconds, at most; None: to the end.
            problem: What was wrong with the last answer.
        """
        loop = asyncio.get_running_loop()
        until = None if wait is None else loop.time() + wait
        progress = _Progress(ctx)
        while True:
            asked = await self._until_asked(progress, run, until)
            told = await shown(self._runs, run)
            if not asked or not told.questions or not _can_ask(ctx):
                return _said(told)
            if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
                requests: types.InputRequests = {one.id: _request(one, problem) for one in asked}
                return types.InputRequiredResult(input_requests=requests, request_state=run.id)
            answered = await self._elicit(ctx, asked[0], problem)
            if answered is None:
                return _said(await shown(self._runs, run))
            problem = answered

    async def _until_asked(
        self, progress: _Progress, run: ServedRun, until: float | None
    ) -> Sequence[InputRequest]:
        """The open questions, as soon as there are some; none: it has ended, or the time is over."""
        if asked := await self._questions(run):
            return asked
        with contextlib.suppress(TimeoutError):
            async with (
                asyncio.timeout_at(until),
                aclosing(self._runs.source(run).read(progress.place, drafts=False)) as portions,
            ):
                async for portion in portions:
                    await progress.tell(portion)
                    if any(map(is_question, portion)) and (asked := await self._questions(run)):
                        return asked
        return ()

    async def _questions(self, run: ServedRun) -> Sequence[InputRequest]:
        return [question for _, question in await self._runs.questions(run.identity, run)]

    # Questions

    async def _elicit(self, ctx: Context, question: InputRequest, problem: str) -> str | None:
        """Ask by a request to the client. What was wrong with the answer; "": nothing; None: there was none."""
        identity = await self._who(ctx, "answer")
        request = _request(question, problem).params
        assert isinstance(request, types.ElicitRequestFormParams)  # noqa: S101 - for type checkers
        response = await ctx.session.elicit_form(request.message, request.requested_schema, ctx.request_id)
        return await self._take(identity, question.id, response) if response.action == "accept" else None

    async def _take(self, identity: Identity, name: str, response: types.ElicitResult) -> str:
        """Take a person's answer. What is wrong with it; "": nothing, or somebody else was first."""
        if response.action != "accept":
            return ""
        said = (response.content or {}).get("answer")
        try:
            await self._give(identity, name, str(said))
        except InputAnsweredError:
            return ""
        except InputError as error:
            return str(error)
        return ""

    async def _answer(self, identity: Identity, given: Answer) -> Result:
        run = await self._give(identity, given.question, given.answer)
        return _said(await shown(self._runs, run))

    async def _give(self, identity: Identity, name: str, text: str) -> ServedRun:
        run, question = await self._runs.question(identity, name)
        value = answer_of(text, name, question.choices, question.schema, question.details)
        await self._runs.runtime.inputs.answer(name, value, by=identity.name)
        return run


class _Progress:
    """Tells a client what happens. The numbers that it is told rise, as the protocol wants it.

    Attributes:
        place: Number of the last event that was told.
    """

    def __init__(self, ctx: Context) -> None:
        self.place = 0
        self._ctx = ctx
        self._told = 0

    async def tell(self, events: Sequence[Event]) -> None:
        for event in events:
            self.place = event.number
            self._told += 1
            text = f"{event.source}: {event.text}" if event.source else event.text
            await self._ctx.session.report_progress(self._told, message=text[:LONGEST_PROGRESS])


def _can_ask(ctx: Context) -> bool:
    """Whether the client puts questions to a person."""
    capabilities = ctx.session.client_capabilities
    return (
        capabilities is not None
        and capabilities.elicitation is not None
        and (ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.session.can_send_request)
    )


def _request(question: InputRequest, problem: str) -> types.ElicitRequest:
    """A question as a form with one field: forms can't have all that an answer may be, and a text can be any of it."""
    field: dict[str, Any] = {
        "type": "string",
        "title": "Answer",
        "description": how_to_answer(question.choices, question.schema, question.details),
    }
    if question.choices:
        field["enum"] = list(question.choices)
    schema = {"type": "object", "properties": {"answer": field}, "required": ["answer"]}
    message = f"{_name_in_team(question.agent.type)}: {question.question}"
    if problem:
        message = f"{problem}\n\n{message}"
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


# Results


def _tool(name: str, text: str, arguments: type[_Arguments]) -> types.Tool:
    schema = arguments.model_json_schema()
    schema.pop("description", None)
    return types.Tool(name=name, description=text, input_schema=schema)


def _said(run: Run) -> types.CallToolResult:
    """How a run stands, for a model and as data."""
    if run.state == "completed":
        text = run.text or "(it ended without a word)"
    elif run.state in ("failed", "cancelled"):
        text = f"The run {run.id} is {run.state}" + (f": {run.error}" if run.error else ".")
    else:
        text = f"The run {run.id} is not over: {run.state}. {SHOW} waits for its end."
    for one in run.questions:
        words = how_to_answer(one.choices, one.answer_schema, one.details)
        who = _name_in_team(one.agent)
        text += f"\nA person has to answer {who}, by {ANSWER}, question {one.id}: {one.question} [{words}]"
    return types.CallToolResult(
        content=[types.TextContent(text=text)],
        structured_content=run.model_dump(mode="json"),
        is_error=run.state == "failed",
    )


def _name_in_team(agent_type: str) -> str:
    return agent_type.rpartition(".")[2]


def _refusal(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)
