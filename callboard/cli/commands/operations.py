"""`callboard pause`, `resume`, `reset`, `acl`, `deploy`: orders to agents and topics, rights of users, the functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from callboard.cli.exits import CommandFailed, bad_use
from callboard.cli.options import AsJson, Namespace, Url, split_names
from callboard.cli.output import print_json, say, say_paused, say_resumed
from callboard.cli.sessions import check_topic, check_type, control_of, on_server, operator, run
from callboard.foundation.texts import shell_line

if TYPE_CHECKING:
    from callboard.broker import AgentId


Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MODULE:APP] [TYPE | TYPE/KEY]...",
        help="The app, for its namespace; then agent types, or single agents.",
    ),
]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC", help="A topic; may be given again.")
]


def pause(
    names: Names = None,
    topic: Topics = None,
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="Interrupt what runs as well; it begins again after `resume`. Not for topics."
        ),
    ] = False,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Pause agent types, single agents, or topics.

    Running handlers finish; with --now they are interrupted, nothing of them is committed, and they begin again later, where
    results that `ctx.once` recorded are not made again. Messages are kept, and handled in their order after `callboard
    resume`. It holds for every worker, also for those that start later. `callboard status` shows what is paused.

      callboard pause counting:app counter
      callboard pause counting:app counter/ada --topic visits
      callboard pause --namespace counting counter --now

    Exit codes: 0 paused, 2 wrong use, or one of them does not exist: then nothing is paused; 3 no server.
    """
    if now and topic:
        bad_use("--now is for agents: give it without --topic")
    target, agents, topics = _paused_or_resumed(names, topic)

    async def work() -> dict[str, bool]:
        async with operator(target, url, namespace) as transport:
            for name in agents:  # before anything is paused
                await check_type(transport, name.partition("/")[0])
            for name in topics:
                await check_topic(transport, name)
            control = control_of(transport)
            changed = {name: await control.pause(_agent(name), now=now) for name in agents}
            return changed | {f"topic {name}": await control.pause_topic(name) for name in topics}

    _say_each(run(work()), say_paused, as_json)


def resume(
    names: Names = None,
    topic: Topics = None,
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Resume agent types, agents or topics that were paused.

    The messages that were kept meanwhile are handled in their order.

      callboard resume counting:app counter
      callboard resume counting:app counter/ada --topic visits
    """
    target, agents, topics = _paused_or_resumed(names, topic)

    async def work() -> dict[str, bool]:
        changed: dict[str, bool] = {}
        async with operator(target, url, namespace) as transport:
            control = control_of(transport)
            for name in agents:
                changed[name] = await control.resume(_agent(name))
                if not changed[name]:  # what was paused may be declared no more, and goes on all the same
                    await check_type(transport, name.partition("/")[0])
            for name in topics:
                changed[f"topic {name}"] = resumed = await control.resume_topic(name)
                if not resumed:
                    await check_topic(transport, name)
        return changed

    _say_each(run(work()), say_resumed, as_json)


def _say_each(changed: dict[str, bool], say_one: Callable[[str, bool], None], as_json: bool) -> None:
    """What became of each that was named, as lines or as one JSON object: its name -> whether this order changed it."""
    if as_json:
        print_json(changed)
        return
    for name, was_changed in changed.items():
        say_one(name, was_changed)


def _paused_or_resumed(
    names: list[str] | None, topics: list[str] | None
) -> tuple[str | None, list[str], list[str]]:
    """The app that an order names, the agents and the topics."""
    target, agents = split_names(names or [])
    if not agents and not topics:
        bad_use("say what: an agent type, an agent as TYPE/KEY, or --topic TOPIC")
    return target, agents, topics or []


def _agent(name: str) -> AgentId | str:
    from callboard.broker import AgentId

    return AgentId.from_str(name) if "/" in name else name


def reset(
    names: Annotated[
        list[str],
        typer.Argument(metavar="[MODULE:APP] TYPE/KEY...", help="The app, for its namespace; then agents."),
    ],
    url: Url = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> None:
    """Give agents their default state again. It goes before anything that is queued for them.

    A message that is being handled is finished first; queued messages stay and are handled afterwards. Exit codes: 0 all
    will be reset, 1 one of them has a reset waiting, 2 wrong use or no such agent type, 3 no server.

      callboard reset counting:app counter/ada
      callboard reset --namespace counting counter/ada counter/bob
    """
    from callboard.broker import AgentId

    target, agents = split_names(names)
    if not agents or any("/" not in name for name in agents):
        bad_use("say which agents, as TYPE/KEY")

    async def work() -> list[str]:
        async with operator(target, url, namespace) as transport:
            for name in agents:
                await check_type(transport, name.partition("/")[0])
            control = control_of(transport)
            return [name for name in agents if not await control.reset(AgentId.from_str(name))]

    refused = run(work())
    if as_json:
        print_json({name: name not in refused for name in agents})
    for name in agents:
        if name not in refused and not as_json:
            say(f"{name} will be reset")
    if refused:
        raise CommandFailed(f"a reset waits already: {', '.join(refused)}")


def acl(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="worker, publisher, operator or deploy.")],
    namespace: Namespace = None,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The user: one for each program that asks. Default: callboard-ROLE."
        ),
    ] = None,
    as_file: Annotated[
        bool, typer.Option("--file", help="As a line of the server's `aclfile`, else as a command.")
    ] = False,
) -> None:
    """Print rules that confine a user to a namespace.

    A worker runs agents, a publisher publishes and asks, an operator looks, repairs and replays dead letters. None
    of them may load functions, which are of all namespaces: `callboard deploy` does, as a user of the role deploy.
    Put a password in place of PASSWORD. A publisher gets the replies to its own user only.

      callboard acl worker --namespace shop
      callboard acl publisher --namespace shop --file >> /etc/redis/users.acl
      callboard acl deploy
    """
    from callboard.broker.redis.operations.acl import ROLES, Role, rules, user_of
    from callboard.cli.sessions import namespace_of
    from callboard.errors import did_you_mean

    known: dict[str, Role] = {name: name for name in ROLES}
    if role not in known:
        bad_use(f"there is no role {role!r}. {did_you_mean(role, known)}")
    words = [
        "reset",
        "on",
        ">PASSWORD",
        *rules(known[role], namespace_of(None, namespace), user),
    ]
    name = user or user_of(known[role])
    if as_file:
        say(f"user {name} {' '.join(words)}")
    else:
        say(shell_line("ACL", "SETUSER", name, *words))


def deploy(url: Url = None, as_json: AsJson = False) -> None:
    """Load the functions of this version, where workers may not.

    They are of all namespaces of a server. It is needed where workers log in as users of `callboard acl worker`: once
    before the first process of each version starts, and after FUNCTION FLUSH or on an empty server. What other versions
    run stays. Functions that were put in the place of this version's are replaced.

      callboard deploy --url redis://callboard-deploy:PASSWORD@10.0.0.5:6379

    Exit codes: 0 they are there, 1 the user may not load them, or there is no room, 2 wrong use, 3 no server.
    """
    from callboard.broker.redis.library import library
    from callboard.broker.redis.operations import namespaces

    async def work() -> namespaces.Deployed:
        async with on_server(None, url, None) as transport:
            return await namespaces.deploy(transport)

    done = run(work())
    if as_json:
        print_json({"library": library().name, "done": str(done)})
    else:
        say(f"{done:<8} {library().name}")
