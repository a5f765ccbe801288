"""`callboard ask`: a request and its reply."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from callboard.cli.exits import FAILED, CommandFailed, bad_use
from callboard.cli.messages import MessageForm
from callboard.cli.options import AsJson, Fields, Namespace, Target, Url, check_types
from callboard.cli.output import plain, print_json, say, to_json
from callboard.cli.sessions import publisher, run


def ask(
    target: Target,
    recipient: Annotated[str, typer.Argument(metavar="TYPE/KEY", help="The agent, such as counter/default.")],
    message_type: Annotated[
        str, typer.Argument(metavar="MESSAGE", help="The message class, such as HowMany.")
    ],
    fields: Fields = None,
    data: Annotated[
        str | None, typer.Option(metavar="JSON", help="The message as JSON, instead of fields.")
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.001, help="How long to wait. Default: request_timeout, 30."),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    namespace: Namespace = None,
) -> None:
    """Ask an agent and print its reply.

      callboard ask counting:app counter/default HowMany
      callboard ask counting:app counter/default HowMany --json --timeout 2

    Exit codes: 0 a reply, 1 the handler failed, 2 wrong use, 3 no server, 4 no reply in time.
    """
    from callboard.broker import AgentId
    from callboard.process.loading import load_app

    if data is not None and fields:
        bad_use("give the fields or --data, not both")
    app = load_app(target)
    agent_id = AgentId.from_str(recipient if "/" in recipient else f"{recipient}/default")
    check_types(app, [agent_id.type])

    async def work() -> Any:
        async with publisher(app, url, namespace) as runtime:
            form = MessageForm(runtime.registry, message_type)
            message = form.from_json(data) if data is not None else form.from_fields(fields or [])
            return await _reply(runtime.send_message(message, agent_id, timeout=timeout), recipient)

    reply = run(work())
    if as_json:
        print_json(reply, indent=None)
    else:
        say(shown(reply))


async def _reply(asking: Any, recipient: str) -> Any:
    from callboard.broker.errors import BrokerError, RemoteError
    from callboard.errors import ActorError

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
