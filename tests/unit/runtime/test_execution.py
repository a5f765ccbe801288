"""What a running handler adds to its commit."""

from __future__ import annotations

from callboard import AgentId
from callboard.broker.envelope import Envelope
from callboard.runtime.execution import Execution, current, running
from tests.unit.recording import context


def _execution(owner: object = None) -> Execution:
    envelope = Envelope("m1", "Note", "a", None, 5, b"")
    return Execution(AgentId("worker", "a"), envelope, context(), owner)


async def test_an_execution_counts_for_its_owner_and_until_it_is_over() -> None:
    owner = object()
    execution = _execution(owner)
    token = current.set(execution)
    assert running(owner) is execution
    assert running(object()) is None
    execution.is_over = True
    assert running(owner) is None
    current.reset(token)
    assert running(owner) is None


def test_ids_of_requests_do_not_depend_on_their_order() -> None:
    def ids(*requests: bytes) -> list[str]:
        execution = _execution()
        return [execution.request_id(request) for request in requests]

    assert ids(b"x", b"y", b"x") == [ids(b"x")[0], ids(b"y")[0], ids(b"x", b"x")[1]]
    assert len(set(ids(b"x", b"x", b"y"))) == 3
    execution = _execution()
    assert execution.next_id() != execution.next_id()


def test_messages_of_one_nature_are_counted_apart_from_the_others() -> None:
    """Another attempt may send fewer chunks: its result has the id that it had in the first one all the same."""

    def ids(*natures: str) -> list[str]:
        execution = _execution()
        return [execution.next_id(nature) for nature in natures]

    assert ids("chunk", "chunk", "chunk", "result")[3] == ids("chunk", "result")[1]
    assert len(set(ids("chunk", "chunk", "result", "", ""))) == 5


def test_a_number_that_is_given_back_is_taken_next() -> None:
    execution = _execution()
    execution.give_back("x", 1)
    assert [execution.take_number("x") for _ in range(3)] == [1, 2, 3]
    assert execution.take_number("y") == 1
    execution.give_back("x", 2)
    assert [execution.take_number("x") for _ in range(2)] == [2, 4]


async def test_a_handler_that_has_ended_is_over_before_its_commit_is_made() -> None:
    execution = _execution()
    seen: list[tuple[object, ...]] = []

    async def handler(message: object, ctx: object) -> str:
        seen.append((message, ctx is execution.context, current.get() is execution, execution.is_over))
        execution.before_commit.append(settle)
        return "result"

    async def settle() -> None:
        seen.append(("settled", execution.is_over))

    assert await execution.run(handler, "message") == "result"
    assert seen == [("message", True, True, False), ("settled", False)]
    assert execution.is_over
    assert current.get() is None


def test_what_a_nested_request_sends_at_once_is_kept_with_the_outer_message() -> None:
    envelope = Envelope("n1", "Ask", "a", None, 5, b"")
    nested = Execution(AgentId("worker", "a"), envelope, context(), kept_with="outer")
    assert nested.sends_at_once("x") == ">worker:outer|x"
    assert nested.record_of == "n1"
