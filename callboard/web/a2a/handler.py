"""What clients of A2A ask for, done on runs: there is no store of tasks, for the runs are all there is to know."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing, suppress
from datetime import UTC
from typing import Any, Final

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
)
from a2a.utils.errors import (
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.proto_utils import validate_proto_required_fields

from callboard.broker.errors import RequestTimeoutError
from callboard.core.people import InputRequest
from callboard.errors import InputAnsweredError, InputExpiredError, InputWithdrawnError
from callboard.runs.bus import BusRun
from callboard.runs.events import CompletedEvent, ErrorEvent, Event, is_question
from callboard.teams.listing import RunSummary, queued_task, stored_state
from callboard.web.api import LAST_NUMBER, Call
from callboard.web.event_stream import gone
from callboard.web.problems import Problem
from callboard.web.requests import number_of
from callboard.web.served_runs import ServedRun, new_run

from .messages import NO_PUSH, check, is_repeated, text_of, value_for
from .story import SCALE, STATES, TaskStory, Told

CALL: Final = "call"
"""Where the state of a context has the request."""

HISTORY: Final = 100  # messages of a task, where the client does not say how many
PAGE: Final = 50
MOST_LISTED: Final = 100
MOST_COUNTED: Final = 2_000


class RunHandler(RequestHandler):
    """Answers requests about the runs of one service."""

    # Messages

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        """Begin a run, or answer its question; returns the task when it has ended, or somebody is asked."""
        call = _call(context)
        run, place = await _sent(call, params)
        configuration = params.configuration
        if not configuration.return_immediately:
            await _settled(call, run, place)
        return await _task(call, run, _longest(configuration, HISTORY))

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Task | Told, None]:
        """The same; yields the task, and what happens until then."""
        call = _call(context)
        call.streams.check_room()
        run, place = await _sent(call, params)
        async with aclosing(_updates(call, run, place * SCALE)) as updates:
            async for update in updates:
                yield update

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Task | Told, None]:
        """Yield the task, and what happens from now on, or behind the number that the client has in a Last-Event-ID."""
        call = _call(context)
        validate_proto_required_fields(params)
        call.streams.check_room()
        run = await _found(call, params.id)
        after = await _after(call, run)
        async with aclosing(_updates(call, run, after)) as updates:
            async for update in updates:
                yield update

    # Tasks

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        """The task as it stands."""
        call = _call(context)
        validate_proto_required_fields(params)
        return await _task(call, await _found(call, params.id), _longest(params, HISTORY))

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """The tasks, the newest first."""
        call = _call(context)
        size = params.page_size if params.HasField("page_size") else PAGE
        if not 0 < size <= MOST_LISTED:
            raise InvalidParamsError(f"page_size is a number from 1 to {MOST_LISTED}")
        service, after = call.request.path_params["service"], params.page_token or None
        if after is not None:
            try:
                await _found(call, after)
            except TaskNotFoundError:
                raise InvalidParamsError("page_token is none that was given here") from None

        async def listed(limit: int, after: str | None) -> Any:
            conversation = params.context_id or None
            wanted = _wanted(params)
            return await call.runs.listed(call.identity, wanted, service, limit, after, conversation)

        found, more = await listed(size, after)
        total = len(found) if after is None and more is None else len((await listed(MOST_COUNTED, None))[0])
        longest = _longest(params, 0)
        tasks = [await _listed_task(call, run, one, params, longest) for run, one in found]
        return ListTasksResponse(
            tasks=tasks, next_page_token=more or "", page_size=len(tasks), total_size=total
        )

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        """End the run now. Where its manager is away it is cancelled as soon as that is back."""
        call = _call(context)
        validate_proto_required_fields(params)
        _check_scope(call, "run")
        run = await _found(call, params.id)
        source = call.runs.source(run)
        if _story(run, await source.so_far()).is_over:
            raise TaskNotCancelableError("the task has ended")
        with suppress(RequestTimeoutError):
            await source.cancel()
        return await _task(call, run, HISTORY)

    # What is not there

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Refuse it."""
        raise UnsupportedOperationError(NO_PUSH)

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        """Refuse it."""
        raise UnsupportedOperationError(NO_PUSH)

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        """Refuse it."""
        raise UnsupportedOperationError(NO_PUSH)

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        """Refuse it."""
        raise UnsupportedOperationError(NO_PUSH)

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        """Refuse it."""
        raise UnsupportedOperationError("the card has all that there is to say")


def _call(context: ServerCallContext) -> Call:
    call = context.state[CALL]
    assert isinstance(call, Call)  # noqa: S101 - for type checkers
    return call


def _check_scope(call: Call, scope: str) -> None:
    if scope not in call.identity.scopes:
        raise Problem(403, f"this token may not do this: it lacks the scope {scope!r}")


async def _found(call: Call, id: str) -> ServedRun:
    try:
        run = await call.runs.found(call.identity, id)
    except Problem as problem:
        if problem.status != 404:
            raise
        raise TaskNotFoundError("there is no such task, or not for you") from None
    if run.service != call.request.path_params["service"]:
        raise TaskNotFoundError("there is no such task, or not for you")
    return run


# A message comes in


async def _sent(call: Call, params: SendMessageRequest) -> tuple[ServedRun, int]:
    """The run that a message is for, and the number of its last event before that."""
    validate_proto_required_fields(params)
    check(params)
    if params.message.task_id:
        return await _answered(call, params.message)
    return await _begun(call, params.message), 0


async def _begun(call: Call, message: Message) -> ServedRun:
    _check_scope(call, "run")
    text, context = text_of(message), message.context_id
    new = new_run(call.identity, call.request.path_params["service"], context or None)
    # One who got no answer sends the same message again: it is the same run.
    key, print_of = f"a2a:{message.message_id}", json.dumps([text, context]).encode()
    try:
        return await call.runs.begin(new, text, "enqueue", key, print_of)
    except Problem as problem:
        if problem.status != 422:
            raise
        told = "this message_id was sent with another message; give each message its own"
        raise InvalidParamsError(told) from None


async def _answered(call: Call, message: Message) -> tuple[ServedRun, int]:
    _check_scope(call, "answer")
    run = await _found(call, message.task_id)
    if message.context_id not in ("", run.conversation):
        raise InvalidParamsError("the task is of another context_id")
    events = await call.runs.source(run).so_far()
    last = events[-1].number if events else 0
    question = await _question(call, run, message)
    try:
        if question is not None:
            how = question.choices, question.schema, question.details
            value = value_for(message, question.id, *how)
            await call.runs.runtime.inputs.answer(question.id, value, by=call.identity.name)
            return run, last
    except (InputAnsweredError, InputExpiredError, InputWithdrawnError):
        events = await call.runs.source(run).so_far()  # somebody else was first, or the time was over
    if is_repeated(message, events, call.identity.name):
        return run, last
    if _story(run, events).is_over:
        raise UnsupportedOperationError(
            "the task has ended; a message with its context_id alone goes on there"
        )
    raise UnsupportedOperationError("the task asks nothing now")


async def _question(call: Call, run: ServedRun, message: Message) -> InputRequest | None:
    """The open question that a message answers: the one that its metadata name, or the oldest."""
    asked = [question for _, question in await call.runs.questions(call.identity, run)]
    named = dict(message.metadata).get("question")
    return next((one for one in asked if named in (None, one.id)), None)


async def _settled(call: Call, run: ServedRun, place: int) -> None:
    """Wait until the run has ended or asks, the client has gone, or this process ends; then the client asks again."""
    call.streams.check_room()
    with call.streams.one():
        waits: tuple[Awaitable[Any], ...] = (
            _until_settled(call, run, place),
            gone(call.request.receive),
            call.streams.closing.wait(),
        )
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
    if isinstance(results[0], Exception):
        raise results[0]


async def _until_settled(call: Call, run: ServedRun, place: int) -> None:
    if await _open_questions(call, run):
        return
    async with aclosing(call.runs.source(run).read(place, drafts=False)) as portions:
        async for portion in portions:
            for event in portion:
                if isinstance(event, ErrorEvent | CompletedEvent):
                    return
                if is_question(event) and event.request_id in await _open_questions(call, run):
                    return


# A run as a task


def _story(run: ServedRun, events: Sequence[Event]) -> TaskStory:
    story = TaskStory(run)
    for event in events:
        story.add(event)
    return story


def _longest(params: Any, default: int) -> int:
    if not params.HasField("history_length"):
        return default
    if params.history_length < 0:
        raise InvalidParamsError("history_length is a number from 0")
    return int(params.history_length)


async def _after(call: Call, run: ServedRun) -> int:
    """The number behind which one who subscribes goes on."""
    story = _story(run, await call.runs.source(run).so_far(drafts=True))
    given = call.request.headers.get("last-event-id")
    after = number_of(given, "the number of an update", most=LAST_NUMBER, default=story.number)
    # What has ended says no more, but to one who has not heard all of it.
    if story.is_over and after >= story.number:
        raise UnsupportedOperationError("the task has ended; get it to see its result")
    return after


async def _open_questions(call: Call, run: ServedRun) -> set[str]:
    return {question.id for _, question in await call.runs.questions(run.identity, run)}


async def _task(call: Call, run: ServedRun, longest: int) -> Task:
    return await _told(call, run, _story(run, await call.runs.source(run).so_far()), longest)


async def _told(call: Call, run: ServedRun, story: TaskStory, longest: int) -> Task:
    state = await stored_state(call.runs.runtime, run.address, run.run_id)
    spent = [part.spent for part in (await call.runs.source(run).cost()).parts]
    usage = {
        "prompt_tokens": sum(one.prompt_tokens for one in spent),
        "completion_tokens": sum(one.completion_tokens for one in spent),
    }
    task = story.task(state, await _open_questions(call, run), usage if spent else {}, longest)
    if state == "queued" and longest:
        waiting = await queued_task(call.runs.runtime, run.address, run.run_id)
        task.history.extend(map(story.waiting, waiting))
    return task


async def _updates(call: Call, run: ServedRun, after: int) -> AsyncGenerator[Task | Told, None]:
    """The task as it was at a number, and the updates behind it, until the run has ended or asks."""
    source, story = call.runs.source(run), TaskStory(run)
    # No further than there is something to be read: the task comes at once.
    place = min(after // SCALE, await _last(source))
    is_shown = not place
    if is_shown:
        yield await _told(call, run, story, HISTORY)
    async with aclosing(source.read(0, drafts=True)) as portions:
        async for event in _each(portions):
            if not is_shown and event.number > place:
                yield await _told(call, run, story, HISTORY)
                is_shown = True
            updates = [update for update in story.add(event) if update.number > after]
            if not is_shown and event.number == place:
                yield await _told(call, run, story, HISTORY)
                is_shown = True
            for update in updates:
                yield update.told
            if updates and await _is_settled(call, run, event):
                return


async def _each(portions: AsyncGenerator[Sequence[Event], None]) -> AsyncGenerator[Event, None]:
    async for portion in portions:
        for event in portion:
            yield event


async def _last(source: BusRun) -> int:
    """The number of the last event that is there to be read; 0: there is none."""
    known = await source.so_far(drafts=True)
    return known[-1].number if known else 0


async def _is_settled(call: Call, run: ServedRun, event: Event) -> bool:
    if is_question(event):
        return event.request_id in await _open_questions(call, run)
    return isinstance(event, ErrorEvent | CompletedEvent)


# Lists


def _wanted(params: ListTasksRequest) -> Any:
    since = params.status_timestamp_after if params.HasField("status_timestamp_after") else None
    moment = None if since is None else since.ToDatetime(UTC)

    def is_wanted(one: RunSummary) -> bool:
        is_state = params.status in (TaskState.TASK_STATE_UNSPECIFIED, STATES[one.state])
        return is_state and (moment is None or (one.ended or one.began) >= moment)

    return is_wanted


async def _listed_task(
    call: Call, run: ServedRun, one: RunSummary, params: ListTasksRequest, longest: int
) -> Task:
    if longest or params.include_artifacts:
        return await _task(call, run, longest)
    status = TaskStatus(state=STATES[one.state])
    status.timestamp.FromDatetime(one.ended or one.began)
    return Task(id=run.id, context_id=run.conversation, status=status)
