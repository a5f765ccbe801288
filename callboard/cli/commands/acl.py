"""`callboard acl`: users with no more rights than they need."""

from __future__ import annotations

from typing import Annotated

import typer

from callboard.cli.exits import bad_use
from callboard.cli.options import Namespace
from callboard.cli.output import say


def acl(
    role: Annotated[str, typer.Argument(metavar="ROLE", help="worker, publisher or operator.")],
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
    """Print rules that confine a user of the server to a namespace.

    A worker runs agents, a publisher publishes and asks, an operator looks, repairs and replays dead letters.
    Put a password in place of PASSWORD. A publisher gets the replies to its own user only.

      callboard acl worker --namespace shop
      callboard acl publisher --namespace shop --file >> /etc/redis/users.acl
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
        import shlex

        say(f"ACL SETUSER {shlex.quote(name)} {' '.join(shlex.quote(word) for word in words)}")
