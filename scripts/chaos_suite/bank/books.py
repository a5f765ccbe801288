"""Reads the accounts' States with plain commands and says what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..checker import Violation
from .accounts import MINT
from .mint import Coins

Window = tuple[float, float]
State = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Statement:
    """How the bank stands.

    Attributes:
        accounts, auditors: the States, by key.
        letters: number of dead letters.
    """

    accounts: Mapping[str, State]
    auditors: Mapping[str, State]
    letters: int

    @property
    def transfers(self) -> int:
        """Messages that accounts have handled."""
        return sum(sum(state["received"].values()) for state in self.accounts.values())

    @property
    def minted(self) -> int:
        return sum(state["minted"] for state in self.accounts.values())

    @property
    def balance(self) -> int:
        return sum(state["balance"] for state in self.accounts.values())


async def read(client: Any, namespace: str) -> Statement:
    """The statement as it is now."""
    prefix = f"callboard:{{{namespace}}}:"
    found: dict[str, dict[str, State]] = {"account": {}, "auditor": {}}
    letters = 0
    for agent_type, states in found.items():
        async for name in client.scan_iter(match=f"{prefix}state:{agent_type}:*", count=1000):
            data = await client.hget(name, "d")
            if data:
                key = name.decode().rpartition(":")[2]
                lines = await client.lrange(f"{prefix}log:{agent_type}:{key}:lines", 0, -1)
                states[key] = {**json.loads(data), "lines": [int(line) for line in lines]}
        letters += await client.xlen(f"{prefix}dead:{agent_type}")
    return Statement(found["account"], found["auditor"], letters)


def is_at_rest(statement: Statement) -> bool:
    """No coin is under way, as far as the books say."""
    return statement.minted == statement.balance and not list(_unarrived(statement))


def check(statement: Statement, coins: Coins, lost: Sequence[Window]) -> list[Violation]:
    """What is wrong.

    Args:
        statement: at rest.
        coins: what was published.
        lost: when the server lost data; nothing that was acknowledged at another time may be missing.
    """
    found = [Violation("wrong state", line) for line in (*_wrong(statement), *_wrong_logs(statement))]
    found += [Violation("effects apart", line) for line in _unarrived(statement)]
    if statement.minted != statement.balance:
        found.append(Violation("money", f"{statement.minted} were minted, {statement.balance} are there"))
    if statement.letters:
        found.append(Violation("wrong dead letters", f"{statement.letters}"))
    found += [Violation("lost", line) for line in _missing(statement, coins, lost)]
    return found


def gone(statement: Statement, coins: Coins) -> int:
    """Coins that were acknowledged and never came."""
    return sum(
        len(_gone(statement.accounts.get(account, {}), len(times)))
        for account, times in coins.acknowledged.items()
    )


def _wrong(statement: Statement) -> Iterable[str]:
    for kind, states in (("account", statement.accounts), ("auditor", statement.auditors)):
        for key, state in states.items():
            for line in state["wrong"]:
                yield f"{kind}/{key}: {line}"


def _wrong_logs(statement: Statement) -> Iterable[str]:
    """Logs that are not what the State beside them says: both are written by the same commits."""
    for kind, states in (("account", statement.accounts), ("auditor", statement.auditors)):
        for key, state in states.items():
            lines, entered = state["lines"], state["entered"]
            if not lines or lines != list(range(entered - len(lines) + 1, entered + 1)):
                yield f"{kind}/{key}: {entered} messages came, and its log has {lines}"


def _unarrived(statement: Statement) -> Iterable[str]:
    """What one account says that it sent, and another, or the auditor, that it received: both left with commits."""
    for sender, state in statement.accounts.items():
        for receiver, number in state["sent"].items():
            for kind, states in (("account", statement.accounts), ("auditor", statement.auditors)):
                came = states.get(receiver, {}).get("received", {}).get(sender, 0)
                if came != number:
                    yield f"{sender} sent {number} messages to {receiver}, {kind}/{receiver} has {came}"


def _missing(statement: Statement, coins: Coins, lost: Sequence[Window]) -> Iterable[str]:
    for account, times in coins.acknowledged.items():
        for number in _gone(statement.accounts.get(account, {}), len(times)):
            when = times[number - 1]
            if not any(began <= when <= ended for began, ended in lost):
                yield f"coin {account}/{number}, which was acknowledged when nothing was lost"


def _gone(state: State, published: int) -> list[int]:
    """Numbers of the mint that an account never had."""
    numbers = [number for first, last in state.get("gaps", ()) for number in range(first, last + 1)]
    return numbers + list(range(state.get("received", {}).get(MINT, 0) + 1, published + 1))
