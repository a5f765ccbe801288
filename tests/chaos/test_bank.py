"""The books of the bank tell each kind of wrong."""

from __future__ import annotations

from typing import Any

import pytest

from scripts.chaos_suite.bank.accounts import MINT, Books, Transfer
from scripts.chaos_suite.bank.books import Statement, check, gone, is_at_rest
from scripts.chaos_suite.bank.mint import Coins

ENTERED = {"entered": 2, "lines": [1, 2]}


def _coins() -> Coins:
    coins = Coins()
    coins.acknowledged["1"] = [10.0, 20.0, 30.0]
    return coins


def _accounts(**changes: Any) -> dict[str, dict[str, Any]]:
    first: dict[str, Any] = {
        "minted": 5,
        "balance": 2,
        "sent": {"2": 2},
        "received": {MINT: 3},
        "gaps": [],
        "wrong": [],
        "entered": 3,
        "lines": [2, 3],
    }
    second = {"minted": 0, "balance": 3, "sent": {}, "received": {"1": 2}, "gaps": [], "wrong": [], **ENTERED}
    return {"1": {**first, **changes}, "2": second}


def _statement(accounts: dict[str, dict[str, Any]], letters: int = 0, **auditor: Any) -> Statement:
    seen = {"2": {"received": {"1": 2}, "gaps": [], "wrong": [], **ENTERED, **auditor}}
    return Statement(accounts, seen, letters)


def test_right_books_are_right() -> None:
    statement = _statement(_accounts())
    assert is_at_rest(statement)
    assert check(statement, _coins(), []) == []
    assert statement.transfers == 5
    assert gone(statement, _coins()) == 0


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        (_statement(_accounts(balance=1)), "money"),
        (_statement(_accounts(sent={"2": 3})), "effects apart"),
        (_statement(_accounts(), received={"1": 1}), "effects apart"),
        (_statement(_accounts(wrong=["2/1: number 1 of 2 after 1"])), "wrong state"),
        (_statement(_accounts(), wrong=["2/1: number 1 of 2 after 1"]), "wrong state"),
        (_statement(_accounts(lines=[1, 3])), "wrong state"),
        (_statement(_accounts(entered=4)), "wrong state"),
        (_statement(_accounts(), lines=[]), "wrong state"),
        (_statement(_accounts(), letters=1), "wrong dead letters"),
        (_statement(_accounts(received={MINT: 2})), "lost"),
        (_statement(_accounts(gaps=[(2, 2)])), "lost"),
    ],
)
def test_each_wrong_is_told(statement: Statement, rule: str) -> None:
    assert {violation.rule for violation in check(statement, _coins(), [])} == {rule}


def test_what_was_acknowledged_in_a_tail_may_be_gone_and_nothing_else() -> None:
    statement = _statement(_accounts(gaps=[(2, 2)]))
    assert check(statement, _coins(), [(19.0, 21.0)]) == []
    assert [one.rule for one in check(statement, _coins(), [(21.0, 29.0)])] == ["lost"]
    assert gone(statement, _coins()) == 1


def test_an_account_notes_what_comes_twice_or_too_early() -> None:
    books = Books()

    def enter(sender: str, number: int) -> None:
        books.enter(Transfer(sender=sender, number=number, coin="c", value=1, hops=0))

    for number in (1, 2, 2):
        enter("2", number)
    enter("3", 2)
    enter(MINT, 4)
    assert [line.partition(" of ")[0] for line in books.wrong] == ["c: number 2", "c: number 2"]
    assert books.gaps == [(1, 3)]
    assert books.received == {"2": 2, "3": 2, MINT: 4}
