from __future__ import annotations

import asyncio

import pytest

from callboard.broker.envelope import Delivery
from callboard.broker.mailbox import NOT_BEGUN, Mailbox, Mailboxes
from tests.helpers.fake_host import body_of
from tests.helpers.lanes import entry


@pytest.fixture
def boxes() -> Mailboxes:
    return Mailboxes()


def filled(boxes: Mailboxes, *bodies: str) -> list[Delivery]:
    """Entries whose key is the first letter of their body."""
    entries = [entry(body[0], body) for body in bodies]
    for one in entries:
        boxes.add(one)
    return entries


def only(boxes: Mailboxes) -> Mailbox:
    (mailbox,) = boxes
    return mailbox


def texts(deliveries: list[Delivery]) -> list[str]:
    return [body_of(one) for one in deliveries]


def test_entries_of_a_key_share_a_mailbox_that_can_be_worked_on_once(boxes: Mailboxes) -> None:
    entries = filled(boxes, "a1", "b1", "a2")
    assert len(boxes) == 2
    assert boxes.held == 3
    assert [mailbox.key for mailbox in boxes.runnable] == [(b"counter", b"a"), (b"counter", b"b")]
    assert entries[0].mailbox is entries[2].mailbox
    assert texts(list(boxes.runnable[0].queue)) == ["a1", "a2"]


def test_keys_of_different_agent_types_are_different(boxes: Mailboxes) -> None:
    boxes.add(entry("a", "1", "counter"))
    boxes.add(entry("a", "2", "audit"))
    assert len(boxes) == len(boxes.runnable) == 2


def test_a_mailbox_that_is_worked_on_is_not_offered_again(boxes: Mailboxes) -> None:
    filled(boxes, "a1")
    mailbox = boxes.runnable.popleft()
    mailbox.task = object()  # type: ignore[assignment]
    filled(boxes, "a2")
    assert not boxes.runnable


def test_the_next_entry_may_run_when_the_first_has_ended(boxes: Mailboxes) -> None:
    filled(boxes, "a1", "a2")
    mailbox = boxes.runnable.popleft()
    boxes.finish(mailbox)
    assert list(boxes.runnable) == [mailbox]
    assert texts(list(mailbox.queue)) == ["a2"]
    assert mailbox.unsent == 1
    assert boxes.held == 2, "until its commit was sent it is held"


def test_a_key_is_free_when_all_of_it_is_sent(boxes: Mailboxes) -> None:
    filled(boxes, "a1", "a2")
    mailbox = only(boxes)
    boxes.finish(mailbox)
    boxes.finish(mailbox)
    boxes.sent(mailbox)
    assert boxes.close_if_done(mailbox) == (False, [])
    boxes.sent(mailbox)
    assert boxes.close_if_done(mailbox) == (True, [])
    assert (len(boxes), boxes.held) == (0, 0)


def test_a_key_is_not_free_while_more_of_it_waits_or_runs(boxes: Mailboxes) -> None:
    filled(boxes, "a1", "a2")
    mailbox = only(boxes)
    boxes.finish(mailbox)
    boxes.sent(mailbox)
    assert boxes.close_if_done(mailbox) == (False, [])
    mailbox.closing = True
    mailbox.task = object()  # type: ignore[assignment]
    assert boxes.close_if_done(mailbox) == (False, [])


def test_a_closing_mailbox_gives_back_what_is_left_in_order(boxes: Mailboxes) -> None:
    filled(boxes, "a1", "a2", "a3")
    mailbox = boxes.runnable.popleft()
    mailbox.closing = True
    boxes.finish(mailbox)
    assert not boxes.runnable
    filled(boxes, "a4")
    assert not boxes.runnable, "what comes now goes back too"
    boxes.sent(mailbox)
    is_free, rest = boxes.close_if_done(mailbox)
    assert is_free
    assert texts(rest) == ["a2", "a3", "a4"]
    assert (len(boxes), boxes.held) == (0, 0)


def test_a_mailbox_whose_commit_is_sent_again_is_there_again(boxes: Mailboxes) -> None:
    filled(boxes, "a1")
    mailbox = boxes.runnable.popleft()
    boxes.finish(mailbox)
    boxes.sent(mailbox)
    boxes.close_if_done(mailbox)
    boxes.restore(mailbox)
    assert only(boxes) is mailbox
    assert (boxes.held, mailbox.unsent) == (1, 1)
    filled(boxes, "a2")
    assert list(boxes.runnable) == [mailbox], "more of the key joins it"


def test_closing_all_leaves_nothing_to_begin(boxes: Mailboxes) -> None:
    filled(boxes, "a1", "b1")
    boxes.close_all()
    assert not boxes.runnable
    given_back = [boxes.close_if_done(mailbox) for mailbox in boxes]
    assert [(is_free, texts(rest)) for is_free, rest in given_back] == [(True, ["a1"]), (True, ["b1"])]


async def test_fencing_forgets_everything_and_tells_what_runs(boxes: Mailboxes) -> None:
    filled(boxes, "a1", "b1")
    running = boxes.runnable.popleft()
    running.task = asyncio.ensure_future(asyncio.sleep(0))
    everything = list(boxes)
    assert boxes.fence() == [running]
    assert all(mailbox.fenced for mailbox in everything)
    assert (len(boxes), boxes.held, len(boxes.runnable)) == (0, 0, 0)
    filled(boxes, "a2")
    assert only(boxes) is not running
    assert not only(boxes).fenced
    await running.task


def test_all_but_its_share_is_parked_and_the_agent_is_kept(boxes: Mailboxes) -> None:
    filled(boxes, "a1", "a2", "a3", "a4", "b1")
    box = next(iter(boxes))
    boxes.park(box, 2)
    assert boxes.has_leftovers
    endings = boxes.endings([])
    assert [(body_of(one), outcome, is_free) for one, outcome, is_free in endings] == [
        ("a3", NOT_BEGUN, False),
        ("a4", NOT_BEGUN, False),
    ]
    assert (texts(list(box.queue)), boxes.held, boxes.has_leftovers) == (["a1", "a2"], 3, False)
    assert boxes.endings([]) == []


def test_one_delivery_is_kept_at_least(boxes: Mailboxes) -> None:
    filled(boxes, "a1", "a2")
    boxes.park(only(boxes), 0)
    assert [body_of(one) for one, _, _ in boxes.endings([])] == ["a2"]


def test_an_agent_that_was_to_keep_its_share_and_has_less_now_keeps_it_all(boxes: Mailboxes) -> None:
    filled(boxes, "a1", "a2", "a3")
    box = only(boxes)
    boxes.park(box, 2)
    boxes.finish(box)
    assert boxes.endings([]) == []


def test_an_agent_that_is_closed_goes_back_as_a_whole(boxes: Mailboxes) -> None:
    """Its first message is to be tried again: nothing behind it may stay, or be handled before it."""
    filled(boxes, "a1", "a2", "a3")
    box = only(boxes)
    box.task = object()  # type: ignore[assignment]
    boxes.park(box, 1)
    boxes.close(box)
    assert boxes.endings([]) == []
    box.task = None
    boxes.step_back(lambda _: True)
    assert [(body_of(one), is_free) for one, _, is_free in boxes.endings([])] == [
        ("a1", True),
        ("a2", True),
        ("a3", True),
    ]


def test_nothing_is_parked_of_what_a_lost_lease_took(boxes: Mailboxes) -> None:
    filled(boxes, "a1", "a2", "a3")
    boxes.park(only(boxes), 1)
    boxes.fence()
    assert (boxes.endings([]), boxes.held, boxes.has_leftovers) == ([], 0, False)
