"""A connection for a thread, one command at a time; and a restarted server's file, which it has written anew.

redis-py has such connections, and is installed. Importing it costs every worker 9 MB and 0.12 s of processor time, though,
where all that is needed is `BlockingWire`: greeting, packing and error texts are those of `wire`.

A server that is killed, or loses power, in the middle of a write leaves half a transaction at the end of its file. Redis
(seen with 7.0.15; Valkey has mended it, https://github.com/valkey-io/valkey/pull/4342) cuts the torn command off and leaves
the others of the transaction behind their MULTI, without EXEC. It does not carry them out. But what is written from then on
stands behind that MULTI, so that the next start carries them out, too: a commit that was made again meanwhile counts twice.
A file that is written anew has no torn command, so `renew_file` asks a server for it that was started again.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import hiredis

from callboard.broker.errors import BrokerError, CommandError, ConnectionLostError, layout_error
from callboard.broker.redis.keys import Keys
from callboard.broker.redis.library import is_missing, library, loading, refused_loading

from .endpoint import Argument, Endpoint, Watched
from .sentinels import ROLE, PrimarySearch, check_role
from .wire import pack, says_demoted, translate

logger = logging.getLogger("callboard.broker")


class BlockingConnection(Protocol):
    """One connection, used by one thread at a time."""

    @property
    def endpoint(self) -> Endpoint:
        """Where it leads: never to sentinels."""
        ...

    def call(self, arguments: Sequence[Argument]) -> Any:
        """The answer to one command; nothing is tried again.

        Raises:
            ConnectionLostError: there is none, or not in time; the connection is of no use any more.
            CommandError, OverloadedError, ServerUnavailableError: the server refused the command. The last of them may
                mean that it is the primary no more: then the connection is closed.
            EncodeError: it can't be written.
        """
        ...

    def close(self) -> None:
        """Ends it; safe to repeat."""
        ...


def connect(endpoint: Endpoint, timeout: float, name: str) -> BlockingConnection:
    """Connects, logs in and names the connection (seen in CLIENT LIST).

    Args:
        endpoint: the server, also one of memory://.
        timeout: seconds that connecting, and then each answer, may take.
        name: of the connection.

    Raises:
        ConnectionLostError: it can't be reached.
        ServerUnavailableError: its sentinels do not say where it is, or name one that is no primary.
        BrokerError: the login is refused.
    """
    if endpoint.scheme == "memory":
        from .memory import BlockingMemory

        return BlockingMemory(endpoint)
    if endpoint.watched is None:
        return BlockingWire(endpoint, timeout, name)
    primary = _located(endpoint, endpoint.watched, timeout)
    wire = BlockingWire(primary, timeout, name)
    try:
        check_role(primary, wire.call(ROLE))
    except CommandError:
        return wire  # its user may not ask; a replica says so with the first call
    except BrokerError:
        wire.close()
        raise
    return wire


def _located(endpoint: Endpoint, watched: Watched, timeout: float) -> Endpoint:
    """As `primary_watch.locate`."""
    search = PrimarySearch(endpoint, watched, timeout)
    for sentinel in search.sentinels():
        try:
            search.heard(sentinel, _asked(sentinel, search))
        except BrokerError as error:
            search.failed(sentinel, error)
    return search.primary()


def _asked(sentinel: Endpoint, search: PrimarySearch) -> Any:
    wire = BlockingWire(sentinel, search.patience, "callboard-asks")
    try:
        return wire.call(search.question)
    finally:
        wire.close()


def run(connection: BlockingConnection, keys: Keys, function: str, arguments: Sequence[Argument]) -> Any:
    """Calls one of the Lua functions, which are loaded first where the server does not have them."""
    command = ("FCALL", library().function(function), 1, keys.prefix, *arguments)
    try:
        return connection.call(command)
    except CommandError as error:
        if not is_missing(error):
            raise layout_error(str(error), keys.namespace) or error from None
    try:
        connection.call(loading())
    except CommandError as error:
        if (refused := refused_loading(error)) is not None:
            raise refused from None
    return connection.call(command)


# To a server over a socket


class BlockingWire:
    """A connection to a server, over TCP, TLS or a Unix socket; see `connect`."""

    def __init__(self, endpoint: Endpoint, timeout: float, name: str = "callboard") -> None:
        self.endpoint = endpoint
        self._reader = hiredis.Reader()
        try:
            self._socket = _open(endpoint, timeout)
        except (OSError, UnicodeError) as error:
            raise ConnectionLostError(endpoint.shown, str(error)) from error
        try:
            for command in endpoint.greeting(name):
                self.call(command)
        except BrokerError:
            self.close()
            raise

    def call(self, arguments: Sequence[Argument]) -> Any:
        """See `BlockingConnection`."""
        try:
            self._socket.sendall(pack(arguments))
            while (answer := self._reader.gets()) is False:
                data = self._socket.recv(65536)
                if not data:
                    raise ConnectionLostError(self.endpoint.shown, "the server closed the connection")
                self._reader.feed(data)
        except (OSError, hiredis.ProtocolError) as error:
            # A timeout is an OSError too. Its answer may still come, and the next call would take it for its own: hence
            # "of no use any more", and callers close the connection.
            raise ConnectionLostError(self.endpoint.shown, str(error)) from error
        if isinstance(answer, hiredis.ReplyError):
            if says_demoted(str(answer)):
                self.close()
            raise translate(answer, self.endpoint.shown)
        return answer

    def close(self) -> None:
        """See `BlockingConnection`."""
        self._socket.close()


def _open(endpoint: Endpoint, timeout: float) -> socket.socket:
    if not endpoint.path:
        context = endpoint.ssl_context()
        plain = socket.create_connection((_host(endpoint), endpoint.port), timeout)
        return plain if context is None else context.wrap_socket(plain, server_hostname=endpoint.host)
    plain = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        plain.settimeout(timeout)
        plain.connect(endpoint.path)
    except OSError:
        plain.close()
        raise
    return plain


def _host(endpoint: Endpoint) -> Any:
    """The host as bytes where that is enough: for text, Python loads the tables of international names, 0.5 MB that stay."""
    return endpoint.host.encode() if endpoint.host.isascii() else endpoint.host


# A restarted server's file


def renew_file(connection: BlockingConnection) -> None:
    """Asks a server to write its append-only file anew, where it has one, and has not done so since it began.

    A user who may not ask changes nothing: `callboard doctor` says so.

    Raises:
        ConnectionLostError: the connection broke.
        ServerUnavailableError: the server still reads its file.
    """
    try:
        facts = info_fields(connection.call(("INFO", "persistence")))
        under_way = facts.get("aof_rewrite_in_progress"), facts.get("aof_rewrite_scheduled")
        if is_as_it_was(facts) and under_way == ("0", "0"):
            connection.call(("BGREWRITEAOF",))
            logger.debug("the server writes its append-only file anew")
    except CommandError as error:
        logger.debug("the append-only file is not written anew: %s", error)


def is_as_it_was(facts: Mapping[str, str]) -> bool:
    """Whether a server has an append-only file that it has not written anew since it began; `facts` are its INFO.

    One that does not say how often it did so is of a kind that nothing is known of.
    """
    return facts.get("aof_enabled") == "1" and facts.get("aof_rewrites") == "0"


def info_fields(answer: bytes) -> dict[str, str]:
    """The lines `name:value` of an answer to INFO."""
    lines = (line.partition(":") for line in answer.decode(errors="replace").splitlines())
    return {name: value.strip() for name, colon, value in lines if colon}
