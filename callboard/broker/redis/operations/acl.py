"""The least rights on a server for the users that run workers, publish, look after a namespace, and load the functions.

Inside the Lua functions every command is checked against the rights of the user that calls them, so the lists name what
the functions run as well. See https://redis.io/docs/latest/operate/oss_and_stack/management/security/acl/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from callboard.broker.redis.catalogue import CATALOGUE
from callboard.broker.redis.keys import Keys, reply, user_in_names

Role = Literal["worker", "publisher", "operator", "deploy"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)

KEY: Final = "{key}"
"""Stands for a key of the namespace in the samples below."""

# Each command with arguments that name one key. On a key that holds a string every one of them is refused or changes
# nothing that stays, so that a user's rights can be tried where ACL DRYRUN is not allowed.
SAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "blpop": (KEY, "0.01"),
    "client|setname": ("callboard-doctor",),
    "del": (KEY,),
    "exists": (KEY,),
    "expire": (KEY, "10"),
    "fcall": ("callboard_none", "1", KEY),
    "get": (KEY,),
    "hdel": (KEY, "f"),
    "hexists": (KEY, "f"),
    "hget": (KEY, "f"),
    "hgetall": (KEY,),
    "hincrby": (KEY, "f", "1"),
    "hincrbyfloat": (KEY, "f", "1"),
    "hkeys": (KEY,),
    "hlen": (KEY,),
    "hmget": (KEY, "f"),
    "hscan": (KEY, "0"),
    "hstrlen": (KEY, "body"),
    "hset": (KEY, "f", "v"),
    "hsetnx": (KEY, "f", "v"),
    "hvals": (KEY,),
    "incr": (KEY,),
    "info": (),
    "lindex": (KEY, "0"),
    "linsert": (KEY, "BEFORE", "v", "w"),
    "llen": (KEY,),
    "lpop": (KEY,),
    "lpos": (KEY, "v"),
    "lpush": (KEY, "v"),
    "lrange": (KEY, "0", "0"),
    "lrem": (KEY, "0", "v"),
    "ltrim": (KEY, "0", "0"),
    "pexpire": (KEY, "10000"),
    "ping": (),
    "pttl": (KEY,),
    "rename": (KEY, KEY),
    "renamenx": (KEY, KEY),
    "rpush": (KEY, "v"),
    "sadd": (KEY, "v"),
    "scard": (KEY,),
    "set": (KEY, "doctor", "PX", "10000"),
    "sismember": (KEY, "v"),
    "smembers": (KEY,),
    "spop": (KEY, "1"),
    "srem": (KEY, "v"),
    "sscan": (KEY, "0"),
    "time": (),
    "unlink": (KEY,),
    "wait": ("0", "1"),
    "xack": (KEY, "g", "1-1"),
    "xadd": (KEY, "*", "f", "v"),
    "xclaim": (KEY, "g", "c", "0", "1-1"),
    "xdel": (KEY, "1-1"),
    "xgroup|create": (KEY, "g", "0"),
    "xgroup|delconsumer": (KEY, "g", "c"),
    "xgroup|destroy": (KEY, "g"),
    "xgroup|setid": (KEY, "g", "0"),
    "xinfo|consumers": (KEY, "g"),
    "xinfo|groups": (KEY,),
    "xinfo|stream": (KEY,),
    "xlen": (KEY,),
    "xpending": (KEY, "g"),
    "xrange": (KEY, "-", "+"),
    "xread": ("STREAMS", KEY, "0"),
    "xreadgroup": ("GROUP", "g", "c", "STREAMS", KEY, ">"),
    "xrevrange": (KEY, "+", "-"),
    "xsetid": (KEY, "0-1"),
    "xtrim": (KEY, "MAXLEN", "1"),
    "zadd": (KEY, "1", "m"),
    "zcard": (KEY,),
    "zcount": (KEY, "0", "1"),
    "zrange": (KEY, "0", "0"),
    "zrangebylex": (KEY, "-", "+"),
    "zrangebyscore": (KEY, "0", "1"),
    "zrem": (KEY, "m"),
    "zremrangebyscore": (KEY, "0", "1"),
    "zscan": (KEY, "0"),
    "zscore": (KEY, "m"),
}

# Only repair, looking, and renaming agent types need these.
BEYOND_RUNNING: Final = frozenset({"linsert", "lpos", "rename", "renamenx", "xinfo|consumers"})

RUNTIME: Final = tuple(name for name in SAMPLES if name not in BEYOND_RUNNING)
"""The commands that a worker runs."""

OPERATOR: Final = (
    *SAMPLES,
    *(
        "acl|dryrun",
        "acl|whoami",
        "dbsize",
        "function|list",
        "memory|usage",
        "scan",
        "type",
    ),
)
"""The commands that doctor, repair, status, tail and the handling of dead letters run.

CONFIG GET, which tells the password of the default user, is not among them, nor SLOWLOG GET, which shows what others sent.
"""

DEPLOY: Final = ("client|setname", "function|delete", "function|list", "function|load", "ping")
"""The commands of a user that loads the functions and deletes those of other versions. It has no keys."""

PUBLISHER: Final = ("client|setname", "fcall", "ping", "time", "wait")
"""The commands of a publisher that touch no key, or only the prefix that every function is given."""

PUBLISHER_ON: Final[Mapping[str, tuple[str, ...]]] = {
    **{kind.glob: tuple(kind.publisher.split()) for kind in CATALOGUE if kind.publisher},
    "blob:*:reply": ("hget", "hstrlen", "unlink"),  # a large reply is fetched, and taken away
}
"""Commands of a publisher on the Redis keys of each pattern. One that a function runs more goes into the catalogue."""


def user_of(role: Role) -> str:
    """The user that `callboard acl` makes for a role unless it is told another name."""
    return f"callboard-{role}"


def rules(role: Role, namespace: str, user: str | None = None) -> tuple[str, ...]:
    """The rules of ACL SETUSER for a role, to come after `reset on >password`.

    Functions run with the rights of each user who calls them, and there is one set of them for all namespaces: so a user who
    may load them, and replace one, has the rights of all others. Only the role "deploy" may, and it has no keys.

    A publisher may not declare what is not declared yet. So a worker has to be there before the first publisher of a new
    version. It has a selector for each group of keys with the commands that publishing runs on them, so that any function
    but those of a publisher is refused before it has written anything.

    Args:
        role: "worker" runs agents, "publisher" publishes and asks, "operator" looks, repairs and replays, "deploy" loads
            functions.
        namespace: to which it is confined; "deploy" is of the whole server.
        user: whom the rules are for, as it logs in: a publisher reads replies to its own user only. None: `user_of(role)`.

    Raises:
        SettingsError: the namespace is not valid.
    """
    of = Keys(namespace).of
    first = ("resetchannels", "-@all")
    if role == "deploy":
        return (*first, *(f"+{name}" for name in DEPLOY))
    if role != "publisher":
        names = OPERATOR if role == "operator" else RUNTIME
        return (*first, f"~{of('*')}", *(f"+{name}" for name in names))
    own = reply(f"{user_in_names(user or user_of(role))}:*")
    patterns: dict[tuple[str, ...], list[str]] = {}
    for pattern, commands in PUBLISHER_ON.items():
        patterns.setdefault(commands, []).append(of(own if pattern == reply("*") else pattern))
    selectors = (
        f"({' '.join((*(f'+{name}' for name in commands), *(f'~{each}' for each in on)))})"
        for commands, on in patterns.items()
    )
    return (*first, f"~{of('')}", *(f"+{name}" for name in PUBLISHER), *selectors)
