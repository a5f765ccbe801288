"""Has a server that was started again write its append-only file anew.

A server that is killed, or loses power, in the middle of a write leaves half a transaction at the end of its file. Redis
(seen with 7.0.15; Valkey has mended it, https://github.com/valkey-io/valkey/pull/4342) cuts the torn command off and leaves
the others of the transaction behind their MULTI, without EXEC. It does not carry them out. But what is written from then on
stands behind that MULTI, so that the next start carries them out, too: a commit that was made again meanwhile counts twice.

A file that is written anew has nothing of it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from callboard.broker.errors import CommandError

from .blocking import BlockingConnection
from .info import info_fields

logger = logging.getLogger("callboard.broker")


def renew_file(connection: BlockingConnection) -> None:
    """Asks for it where there is such a file, and it was not written anew since the server began.

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
