"""The output of a process, line by line."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

LONGEST_LINE = 16_384  # characters of output kept together as one line


@contextlib.asynccontextmanager
async def reader_of(descriptor: int) -> AsyncIterator[asyncio.StreamReader]:
    """Reads a pipe, and closes it in the end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(loop=loop)
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader, loop=loop), pipe)
    try:
        yield reader
    finally:
        transport.close()


async def lines(reader: asyncio.StreamReader) -> AsyncIterator[str]:
    """Its lines, without their ends; what is too long for one comes in parts."""
    rest = ""
    while chunk := await reader.read(65_536):
        *whole, rest = (rest + chunk.decode(errors="replace")).split("\n")
        for line in whole:
            yield line.rstrip("\r")
        if len(rest) > LONGEST_LINE:
            yield rest
            rest = ""
    if rest:
        yield rest
