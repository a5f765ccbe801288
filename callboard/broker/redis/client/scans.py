"""Reading what may be large in small answers, so that no call keeps the server from others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

from .connection import Link
from .endpoint import Argument

PAGE: Final = 1000  # members, or keys, that the server looks at in one call


async def scan(
    link: Link, *command: Argument, pattern: str = "*", of_type: str = "", page: int = PAGE
) -> AsyncIterator[list[bytes]]:
    """The pages of SCAN, HSCAN, SSCAN or ZSCAN; what is there all the time is in one of them, or in several.

    Args:
        link: to the server.
        *command: its name, and the Redis key unless it is SCAN.
        pattern: of what is looked for, as the server reads patterns.
        of_type: for SCAN: only keys of this type.
        page: how many members, or keys, the server looks at in one call.
    """
    options = ("MATCH", pattern, "COUNT", page, *(("TYPE", of_type) if of_type else ()))
    cursor: bytes | int = 0
    connection = None
    while True:
        cursor, found = await link.command(*command, cursor, *options)
        # A cursor says nothing to another server process, which has the same members in another order. Another connection
        # may lead to one: the server was started again, or a replica took over.
        # guard: a scan begins anew on another connection
        is_lost = connection not in (None, link.opened)
        connection = link.opened
        yield found
        if is_lost:
            cursor = 0
        elif int(cursor) == 0:
            return
