"""The runner of a model's calls: all at once, each once per message, none again that a crash may have cut off."""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from callboard.broker.errors import EncodeError, PayloadTooLargeError
from callboard.broker.telemetry import ToolCalled, emit
from callboard.core.cancellation import CancellationToken, Suspended
from callboard.core.context import MessageContext
from callboard.core.people import Question, ask_person
from callboard.foundation.tasks import together
from callboard.memory.llm_messages import FunctionCall, FunctionExecutionResult
from callboard.runtime.steps import (
    NumberedStep,
    context_inside,
    is_played,
    is_taped,
    note,
    played,
    running_context,
    taping,
)

from .approval import NeedsApproval, allowed
from .call import NOT_AGAIN, AskedCall, IfUnknown, current_tool_context, read_call, tool_context
from .errors import (
    CallRefusedError,
    ToolArgumentsError,
    ToolEndedError,
    ToolError,
    ToolReturnError,
)
from .static import PASSED_ON, failed_result, run_limited
from .workbench import DEFAULT_LIMITS, ResultLimits, StreamWorkbench, ToolResult, Workbench, error_result

if TYPE_CHECKING:
    from callboard.core.protocol import AgentRuntime


T = TypeVar("T")

AGAIN: Final = "call it again"
TELL: Final = "tell the model"
FAIL: Final = "fail"
KIND: Final = "unknown_outcome"
LEFT: Final = "left"
CUT_OFF: Final = "cut off"
UNKNOWN: Final = (
    "it was called already, and its process ended before the result was kept: it may or may not have done its work. "
    "Find out before you call it again"
)
GIVEN_UP: Final = "a crash cut it off, and a person has decided that nothing goes on from there"


class CallMark:
    """Marks that a call begins, in each of its attempts.

    An attempt that ends because the tool asks a person is no crash, and is marked as left.

    Args:
        step: The call's step.
        asked: The call.
        if_unknown: "tell" or "ask".
        token: Ends the wait for a person.
    """

    def __init__(
        self, step: NumberedStep, asked: AskedCall, if_unknown: IfUnknown, token: CancellationToken | None
    ) -> None:
        self._step = step
        self._asked = asked
        self._if_unknown = if_unknown
        self._token = token
        self._mine = secrets.token_hex(8)

    async def mark(self) -> None:
        """Mark the beginning; returns when the call may be made.

        Raises:
            CallRefusedError: A crash cut it off, and the model is to be told.
            ToolEndedError: A person has decided that the turn fails (a RuntimeError).
        """
        number = 0
        # A worker dies after the bank has booked a transfer and before its result is recorded; the next worker finds the
        # dead one's mark here in place of its own. Without looking, it would book the transfer a second time.
        # guard: a call that a crash cut off is not made again unasked
        while (begun := await self._recorded(self._named("begun", number), self._mine)) != self._mine:
            if await self._recorded(f"{LEFT}:{begun}", CUT_OFF) == CUT_OFF:
                await self._decide(number)
            number += 1

    async def leave(self) -> None:
        """The attempt ends because the tool has asked a person: it is not cut off."""
        await self._recorded(f"{LEFT}:{self._mine}", LEFT)

    async def _decide(self, number: int) -> None:
        if self._if_unknown == "tell":
            raise CallRefusedError(self._asked.name, UNKNOWN)
        question = Question(
            text=f"{self._asked.name} was called, and a crash left it unknown whether it did its work. What now?",
            name=f"{self._step.full_name}:{self._named('unknown', number)}",
            choices=(AGAIN, TELL, FAIL),
            details={"kind": KIND, "tool": self._asked.name, "arguments": dict(self._asked.arguments or {})},
        )
        said = await ask_person(question, self._step.context, self._token)
        if said == TELL:
            raise CallRefusedError(self._asked.name, UNKNOWN)
        if said == FAIL:
            raise ToolEndedError(self._asked.name, GIVEN_UP)

    async def _recorded(self, name: str, value: str) -> str:
        return await self._step.context.once(f"{self._step.full_name}:{name}", _unchanged, value)

    def _named(self, name: str, number: int) -> str:
        return f"{name}:{number}" if number else name


async def _unchanged(value: T) -> T:
    return value


CONCURRENCY: Final = 16
DIGITS: Final = 32  # of a call's hash


@dataclass(frozen=True, slots=True)
class ToolEvent:
    """Something that happened to one call.

    Attributes:
        kind: "started"; "yielded", of a tool that yields on the way; "ended".
        call: The call.
        item: What it yielded.
        result: How it ended, images included; None before.
    """

    kind: Literal["started", "yielded", "ended"]
    call: FunctionCall
    item: Any = None
    result: ToolResult | None = None


OnToolEvent: TypeAlias = Callable[[ToolEvent], Awaitable[None]]


async def run_tools(
    calls: Sequence[FunctionCall],
    workbench: Workbench,
    ctx: MessageContext | None = None,
    *,
    runtime: AgentRuntime | None = None,
    cancellation_token: CancellationToken | None = None,
    timeout: float | None = None,
    concurrency: int = CONCURRENCY,
    limits: ResultLimits = DEFAULT_LIMITS,
    if_unknown: Mapping[str, IfUnknown] | None = None,
    needs_approval: Mapping[str, NeedsApproval] | None = None,
    on_event: OnToolEvent | None = None,
) -> list[FunctionExecutionResult]:
    """Run the calls that a model asked for.

    Inside a handler the result of each call is recorded before it is used, as by `ctx.once`: when the message is handled
    again, in this process or another, a call whose result was recorded is not made again. A call is known by its id, its
    tool and its arguments, and by its number among equal ones of the handler, so that models which give the same id to
    every call are fine. The same call twice in one answer (equal in id, tool and arguments) is made once.

    A call that a crash cut off before its result was recorded is made again. A tool for which that would be wrong takes a
    parameter ``idempotency_key: str``, which is the same then, and hands it on; or the model is told, see `if_unknown`.
    A call that needs a person's approval waits for it, see `NeedsApproval`; the others don't wait for that one, and are
    not made again when the answer comes.

    The context that tools get is one of their call: steps of `ctx.once` of two calls don't meet.

    Args:
        calls: The calls, as they came from the model.
        workbench: Has the tools.
        ctx: The context of the message that is handled. None: that of the handler that is running; outside of handlers
            nothing is recorded.
        runtime: The runtime by which tools in other processes are reached, unless their workbench has its own.
        cancellation_token: Ends the calls when it is cancelled; None: that of the context.
        timeout: Seconds until a call is given up, besides the limits of the workbench and its tools; None: no limit.
        concurrency: The most calls at a time.
        limits: How large a result may be, besides the limits of the workbench.
        if_unknown: By tool, what to do when its outcome is unknown after a crash, see `IfUnknown`; the default is "retry".
            "tell" and "ask" cost one more record for each call of the tool.
        needs_approval: By tool, which of its calls a person has to allow before they are made, see `NeedsApproval`; for
            others it is as the tool itself says.
        on_event: Awaited as things happen, those of different calls in any order. Calls whose results were recorded
            start and end as well. Its errors are raised.

    Returns:
        A result for each call, in the order of the calls, for a FunctionExecutionResultMessage. Broken JSON, a tool that
        does not exist, arguments that don't fit, errors and timeouts are results with `is_error`. Images are described;
        they are in the events.

    Raises:
        CannotAskError: A call has to be allowed, and nobody can be asked (a RuntimeError).
        asyncio.CancelledError: The token, or the caller, was cancelled. All calls have ended then.
        FencedError: This worker has lost the message that it handles; another one has it.
        ServerUnavailableError: The server of the bus was lost.
    """
    found = ctx or running_context()
    token = cancellation_token or (None if found is None else found.cancellation_token)
    answer = _Answer(
        workbench, found, runtime, token, timeout, limits, if_unknown or {}, needs_approval or {}, on_event
    )
    return await answer.run(calls, _Room(concurrency))


class _Room(asyncio.Semaphore):
    """So many calls at a time; none when the handler has ended to wait for an answer."""

    is_over = False


@dataclass(frozen=True, slots=True)
class _Answer:
    """The calls of one answer, and all that they are run with."""

    workbench: Workbench
    context: MessageContext | None
    runtime: AgentRuntime | None
    token: CancellationToken | None
    timeout: float | None
    limits: ResultLimits
    if_unknown: Mapping[str, IfUnknown]
    needs_approval: Mapping[str, NeedsApproval]
    on_event: OnToolEvent | None

    async def run(self, calls: Sequence[FunctionCall], room: _Room) -> list[FunctionExecutionResult]:
        keys = [_key(call, number) for number, call in enumerate(calls)]
        works: dict[object, Coroutine[Any, Any, ToolResult]] = {}
        for key, call in zip(keys, calls, strict=True):
            if key not in works:
                # Begun before anything is awaited: equal steps are numbered in the order of the calls, in every attempt.
                works[key] = self._one(call, self._step(call), room)
        results = dict(zip(works, await together(works.values()), strict=True))
        return [results[key].for_model(call) for key, call in zip(keys, calls, strict=True)]

    def _step(self, call: FunctionCall) -> NumberedStep | None:
        what = json.dumps([call.id, call.name, call.arguments]).encode()
        return NumberedStep.begin(f"tool:{hashlib.sha256(what).hexdigest()[:DIGITS]}", self.context)

    async def _one(self, call: FunctionCall, step: NumberedStep | None, room: _Room) -> ToolResult:
        async with room:
            # A call that asks a person ends the handler and frees its place. One that waited for a place and began then
            # would be cut off at once, and made a second time in the attempt that the person's answer starts.
            # guard: no call begins where the handler has ended to wait for an answer
            if room.is_over:
                raise Suspended
            try:
                await self._tell(ToolEvent("started", call))
                result = await self._result(call, step)
                if is_taped():
                    note("tool", _described(call), result.model_dump(mode="json"))
                await self._tell(ToolEvent("ended", call, result=result))
            except Suspended:
                room.is_over = True
                raise
            return result

    async def _tell(self, event: ToolEvent) -> None:
        if self.on_event is not None:
            await self.on_event(event)

    async def _result(self, call: FunctionCall, step: NumberedStep | None) -> ToolResult:
        try:
            asked = read_call(call)
        except ToolArgumentsError as error:
            return error_result(call.name, error)
        if step is None:
            return await self._unless_refused(call, asked)
        # Used first and recorded later, a crash in between would have the tool run again after the model has answered to
        # what it returned.
        # guard: what a tool returned is recorded before the model reads it
        return await self._recorded(call, asked, step)

    async def _recorded(self, call: FunctionCall, asked: AskedCall, step: NumberedStep) -> ToolResult:
        made: list[ToolResult] = []

        async def make() -> ToolResult:
            made.append(await self._unless_refused(call, asked, step))
            return made[0]

        try:
            return await step.run(make)
        except (EncodeError, PayloadTooLargeError) as error:
            if not made:
                raise
            # Without a record the tool would be called again in every attempt.
            instead = error_result(asked.name, ToolReturnError(asked.name, f"its record failed: {error}"))
            again = self._step(call)
            return instead if again is None else await again.run(_unchanged, instead)

    async def _unless_refused(
        self, call: FunctionCall, asked: AskedCall, step: NumberedStep | None = None
    ) -> ToolResult:
        needs = self._needs_approval(asked.name)
        name = f"tool:{call.id}" if step is None else step.full_name
        try:
            if needs is not None:
                check = partial(self.workbench.check_arguments, asked.name)
                parameters = partial(self._parameters, asked.name)
                asked = await allowed(
                    asked, needs, check, parameters, f"{name}:approval", self.context, self.token
                )
        except ToolError as error:
            return error_result(asked.name, error)
        return await (self._call(call, asked) if step is None else self._unless_unknown(call, asked, step))

    async def _parameters(self, tool: str) -> Mapping[str, Any]:
        schemas = await self.workbench.list_tools()
        return next((dict(one.get("parameters", {})) for one in schemas if one["name"] == tool), {})

    def _needs_approval(self, tool: str) -> NeedsApproval | None:
        """None: nothing is said about it."""
        given = self.needs_approval.get(tool)
        return given if given is not None else self.workbench.approval_of(tool) or None

    async def _unless_unknown(self, call: FunctionCall, asked: AskedCall, step: NumberedStep) -> ToolResult:
        unknown = self.if_unknown.get(asked.name, "retry")
        if unknown not in NOT_AGAIN:
            return await self._call(call, asked, step)
        beginning = CallMark(step, asked, unknown, self.token)
        try:
            await beginning.mark()
        except CallRefusedError as error:
            return error_result(asked.name, error)
        try:
            return await self._call(call, asked, step)
        except Suspended:
            await beginning.leave()
            raise

    async def _call(
        self, call: FunctionCall, asked: AskedCall, step: NumberedStep | None = None
    ) -> ToolResult:
        if is_played():
            return ToolResult.model_validate(played("tool", _described(call)))
        context = self.context if step is None else context_inside(step.context, step.full_name)
        key = None if step is None else step.context.idempotency_key(step.full_name)
        runtime = self.runtime or current_tool_context().runtime
        may = "" if self._needs_approval(asked.name) is None else asked.name
        with tool_context(context, runtime=runtime, idempotency_key=key, allowed=may), taping(None):
            begun = time.monotonic()
            try:
                work = partial(self._work, call, asked)
                result = await run_limited(asked.name, work, self.token, self.timeout)
            except ToolError as error:
                result = error_result(asked.name, error)
            emit(ToolCalled, asked.name, "error" if result.is_error else "ok", time.monotonic() - begun)
            return result

    async def _work(self, call: FunctionCall, asked: AskedCall, token: CancellationToken) -> ToolResult:
        result: ToolResult | None = None
        async with aclosing(self._items(asked, token)) as items:
            async for item in items:
                if isinstance(item, ToolResult):
                    result = item
                else:
                    await self._tell(ToolEvent("yielded", call, item))
        if result is None:
            raise ToolEndedError(asked.name, "its workbench gave none")
        return self.limits.within(result)

    async def _items(self, asked: AskedCall, token: CancellationToken) -> AsyncGenerator[Any, None]:
        """Items from the workbench; an error of it becomes a result. Workbenches of users may raise anything."""
        given = (asked.name, asked.arguments, token, asked.call_id)
        try:
            if self.on_event is None or not isinstance(self.workbench, StreamWorkbench):
                yield await self.workbench.call_tool(*given)
                return
            async with aclosing(self.workbench.call_tool_stream(*given)) as items:
                async for item in items:
                    yield item
        except PASSED_ON:
            raise
        except Exception as error:  # noqa: BLE001 - the model is told of any error
            yield failed_result(asked.name, error)


def _key(call: FunctionCall, number: int) -> object:
    """Equal for what is the same call twice; calls without an id are all different."""
    return (call.id, call.name, call.arguments) if call.id else number


def _described(call: FunctionCall) -> dict[str, Any]:
    """A call as a tape has it."""
    return {"id": call.id, "name": call.name, "arguments": call.arguments}
