"""`callboard ask`: a request and its reply."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callboard.cli.exits import FAILED, INTERRUPTED, CommandFailed, bad_use
from callboard.cli.messages import MessageForm
from callboard.cli.options import AsJson, Body, Fields, Namespace, Target, Url, positive_duration
from callboard.cli.output import hint, plain, print_json, remark, say, to_json
from callboard.cli.sessions import check_types, interruptible, publisher, run
from callboard.cli.team_conversation import TeamTask, ask_team, check_is_no_team, types_of, what_if_busy

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.core.cancellation import CancellationToken
    from callboard.runtime.runtime import RedisAgentRuntime


def ask(
    target: Target,
    recipient: Annotated[
        str,
        typer.Argument(metavar="TYPE/KEY", help="The agent, such as counter/default; or the name of a team."),
    ],
    message_type: Annotated[
        str,
        typer.Argument(
            metavar="MESSAGE", help="The message class, such as HowMany; for a team, the task as a text."
        ),
    ],
    fields: Fields = None,
    body: Body = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="DURATION",
            parser=positive_duration,
            help="How long to wait. Default: request_timeout, 30 s.",
        ),
    ] = None,
    conversation: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="With a team: the conversation to go on with, or to begin. Default: a new one."
        ),
    ] = None,
    if_busy: Annotated[
        str,
        typer.Option(
            metavar="WHAT",
            help="With a team whose conversation has a run under way: reject, enqueue or interrupt.",
        ),
    ] = "reject",
    as_json: AsJson = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Ask an agent and print its reply, or give a team a task. Of a team you see the whole conversation.

      callboard ask counting:app counter/default HowMany
      callboard ask counting:app counter/default HowMany --json --timeout 2
      callboard ask research:app research "Compare the three offers" --conversation ticket-17

    Ctrl-C cancels the request, or the team's run: handlers are told to stop. A second one ends the command at once.

    Exit codes: 0 a reply, 1 the handler failed, 2 wrong use, 3 no server, 4 no reply in time, 130 interrupted.
    """
    from callboard.broker import AgentId
    from callboard.core.cancellation import CancellationToken
    from callboard.process.loader import load_app
    from callboard.process.printer import unhindered

    if body is not None and fields:
        bad_use("give the fields or --body, not both")
    app = load_app(target)
    if recipient in app.teams:
        if fields or body is not None or timeout is not None:
            bad_use(
                f"{recipient} is a team: give it a task as one text in quotes, "
                "without fields, --body and --timeout"
            )
        key = uuid.uuid4().hex[:12] if conversation is None else conversation
        asked = TeamTask(recipient, key, message_type, what_if_busy(if_busy), as_json)
        _ask_team(app, target, asked, url, namespace)
        return
    agent_id = AgentId.from_str(recipient if "/" in recipient else f"{recipient}/default")
    check_types(app, [agent_id.type])
    check_is_no_team(agent_id, message_type, app)
    if conversation is not None or if_busy != "reject":
        bad_use(f"{recipient} is no team: --conversation and --if-busy are for teams")

    async def work() -> Any:
        token = CancellationToken()
        with interruptible(_call_off(token)):
            async with publisher(app, url, namespace) as runtime:
                form = MessageForm(runtime.registry, message_type)
                message = form.from_json(body) if body is not None else form.from_fields(fields or [])
                await _say_what_is_missing(runtime, target, agent_id.type)
                asking = runtime.send_message(message, agent_id, cancellation_token=token, timeout=timeout)
                return await _reply(asking, recipient)

    with unhindered():
        reply = _run(work())
    if as_json:
        print_json(reply, indent=None)
    else:
        say(shown(reply))


def _ask_team(app: App, target: str, asked: TeamTask, url: str | None, namespace: str | None) -> None:
    from callboard.core.cancellation import CancellationToken
    from callboard.process.printer import unhindered

    async def work() -> None:
        token = CancellationToken()
        with interruptible(_call_off(token)):
            async with publisher(app, url, namespace) as runtime:
                for agent_type in types_of(app, asked.team):
                    if await _say_what_is_missing(runtime, target, agent_type):
                        break
                await ask_team(runtime, asked, token)

    with unhindered():
        _run(work())


def _call_off(token: CancellationToken) -> Callable[[], None]:
    task = asyncio.current_task()

    def call_off() -> None:
        remark("callboard: cancelling the request; once more ends at once")
        token.cancel()
        if task is not None:
            task.cancel()  # it may be connecting still

    return call_off


def _run(work: Coroutine[Any, Any, Any]) -> Any:
    try:
        return run(work)
    except asyncio.CancelledError:
        raise CommandFailed("the request was cancelled", INTERRUPTED) from None


async def _say_what_is_missing(runtime: RedisAgentRuntime, target: str, agent_type: str) -> bool:
    """Says why there may be no answer: no worker runs the type."""
    from callboard.broker.errors import CommandError
    from callboard.broker.redis.operations.inspect import has_worker

    with contextlib.suppress(CommandError):  # a publisher may not look at workers
        if not await has_worker(runtime.transport, agent_type):
            hint(
                f"no worker runs {agent_type!r} now; the request waits for one: `callboard up {target}`, "
                f"or `callboard worker {target} --type {agent_type}`"
            )
            return True
    return False


async def _reply(asking: Any, recipient: str) -> Any:
    from callboard.broker.errors import BrokerError, RemoteError
    from callboard.foundation import ActorError

    try:
        return await asking
    except RemoteError as error:
        raise CommandFailed(f"{recipient} failed: {error}", FAILED) from error
    except (BrokerError, ActorError):
        raise
    except Exception as error:
        # The handler's own error, made again here because its class is known.
        raise CommandFailed(f"{recipient} failed: {type(error).__name__}: {error}", FAILED) from error


def shown(reply: Any) -> str:
    """A reply for people: fields as `name=value`, text as it is."""
    if reply is None:
        return "(no value)"
    if isinstance(reply, str):
        return reply
    data = plain(reply)
    if not isinstance(data, dict):
        return to_json(reply)
    fields = (f"{name}={value if isinstance(value, str) else to_json(value)}" for name, value in data.items())
    return f"{type(reply).__name__} {' '.join(fields)}".strip() if data else type(reply).__name__
