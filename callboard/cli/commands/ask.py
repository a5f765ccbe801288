"""`callboard ask`: a request and its reply."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from callboard.cli.exits import FAILED, INTERRUPTED, CommandFailed, bad_use
from callboard.cli.messages import MessageForm
from callboard.cli.options import AsJson, Body, Fields, Namespace, Target, Url, positive_duration
from callboard.cli.output import hint, plain, print_json, remark, say, to_json
from callboard.cli.sessions import check_types, interruptible, publisher, run
from callboard.cli.team_conversation import TeamTask, ask_team, check_is_no_team, types_of, what_if_busy
from callboard.foundation.texts import shell_line

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.broker import AgentId
    from callboard.core.cancellation import CancellationToken
    from callboard.runtime.runtime import RedisAgentRuntime


Recipient = Annotated[
    str, typer.Argument(metavar="TYPE/KEY", help="The agent, such as counter/default; or the name of a team.")
]
Message = Annotated[
    str,
    typer.Argument(
        metavar="MESSAGE", help="The message class, such as HowMany; for a team, the task as a text."
    ),
]
Timeout = Annotated[
    float | None,
    typer.Option(
        metavar="DURATION",
        parser=positive_duration,
        help="How long to wait. Default: request_timeout, 30 s.",
    ),
]
Conversation = Annotated[
    str | None,
    typer.Option(
        metavar="ID", help="With a team: the conversation to go on with, or to begin. Default: a new one."
    ),
]
WhenBusy = Annotated[
    str,
    typer.Option(
        metavar="WHAT",
        help="With a team whose conversation has a run under way: reject, enqueue or interrupt.",
    ),
]


def ask(
    target: Target,
    recipient: Recipient,
    message_type: Message,
    fields: Fields = None,
    body: Body = None,
    timeout: Timeout = None,
    conversation: Conversation = None,
    if_busy: WhenBusy = "reject",
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
    from callboard.process.loader import load_app

    if body is not None and fields:
        bad_use("give the fields or --body, not both")
    app = load_app(target)
    asking = AskCommand(app, target, url, namespace)
    if recipient in app.teams:
        if fields or body is not None or timeout is not None:
            bad_use(
                f"{recipient} is a team: give it a task as one text in quotes, "
                "without fields, --body and --timeout"
            )
        key = uuid.uuid4().hex[:12] if conversation is None else conversation
        asking.team(TeamTask(recipient, key, message_type, what_if_busy(if_busy), as_json))
        return
    agent_id = _agent_of(app, recipient, message_type)
    if conversation is not None or if_busy != "reject":
        bad_use(f"{recipient} is no team: --conversation and --if-busy are for teams")

    def read(form: MessageForm) -> Any:
        return form.from_json(body) if body is not None else form.from_fields(fields or [])

    reply = asking.agent(agent_id, recipient, message_type, read, timeout)
    if as_json:
        print_json(reply, indent=None)
    else:
        say(shown(reply))


def _agent_of(app: App, recipient: str, message_type: str) -> AgentId:
    from callboard.broker import AgentId

    agent_id = AgentId.from_str(recipient if "/" in recipient else f"{recipient}/default")
    check_types(app, [agent_id.type])
    check_is_no_team(agent_id, message_type, app)
    return agent_id


@dataclass(frozen=True, slots=True)
class AskCommand:
    """Requests of this command to an app's agents and teams.

    Attributes:
        app: The app.
        target: Its name, as it was given.
        url: Of the server.
        namespace: Instead of the app's.
    """

    app: App
    target: str
    url: str | None
    namespace: str | None

    def agent(
        self,
        agent_id: AgentId,
        name: str,
        message_type: str,
        read: Callable[[MessageForm], Any],
        timeout: float | None,
    ) -> Any:
        """The reply of an agent.

        Args:
            agent_id: The agent.
            name: As it was given.
            message_type: The class of the message.
            read: Makes the message.
            timeout: Seconds; None: as the settings say.
        """

        async def work(runtime: RedisAgentRuntime, token: CancellationToken) -> Any:
            message = read(MessageForm(runtime.registry, message_type))
            await self._say_what_is_missing(runtime, agent_id.type)
            asking = runtime.send_message(message, agent_id, cancellation_token=token, timeout=timeout)
            return await _reply(asking, name)

        return self._run(work)

    def team(self, asked: TeamTask) -> None:
        """Give a team a task, and show its conversation."""

        async def work(runtime: RedisAgentRuntime, token: CancellationToken) -> None:
            for agent_type in types_of(self.app, asked.team):
                if await self._say_what_is_missing(runtime, agent_type):
                    break
            await ask_team(runtime, asked, token)

        self._run(work)

    def _run(self, work: Callable[[RedisAgentRuntime, CancellationToken], Awaitable[Any]]) -> Any:
        """Do work that the first Ctrl-C cancels and the second one ends."""
        from callboard.core.cancellation import CancellationToken
        from callboard.process.printer import unhindered

        async def cancellable() -> Any:
            token = CancellationToken()
            with interruptible(_call_off(token)):
                async with publisher(self.app, self.url, self.namespace) as runtime:
                    return await work(runtime, token)

        with unhindered():
            try:
                return run(cancellable())
            except asyncio.CancelledError:
                raise CommandFailed("the request was cancelled", INTERRUPTED) from None

    async def _say_what_is_missing(self, runtime: RedisAgentRuntime, agent_type: str) -> bool:
        """Say why there may be no answer: no worker runs the type."""
        from callboard.broker.errors import CommandError
        from callboard.broker.redis.operations.inspect import has_worker

        with contextlib.suppress(CommandError):  # a publisher may not look at workers
            if not await has_worker(runtime.transport, agent_type):
                up = shell_line("callboard", "up", self.target)
                worker = shell_line("callboard", "worker", self.target, "--type", agent_type)
                hint(f"no worker runs {agent_type!r} now; the request waits for one: `{up}`, or `{worker}`")
                return True
        return False


def _call_off(token: CancellationToken) -> Callable[[], None]:
    task = asyncio.current_task()

    def call_off() -> None:
        remark("callboard: cancelling the request; once more ends at once")
        token.cancel()
        if task is not None:
            task.cancel()  # it may be connecting still

    return call_off


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
