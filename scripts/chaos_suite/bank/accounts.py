"""The application: accounts, and an auditor that reads the same topic as another agent type.

A mint publishes coins; each of them is passed on from account to account and stays where its hops end. Every message has
a number that counts the messages of its sender for its receiver, and is kept in both their States.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field

from callboard import App, Log, MessageContext, RoutedAgent, TopicId, event

ACCOUNTS: Final = 50
HOPS: Final = 12
MINT: Final = "mint"  # the sender of what comes from outside
OFTEN: Final = (
    100_000  # a message whose worker is killed again and again is no poison: the suite does the killing
)
SHOWN: Final = 20  # wrong numbers that a State keeps
MOST_LINES, KEPT_LINES = 30, 10  # of a log, before and after it is trimmed


class Transfer(BaseModel):
    """A coin on its way.

    Attributes:
        sender: an account, or `mint`.
        number: of the sender's messages for this receiver, from 1 on.
        coin: names it.
        value: what it is worth.
        hops: how often it is still passed on.
    """

    sender: str
    number: int
    coin: str
    value: int
    hops: int


class Ledger(BaseModel):
    """What was received, by sender.

    Attributes:
        received: the number of the last message.
        gaps: numbers of the mint that never came, as pairs of the first and the last.
        wrong: what came twice, or out of order.
        entered: how many messages came.
        lines: their numbers, from 1 on; the oldest are dropped now and then.
    """

    received: dict[str, int] = Field(default_factory=dict)
    gaps: list[tuple[int, int]] = Field(default_factory=list)
    wrong: list[str] = Field(default_factory=list)
    entered: int = 0
    lines: Log[int] = Log()

    def enter(self, message: Transfer) -> None:
        """Notes a message. What the mint sent may be gone with a lost tail; between accounts nothing may be missing."""
        last = self.received.get(message.sender, 0)
        if message.number > last + 1 and message.sender == MINT:
            self.gaps.append((last + 1, message.number - 1))
        elif message.number != last + 1 and len(self.wrong) < SHOWN:
            self.wrong.append(f"{message.coin}: number {message.number} of {message.sender} after {last}")
        self.received[message.sender] = max(last, message.number)
        self.entered += 1
        self.lines.append(self.entered)
        if len(self.lines) > MOST_LINES:
            self.lines.trim(keep=KEPT_LINES)


class Books(Ledger):
    """The State of an account.

    Attributes:
        minted: the value of the coins that began here.
        balance: the value of the coins that stayed here.
        sent: the number of the last message to each account.
    """

    minted: int = 0
    balance: int = 0
    sent: dict[str, int] = Field(default_factory=dict)


app = App("bank")


@app.agent("account", topics=["transfers"], max_attempts=OFTEN)
class Account(RoutedAgent):
    """Keeps a coin, or passes it on."""

    State = Books

    @event
    async def on_transfer(self, message: Transfer, ctx: MessageContext) -> None:
        books: Books = self.state
        books.enter(message)
        if message.sender == MINT:
            books.minted += message.value
        if not message.hops:
            books.balance += message.value
            return
        to = next_account(self.id.key, message)
        books.sent[to] = books.sent.get(to, 0) + 1
        onward = message.model_copy(
            update={"sender": self.id.key, "number": books.sent[to], "hops": message.hops - 1}
        )
        await self.publish_message(onward, TopicId("transfers", to))


@app.agent("auditor", topics=["transfers"], max_attempts=OFTEN)
class Auditor(RoutedAgent):
    """Sees every transfer as well."""

    State = Ledger

    @event
    async def on_transfer(self, message: Transfer, ctx: MessageContext) -> None:
        ledger: Ledger = self.state
        ledger.enter(message)


def next_account(account: str, message: Transfer) -> str:
    """Where a coin goes: any other account, always the same one."""
    step = 1 + (message.value * 31 + message.hops * 17) % (ACCOUNTS - 1)
    return str((int(account) + step) % ACCOUNTS)
