"""Carries out one act of the bank: everything strikes at once, and at the end the books have to be right."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from redis.exceptions import RedisError

from callboard.broker import BrokerSettings
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.processes import ROOT
from tests.helpers.servers import Kind, best_kind

from .. import clock
from ..checker import Violation
from ..fleet import Fleet
from ..proxy import Proxy
from ..runner import ActResult
from ..setting import BEAT_EVERY, LEASE
from . import books
from .accounts import app
from .mint import Coins, mint
from .vault import Vault

TARGET = "scripts.chaos_suite.bank.accounts:app"
NAMESPACE = "bank"
WORKERS = 3
EVERY = 0.15  # seconds between two coins of one hand
RESTS_WITHIN = 60.0  # seconds until every coin has to be where it stays
TAIL = (0.2, 1.5)  # seconds of data that are lost

Strike = Callable[[], Awaitable[None]]


class Bank:
    """One act's place.

    Args:
        folder: for logs; it exists.
        seed: what the faults are drawn from.
        kind: which server.
        forgets: the server also loses tails; else it keeps what it acknowledged.
    """

    def __init__(self, folder: Path, seed: int, kind: Kind | None, *, forgets: bool) -> None:
        self._folder = folder
        self._chance = random.Random(f"{seed} bank {forgets}")
        self._forgets = forgets
        self.vault = Vault(kind or best_kind(), "everysec" if forgets else "always")
        environ = {
            "CALLBOARD_LEASE": f"{LEASE:g}",
            "CALLBOARD_BEAT_EVERY": f"{BEAT_EVERY * LEASE:g}",
            "CALLBOARD_DRAIN_GRACE": "5",
            "CALLBOARD_RETRY_BASE": "0.05",
            "PYTHONPATH": str(ROOT),
            **clock.environment(),
        }
        self.fleet = Fleet(NAMESPACE, environ, self._route, TARGET)
        self.coins = Coins()
        self.struck: Counter[str] = Counter()
        self._problems: list[str] = []
        self._stopping = False

    async def _route(self) -> tuple[str, Proxy | None]:
        return self.vault.url, None

    async def open(self) -> None:
        await self.vault.open()
        settings = BrokerSettings(namespace=NAMESPACE)
        self._runtime = RedisAgentRuntime.from_app(
            app, self.vault.url, namespace=NAMESPACE, settings=settings, types=()
        )
        await self._runtime.open()
        await self.fleet.grow(WORKERS)

    async def trade(self, seconds: float) -> None:
        """Coins and faults for so long."""
        ends = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(mint(self._runtime, self.coins, EVERY, ends))
            faults = [
                group.create_task(self._strike(self._on_workers(), (0.5, 1.5))),
                group.create_task(self._strike(self._on_servers(), (1.0, 5.0))),
            ]
            await asyncio.sleep(seconds)
            self._stopping = True
            await asyncio.gather(*faults)
            ends.set()

    async def _strike(self, faults: dict[str, Strike], pause: tuple[float, float]) -> None:
        """One fault after the other. One that does not end well is a problem, and the next one strikes."""
        while not self._stopping:
            await asyncio.sleep(self._chance.uniform(*pause))
            name = self._chance.choice(sorted(faults))
            self.struck[name] += 1
            try:
                await faults[name]()
            except (AssertionError, OSError, RedisError) as error:
                self._problems.append(f"{name}: {type(error).__name__}: {error}")

    def _on_workers(self) -> dict[str, Strike]:
        return {"kill -9": self._kill, "SIGSTOP": self._stop, "SIGTERM": self._terminate}

    def _on_servers(self) -> dict[str, Strike]:
        faults: dict[str, Strike] = {"server killed": self.vault.kill}
        if self._forgets:
            faults |= {
                "tail lost": lambda: self.vault.lose_tail(self._chance.uniform(*TAIL)),
                "failover": lambda: self.vault.fail_over(self._chance.uniform(*TAIL), demoted=False),
                "primary demoted": lambda: self.vault.fail_over(self._chance.uniform(*TAIL), demoted=True),
            }
        return faults

    async def _kill(self) -> None:
        self.fleet.kill(await self.fleet.victim(self._chance))

    async def _stop(self) -> None:
        member = await self.fleet.victim(self._chance)
        member.process.signal(signal.SIGSTOP)
        await asyncio.sleep(self._chance.uniform(0.5, 2.5) * LEASE)
        member.process.signal(signal.SIGCONT)

    async def _terminate(self) -> None:
        await self.fleet.retire(await self.fleet.victim(self._chance))
        await self.fleet.start()

    async def settle(self) -> list[Violation]:
        """Waits until no coin is under way; what is wrong then."""
        deadline = time.monotonic() + RESTS_WITHIN
        statement = await books.read(self.vault.client, NAMESPACE)
        while not self._is_over(statement) and time.monotonic() < deadline:
            await asyncio.sleep(0.3)
            statement = await books.read(self.vault.client, NAMESPACE)
        self.statement = statement
        found = books.check(statement, self.coins, self.vault.lost)
        found += [Violation("did not recover", problem) for problem in self._problems]
        mishaps = (*self.fleet.mishaps, *self.fleet.tracebacks())
        return [*found, *(Violation("processes that failed", mishap) for mishap in mishaps)]

    def _is_over(self, statement: books.Statement) -> bool:
        return books.is_at_rest(statement) and not books.check(statement, self.coins, self.vault.lost)

    async def close(self) -> None:
        """Ends every process and connection, at once."""
        self.fleet.keep_outputs(self._folder)
        await self.fleet.close()
        if hasattr(self, "_runtime"):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await self._runtime.close()
        await self.vault.close()


async def run_bank(
    folder: Path, seed: int, seconds: float, kind: Kind | None = None, *, forgets: bool
) -> tuple[ActResult, str]:
    """One act from its servers' start to the check; its result, and in a sentence what happened."""
    name = "bank, tails lost" if forgets else "bank"
    place = folder / name.replace(", ", "-").replace(" ", "-")
    place.mkdir(parents=True)
    began = time.monotonic()
    bank = Bank(place, seed, kind, forgets=forgets)
    try:
        await bank.open()
        await bank.trade(seconds)
        violations = await bank.settle()
        info = await bank.vault.client.info("server")
    finally:
        await bank.close()
    result = ActResult(
        name=name,
        seed=str(seed),
        violations=tuple(violations),
        acknowledged=bank.coins.number,
        committed=bank.statement.transfers,
        seconds=time.monotonic() - began,
        server=f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}",
    )
    return result, _told(bank)


def _told(bank: Bank) -> str:
    faults = ", ".join(f"{name} {number}" for name, number in sorted(bank.struck.items()))
    return (
        f"{bank.coins.number:,} coins, {bank.statement.transfers:,} transfers; {faults}; "
        f"{books.gone(bank.statement, bank.coins):,} acknowledged coins gone with {len(bank.vault.lost)} losses"
    )
