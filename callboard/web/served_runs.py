"""The runs that a door shows: begun, found and listed for an identity, which never leaves its tenant."""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2s
from typing import Any, Final, Self

from callboard.app import App
from callboard.broker import AgentId
from callboard.broker.errors import RequestTimeoutError
from callboard.broker.redis.operations.inspect import has_worker
from callboard.broker.redis.store import RedisStore
from callboard.core.people import InputRequest
from callboard.errors import InputRequestUnknownError
from callboard.runs.bus import BusRun
from callboard.runs.outside import door_id
from callboard.runtime.effects import names_in
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams.client import TeamClient
from callboard.teams.listing import RunSummary, has_run, list_runs
from callboard.teams.protocol import IfBusy, conversation_of, stream_of

from .access import Identity
from .problems import RETRY, Problem, not_found
from .shared_readings import Portions, SharedReadings

KEPT: Final = 86_400.0  # seconds for which an idempotency key is known
PAGE: Final = 100  # runs that are looked at together
MOST_LOOKED_AT: Final = 2_000  # runs, for one page of a list
MOST_ID: Final = 1_500  # characters


@dataclass(frozen=True, slots=True)
class ServedRun:
    """A run as it is named outside.

    Attributes:
        identity: For whom.
        service: Name of the team.
        conversation: As that one names it.
        run_id: Id of the run in it.
    """

    identity: Identity
    service: str
    conversation: str
    run_id: str

    @property
    def id(self) -> str:
        """Its id at a door. It says where the run is, within the tenant of who shows it."""
        return door_id(self.service, self.conversation, self.run_id)

    @property
    def address(self) -> AgentId:
        """The manager."""
        return AgentId(self.service, self.identity.inside(self.conversation))

    @property
    def stream(self) -> str:
        """What its events are kept under."""
        return stream_of(self.address, self.run_id)


class ServedRuns:
    """The runs of teams that are served.

    Args:
        runtime: Reaches the server.
        served: The teams, and their descriptions.
        is_whole: Whether runs of other teams are there as well, as for who operates a namespace.
    """

    def __init__(
        self, runtime: RedisAgentRuntime, served: Callable[[], Mapping[str, str]], *, is_whole: bool = False
    ) -> None:
        self.runtime = runtime
        self._served = served
        self._is_whole = is_whole
        self._readings = SharedReadings()

    @classmethod
    def of_app(cls, app: App, runtime: RedisAgentRuntime, serve_all: bool) -> Self:
        """Those of an app: what it says is served, or all of its teams."""

        def served() -> Mapping[str, str]:
            names = app.teams if serve_all else app.served
            return {name: app.served.get(name, "") for name in names}

        return cls(runtime, served)

    def services(self, identity: Identity) -> dict[str, str]:
        """What is served to this one, and its descriptions."""
        return {name: text for name, text in self._served().items() if identity.sees(name)}

    def _is_served(self, identity: Identity, name: str) -> bool:
        return identity.sees(name) and (self._is_whole or name in self._served())

    def check_service(self, identity: Identity, name: str) -> None:
        """Refuse a service that is not served to this one.

        Raises:
            Problem: It is not.
        """
        if not self._is_served(identity, name):
            raise not_found(f"service {name!r}")

    def source(self, run: ServedRun) -> BusRun:
        """The run, to be read and ordered."""
        return BusRun(TeamClient(self.runtime, run.service, run.address.key), run.run_id)

    def read(self, run: ServedRun, after: int, drafts: bool) -> Portions:
        """Its events behind a number, as `BusRun.read` gives them; however many read it here, the server is read once.

        Args:
            run: The run.
            after: Number of the last event that is known; 0: none.
            drafts: Whether those that do not count yet are wanted, too.
        """
        source = self.source(run)
        return self._readings.read(run.stream, drafts, after, lambda place: source.read(place, drafts))

    async def begin(
        self, asked: ServedRun, task: Any, if_busy: IfBusy, key: str | None, print_of: bytes
    ) -> ServedRun:
        """Begin a run; with the same key, again, it is the same run.

        Args:
            asked: The run that it is to be.
            task: What to do.
            if_busy: What to do when the conversation has a run under way.
            key: The idempotency key; None: there is none.
            print_of: The body of the request.

        Raises:
            Problem: No worker runs the team, or the key was given with another request.
        """
        await self.runtime.open()
        if not await has_worker(self.runtime.transport, asked.service):
            raise Problem(503, f"no worker runs {asked.service!r} now; nothing was begun", RETRY)
        run = asked if key is None else await self._of_key(asked, key, print_of)
        client = TeamClient(self.runtime, run.service, run.address.key)
        await client.start(task=task, if_busy=if_busy, run_id=run.run_id)
        return run

    async def _of_key(self, asked: ServedRun, key: str, print_of: bytes) -> ServedRun:
        store = RedisStore(self.runtime.transport.admin)
        who = asked.identity
        name = blake2s(json.dumps([who.tenant, who.name, asked.service, key]).encode()).hexdigest()
        digest = blake2s(print_of).hexdigest()
        told = json.dumps([digest, asked.conversation, asked.run_id]).encode()
        # Of two requests with one key that come at the same time, both are the run of the first.
        kept = await store.set_new(f"door:{name}", told, KEPT)
        known, conversation, run_id = json.loads(kept)
        if known != digest:
            raise Problem(
                422, "this Idempotency-Key was given with another request; give each request its own"
            )
        return ServedRun(who, asked.service, conversation, run_id)

    def named(self, identity: Identity, name: str) -> ServedRun:
        """The run of an id, whether or not there is one.

        Raises:
            Problem: It is no id, or its service is not served to this one.
        """
        try:
            padded = name + "=" * (-len(name) % 4)
            told = (
                json.loads(base64.b64decode(padded, b"-_", validate=True)) if len(name) <= MOST_ID else None
            )
        except (binascii.Error, ValueError, RecursionError):
            told = None
        if (
            not isinstance(told, list)
            or len(told) != 3
            or not all(isinstance(one, str) and one for one in told)
        ):
            raise not_found("such run")
        run = ServedRun(identity, *told)
        if not self._is_served(identity, run.service) or not _is_text(told) or run.id != name:
            raise not_found("such run")
        return run

    async def found(self, identity: Identity, name: str) -> ServedRun:
        """The run of an id, which there is.

        Raises:
            Problem: There is none.
        """
        run = self.named(identity, name)
        await self.runtime.open()
        if not await has_run(self.runtime, run.address, run.run_id):
            raise not_found("such run")
        return run

    async def listed(
        self,
        identity: Identity,
        is_wanted: Callable[[RunSummary], bool],
        service: str | None,
        limit: int,
        after: str | None,
        conversation: str | None = None,
    ) -> tuple[list[tuple[ServedRun, RunSummary]], str | None]:
        """Some of the runs, the newest first, and what to give as `after` for older ones; None: there are none.

        Args:
            identity: For whom.
            is_wanted: Which.
            service: Only those of this one; None: of all.
            limit: How many, at most.
            after: Only those that began before the run of this id; None: from the newest on.
            conversation: Only those of this one; None: of all.

        Raises:
            Problem: The service or the run of `after` is not there, or not for this one.
        """
        if service is not None:
            self.check_service(identity, service)
        place = None if after is None else (await self.found(identity, after)).stream
        kept = None if conversation is None else identity.inside(conversation)
        found: list[tuple[ServedRun, RunSummary]] = []
        for _ in range(MOST_LOOKED_AT // PAGE):
            page = await list_runs(self.runtime, team=service, conversation=kept, limit=PAGE, before=place)
            for one in page:
                run = self._of(identity, one.team, one.conversation, one.run_id)
                if run is not None and is_wanted(one):
                    found.append((run, one))
                if len(found) > limit:
                    # The place is a run of their own: that of another one would tell its id.
                    return found[:limit], found[limit - 1][0].id
            if len(page) < PAGE:
                return found, None
            place = page[-1].stream
        return found, found[-1][0].id if found else None

    def _of(self, identity: Identity, team: str, kept: str, run_id: str) -> ServedRun | None:
        conversation = identity.outside(kept)
        if not conversation or not self._is_served(identity, team):
            return None
        return ServedRun(identity, team, conversation, run_id)

    async def questions(
        self, identity: Identity, run: ServedRun | None = None
    ) -> list[tuple[ServedRun, InputRequest]]:
        """The open questions that this one can see, the oldest first."""
        await self.runtime.open()
        listed = await self.runtime.inputs.list(run=None if run is None else run.stream)
        found = [(self._asking(identity, question), question) for question in listed]
        return [(asking, question) for asking, question in found if asking is not None]

    async def question(self, identity: Identity, name: str) -> tuple[ServedRun, InputRequest]:
        """A question, and the run that asks it.

        Raises:
            InputRequestUnknownError: There is none, or not for this one: which of both it is, is not said.
        """
        await self.runtime.open()
        question = await self.runtime.inputs.get(name)
        run = self._asking(identity, question)
        if run is None:
            raise InputRequestUnknownError(name)
        return run, question

    async def cancel(self, run: ServedRun) -> bool:
        """End a run now; False: its manager is away, and ends it as soon as it is back."""
        try:
            await self.source(run).cancel()
        except RequestTimeoutError:
            return False
        return True

    def _asking(self, identity: Identity, question: InputRequest) -> ServedRun | None:
        """The run that asks; None: it is none of a service that this one sees."""
        team, kept = question.agent.type.partition(".")[0], conversation_of(question.agent)
        for name in names_in(question.run_path or ""):
            run_id = name.rpartition("@")[0]
            if run_id and stream_of(AgentId(team, kept), run_id) == name:
                return self._of(identity, team, kept, run_id)
        return None


def new_run(identity: Identity, service: str, conversation: str | None) -> ServedRun:
    """A run that there is not yet; without a conversation it has one of its own."""
    run_id = uuid.uuid4().hex
    return ServedRun(identity, service, conversation or run_id, run_id)


def _is_text(texts: list[str]) -> bool:
    try:
        return bool("".join(texts).encode())
    except UnicodeEncodeError:
        return False
