"""A server that loses a tail: what a namespace held some calls ago comes back, and what was done since is gone.

This is what clients see of a replica that was behind and took over, and of a file whose end was not synced. A call of a
function is in such a file as a whole or not at all, so what comes back is always the namespace between two calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

KEEP = """
local kept = {}
for _, name in ipairs(redis.call('KEYS', ARGV[1])) do
  kept[#kept + 1] = name
  kept[#kept + 1] = math.max(0, redis.call('PTTL', name))
  kept[#kept + 1] = redis.call('DUMP', name)
end
return kept
"""
NUMBERS = """
local numbers = {}
for _, name in ipairs(redis.call('KEYS', ARGV[2])) do numbers[name] = redis.call('HGET', name, 'call') end
"""
NUMBERS_AGAIN = """
for name, number in pairs(numbers) do
  if redis.call('EXISTS', name) == 1 then redis.call('HSET', name, 'call', number) end
end
"""
PUT_BACK = """
for _, name in ipairs(redis.call('KEYS', ARGV[1])) do redis.call('DEL', name) end
for i = 3, #ARGV, 3 do redis.call('RESTORE', ARGV[i], ARGV[i + 1], ARGV[i + 2]) end
"""


def keeping(prefix: str) -> tuple[Any, ...]:
    """A command whose answer is all that a namespace holds."""
    return ("EVAL", KEEP, 0, _pattern(prefix))


def putting_back(prefix: str, kept: list[Any], *, but_calls: bool = False) -> tuple[Any, ...]:
    """A command that makes the namespace what it was when that was answered.

    Args:
        prefix: of the namespace.
        kept: what was answered.
        but_calls: the server still knows the last call of each worker.
    """
    script = NUMBERS + PUT_BACK + NUMBERS_AGAIN if but_calls else PUT_BACK
    return ("EVAL", script, 0, _pattern(prefix), _pattern(f"{prefix}worker:"), *kept)


def _pattern(prefix: str) -> str:
    return prefix.replace("{", "[{]") + "*"


class Tail:
    """A tail that is going to be lost.

    Args:
        command: runs a command.
        prefix: of the namespace.
    """

    def __init__(self, command: Callable[..., Awaitable[Any]], prefix: str) -> None:
        self._command = command
        self._prefix = prefix
        self._kept: list[Any] = []

    async def begins(self) -> None:
        """What happens from here on will be lost."""
        self._kept = await self._command(*keeping(self._prefix))

    async def is_lost(self, *, but_calls: bool = False) -> None:
        """The server has forgotten it; `but_calls`: not the numbers of the workers' calls, so that none begins anew."""
        await self._command(*putting_back(self._prefix, self._kept, but_calls=but_calls))
