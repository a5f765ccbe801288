"""Contents of a server: its namespaces, the library of this version, and those that other versions left."""

from __future__ import annotations

from collections.abc import AsyncIterator
from enum import StrEnum

from callboard.broker.errors import CommandError
from callboard.broker.redis import library as libraries
from callboard.broker.redis.client.connection import scan
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import Keys

MOST_PAGES = 200  # looked at
MARKS = ("config", "types", "topics")  # one of them is in every namespace that was used


async def exists(transport: RedisTransport) -> bool:
    """Whether there is anything in the transport's namespace.

    Raises:
        CommandError: the user may not look for keys.
    """
    names = [transport.keys.of(suffix) for suffix in MARKS]
    if await transport.admin.command("EXISTS", *names):
        return True
    async for _ in _names(transport, transport.keys.of("*")):
        return True
    return False


async def known(transport: RedisTransport) -> tuple[str, ...]:
    """The namespaces of the server, by name; on one with more than 200,000 keys perhaps not all of them.

    Raises:
        CommandError: the user may not look for keys.
    """
    first, last = Keys("any").of("config").split("any")
    found = [name async for name in _names(transport, f"{first}*{last}")]
    return tuple(sorted({name[len(first) : -len(last)] for name in found}))


async def _names(transport: RedisTransport, pattern: str) -> AsyncIterator[str]:
    looked_at = 0
    async for names in scan(transport.admin, "SCAN", pattern=pattern):
        for name in names:
            yield name.decode(errors="replace")
        looked_at += 1
        if looked_at == MOST_PAGES:
            return


async def old_libraries(transport: RedisTransport) -> tuple[str, ...]:
    """The names of the function libraries of other versions; () where the server has no functions to list.

    Raises:
        ServerUnavailableError, ConnectionLostError: the server can't be reached.
        CommandError: the user may not list functions.
    """
    if transport.endpoint.scheme == "memory":
        return ()
    return libraries.others(await transport.admin.command(*libraries.LIST))


class Deployed(StrEnum):
    """What `deploy` did."""

    LOADED = "loaded"
    THERE = "there"
    REPLACED = "replaced"
    """There was another text under the name of this version's library."""


async def deploy(transport: RedisTransport) -> Deployed:
    """Sees to it that the server has the library of this version, as it is here.

    Raises:
        ServerUnavailableError, ConnectionLostError: the server can't be reached.
        CommandError: the user may not list or load functions.
    """
    found = await code_on(transport)
    if found == libraries.library().text:
        return Deployed.THERE
    name, load, text = libraries.loading()
    await transport.admin.command(name, load, *(() if found is None else ("REPLACE",)), text)
    return Deployed.LOADED if found is None else Deployed.REPLACED


async def code_on(transport: RedisTransport) -> str | None:
    """The text that the server has under the name of this version's library; None where it has none.

    Raises:
        ServerUnavailableError, ConnectionLostError: the server can't be reached.
        CommandError: the user may not list functions.
    """
    return libraries.code_on(await transport.admin.command(*libraries.looking()))


async def delete_old_libraries(transport: RedisTransport) -> tuple[str, ...]:
    """Deletes them, and returns their names.

    A process of another version that is still running loads its library again with its next call. One whose user may not
    waits until another has loaded it.

    Raises:
        ServerUnavailableError, ConnectionLostError: the server can't be reached.
        CommandError: the user may not list or delete functions.
    """
    names = await old_libraries(transport)
    for name in names:
        try:
            await transport.admin.command(*libraries.deletion(name))
        except CommandError as error:
            if "not found" not in str(error):  # another process deleted it
                raise
    return names
