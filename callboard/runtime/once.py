"""What stands behind `ctx.once`: results of outside effects, recorded before they are used.

Temporal and Restate call it a journal. An effect that was made but whose result could not be recorded (the process died
in between) is made again: give it `ctx.idempotency_key(name)` where that matters.
"""

from __future__ import annotations

import asyncio
import contextlib
import typing
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgpack

from callboard.broker import MessageRegistry
from callboard.broker.delivery import Receipt
from callboard.broker.encoding.limits import Limits
from callboard.broker.errors import ClaimTooLargeError, EncodeError
from callboard.broker.redis.client.transport import RedisTransport
from callboard.errors import CannotAskError
from callboard.step_check import called
from callboard.suspension import Suspended

from .asking import Questions, steps_around

if TYPE_CHECKING:
    from callboard.questions import CheckedQuestion

T = TypeVar("T")


class Recorder:
    """The recorded results of one message at one agent.

    Args:
        transport: the connection to the server.
        registry: message classes.
        agent_type: of the agent.
        message_id: of the message.
        receipt: of the delivery that is handled: another worker may have the message by now, and then nothing is done.
        prefix: keeps the results of a nested request apart.
        run_id: the run that the message belongs to.

    Attributes:
        questions: what the handler asks; None: it has asked nothing.
        used: whether anything was recorded or looked up, so that the commit has to clear it away.
    """

    __slots__ = (
        "_agent_type",
        "_message_id",
        "_prefix",
        "_receipt",
        "_registry",
        "_run_id",
        "_running",
        "_transport",
        "_waiting",
        "questions",
        "used",
    )

    def __init__(
        self,
        transport: RedisTransport,
        registry: MessageRegistry,
        agent_type: str,
        message_id: str,
        receipt: Receipt | None = None,
        prefix: str = "",
        run_id: str | None = None,
    ) -> None:
        self._transport = transport
        self._registry = registry
        self._agent_type = agent_type
        self._message_id = message_id
        self._receipt = receipt
        self._prefix = prefix
        self._running: dict[str, asyncio.Future[Any]] = {}
        self._waiting: dict[str, int] = {}
        self._run_id = run_id
        self.questions: Questions | None = None
        self.used = False

    async def __call__(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        """The recorded result of `name`, else that of `call()`, recorded first. A failure is not recorded."""
        running = self._running.get(name)
        if running is None:
            running = self._running[name] = asyncio.ensure_future(self._run(name, call))
            running.add_done_callback(partial(self._ended, name))
        self._waiting[name] = self._waiting.get(name, 0) + 1
        try:
            # Whoever is cancelled leaves the effect to the others who wait for it.
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            if self._waiting[name] == 1:
                running.cancel()
                await asyncio.wait({running})
            raise
        finally:
            self._waiting[name] -= 1

    def _ended(self, name: str, _: asyncio.Future[Any]) -> None:
        self._running.pop(name, None)
        if self.questions is not None:
            self.questions.look()

    async def ask(self, question: CheckedQuestion[T], prefix: str = "") -> T:
        """The answer of a person, or Suspended, see asking.py; `prefix` as for the names of steps."""
        if self._receipt is None or self._prefix:
            raise CannotAskError(
                "it is a request to an agent whose handler waits, and can't wait longer than that one; "
                "let the handler that waits ask, or answer that something has to be asked"
            )
        self.used = True
        if self.questions is None:
            of = (
                self._transport,
                self._registry,
                self._agent_type,
                self._message_id,
                self._receipt,
                self._run_id or "",
            )
            self.questions = Questions(*of, self._running.keys)
        return await self.questions.ask(question, prefix)

    async def _run(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        self.used = True
        around = steps_around.get()
        steps_around.set((*around, name))
        fence = None if self._receipt is None else self._receipt.fence
        step = (fence, self._agent_type, self._message_id, self._prefix + name)
        # Asked before every effect: a worker may be paused at any time, and find at its end that another one has the
        # message, has made the same effect, and has committed.
        recorded = await self._transport.recorded(*step)
        # guard: what was recorded is not done again
        if recorded is not None:
            return self._decode(recorded, call)
        # A task that it left behind goes on until it is told: its effect could not be recorded any more.
        # guard: a handler that has ended to wait for an answer makes no effect
        if self.questions is not None and self.questions.is_over:
            raise Suspended
        try:
            result = await called(name, call)
        except (Suspended, BaseExceptionGroup):
            await self._rest_if_cut_off(name, not around)
            raise
        await self._rest_if_cut_off(name, not around)
        data = self._encode(result)
        # guard: an effect is recorded before it is used
        kept = await self._transport.record(*step, data)
        return result if kept == data else self._decode(kept, call)

    async def _rest_if_cut_off(self, name: str, is_outermost: bool) -> None:
        """Raises Suspended if a question has ended the step, however its function took that."""
        if self.questions is None or name not in self.questions.cut_off:
            return
        if is_outermost:
            await self.questions.rest(name)
        # guard: what a question cut off is not recorded
        raise Suspended

    def _encode(self, result: Any) -> bytes:
        entry = self._registry.entry_for(result)
        limits = self._limits()
        body = entry.encode(result, limits)
        # Kept all the same, it would make a dead letter of the message in its next attempt, which can't read it.
        # guard: what no attempt could read is not recorded
        if len(body) > limits.max_bytes:
            raise ClaimTooLargeError(len(body), limits.max_bytes)
        packed: bytes = msgpack.packb([entry.name, entry.version, body])
        return packed

    def _decode(self, data: bytes, call: Callable[[], Awaitable[Any]]) -> Any:
        name, version, body = msgpack.unpackb(data)
        if not self._registry.is_known(name):
            # Another process recorded it, and no message of this one has brought the class along yet.
            for cls in _result_classes(call):
                with contextlib.suppress(EncodeError):  # a class that is no message is not the one
                    self._registry.register(cls)
        return self._registry.decode(name, version, body, self._limits())

    def _limits(self) -> Limits:
        # A record lies beside its stream, as what is sent by claim check does.
        return Limits.of_claims(self._transport.settings)


def _result_classes(call: Callable[[], Awaitable[Any]]) -> Iterator[type[Any]]:
    """The classes that the return annotation of a function, or of what a partial calls, names."""
    function = call.func if isinstance(call, partial) else call
    try:
        hints = typing.get_type_hints(function)
    except (NameError, TypeError):
        return  # annotations that can't be read say nothing; then the class has to be registered
    waiting = [hints.get("return")]
    while waiting:
        found = waiting.pop()
        waiting += typing.get_args(found)
        if isinstance(found, type):
            yield found
