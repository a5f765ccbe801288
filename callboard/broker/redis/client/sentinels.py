"""Asking sentinels which server is the primary.

They are asked anew before each connection, and what most of them say counts. Redis' guidelines for clients
(https://redis.io/docs/latest/develop/reference/sentinel-clients/) take the first answer; a sentinel that is cut off from
the others goes on to name a primary that is cut off with it, and what is written there will be lost.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from callboard.broker.errors import BrokerError, ServerUnavailableError

from .endpoint import Address, Argument, Endpoint, Watched

ROLE = ("ROLE",)


def question(watched: Watched) -> tuple[Argument, ...]:
    """What each sentinel is asked."""
    return ("SENTINEL", "GET-MASTER-ADDR-BY-NAME", watched.name)


class Search:
    """One search for the primary: whom to ask, and what they said.

    Args:
        endpoint: of the server.
        watched: how the sentinels know it.
        timeout: seconds that the whole search may take.

    Attributes:
        question: the command for each sentinel.
        patience: seconds that each of them gets to take the connection, and to answer.
    """

    def __init__(self, endpoint: Endpoint, watched: Watched, timeout: float) -> None:
        self._endpoint = endpoint
        self._watched = watched
        self._votes: Counter[Address] = Counter()
        self._in_vain: list[str] = []
        self.question = question(watched)
        self.patience = timeout / len(watched.sentinels)

    def sentinels(self) -> Iterator[Endpoint]:
        """Those to be asked, as servers, until most of all are of one mind. In random order: each bears its part."""
        listed = self._watched.sentinels
        for address in random.sample(listed, len(listed)):
            if max(self._votes.values(), default=0) > len(listed) / 2:
                return
            yield as_server(self._endpoint, self._watched, address)

    def heard(self, sentinel: Endpoint, answer: Any) -> None:
        """One answered: host and port, or None, when it watches no server of that name."""
        who = Address(sentinel.host, sentinel.port)
        match answer:
            case [bytes(host), bytes(port)] if port.isdigit():
                self._votes[Address(host.decode(errors="replace"), int(port))] += 1
            case None:
                self._in_vain.append(f"{who} watches no {self._watched.name!r}")
            case _:
                self._in_vain.append(f"{who} answers what no sentinel would")

    def failed(self, sentinel: Endpoint, error: BrokerError) -> None:
        """One can't be asked."""
        reason = error.reason if isinstance(error, ServerUnavailableError) else error
        self._in_vain.append(f"{Address(sentinel.host, sentinel.port)} can't be asked ({reason})")

    def primary(self) -> Endpoint:
        """The server that most of those who answered name.

        Raises:
            ServerUnavailableError: none did, or two servers are named equally often.
        """
        if not self._votes:
            why = "; ".join(sorted(self._in_vain))
            raise ServerUnavailableError(
                self._endpoint.shown, f"no sentinel says where the primary is: {why}"
            )
        (most, votes), *others = self._votes.most_common(2)
        # guard: where sentinels are of two minds, it is not by chance who is the primary
        if others and others[0][1] == votes:
            both = " and ".join(sorted(str(address) for address, _ in self._votes.most_common(2)))
            raise ServerUnavailableError(
                self._endpoint.shown, f"sentinels do not agree on the primary, they name {both}"
            )
        return self._endpoint.at(most)


def as_server(endpoint: Endpoint, watched: Watched, address: Address) -> Endpoint:
    """How the sentinel at this address is connected to, which may have a login of its own."""
    return Endpoint(
        endpoint.scheme,
        address.host,
        address.port,
        username=watched.username,
        password=watched.password,
        ca_file=endpoint.ca_file,
        check_certificate=endpoint.check_certificate,
    )


def check_role(primary: Endpoint, role: Any) -> None:
    """Looks at the answer to ROLE: sentinels may name a server that was demoted a moment ago.

    Raises:
        ServerUnavailableError: the server is no primary.
    """
    if role[0] != b"master":
        raise ServerUnavailableError(
            primary.shown, "sentinels name it as the primary, and it is a replica; asking them again may help"
        )
