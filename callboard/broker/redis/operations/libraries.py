"""What other versions of Callboard left on a server that serves all its namespaces."""

from __future__ import annotations

from callboard.broker.errors import CommandError
from callboard.broker.redis import libraries
from callboard.broker.redis.client.transport import RedisTransport


async def old_libraries(transport: RedisTransport) -> tuple[str, ...]:
    """The names of the function libraries of other versions; () where the server has no functions to list.

    Raises:
        ServerUnavailableError, ConnectionLostError: the server can't be reached.
        CommandError: the user may not list functions.
    """
    if transport.endpoint.scheme == "memory":
        return ()
    return libraries.others(await transport.admin.command(*libraries.LIST))


async def delete_old_libraries(transport: RedisTransport) -> tuple[str, ...]:
    """Deletes them, and returns their names.

    A process of another version that is still running loads its library again with its next call. Only a publisher
    whose user may not load functions waits until a worker of its version has made a call, which each does every few
    seconds.

    Raises:
        ServerUnavailableError, ConnectionLostError: the server can't be reached.
        CommandError: the user may not list or delete functions.
    """
    names = await old_libraries(transport)
    for name in names:
        try:
            await transport.admin.command(*libraries.deletion(name))
        except CommandError as error:
            if "not found" not in str(error):  # somebody else deleted it
                raise
    return names
