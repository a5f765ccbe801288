"""What a running handler adds to its commit."""

from __future__ import annotations

from actors import AgentId
from actors.activation import Activation, current, running

NOW = 1_763_700_000_000


async def test_an_activation_counts_for_its_owner_and_until_it_is_over() -> None:
    owner = object()
    activation = Activation(AgentId("worker", "a"), "m1", (), None, owner)
    token = current.set(activation)
    assert running(owner) is activation
    assert running(object()) is None
    activation.is_over = True
    assert running(owner) is None
    current.reset(token)
    assert running(owner) is None


def test_ids_of_requests_do_not_depend_on_their_order() -> None:
    def ids(*requests: bytes) -> list[str]:
        activation = Activation(AgentId("worker", "a"), "m1", (), None)
        return [activation.request_id(request) for request in requests]

    assert ids(b"x", b"y", b"x") == [ids(b"x")[0], ids(b"y")[0], ids(b"x", b"x")[1]]
    assert len(set(ids(b"x", b"x", b"y"))) == 3
    activation = Activation(AgentId("worker", "a"), "m1", (), None)
    assert activation.next_id() != activation.next_id()


def test_a_number_that_is_given_back_is_taken_next() -> None:
    activation = Activation(AgentId("worker", "a"), "m1", (), None)
    activation.give_back("x", 1)
    assert [activation.take_number("x") for _ in range(3)] == [1, 2, 3]
    assert activation.take_number("y") == 1
    activation.give_back("x", 2)
    assert [activation.take_number("x") for _ in range(2)] == [2, 4]
