"""What operators look at and do, as lines of the API that is under /api/v1 at the dashboard only."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import pydantic_core
from pydantic import BaseModel, ConfigDict, Field, JsonValue, RootModel
from starlette.responses import Response

import callboard
from callboard.broker import AgentId
from callboard.broker.redis.operations import agents, deadletters, inspect
from callboard.broker.redis.operations.deadletters import DeadLetterRecord
from callboard.broker.redis.operations.glance import glance
from callboard.core.people import InputRequest
from callboard.teams.listing import list_runs
from callboard.web.access import OPERATE, door_id
from callboard.web.api import Answer, Call, Done, Route, answered
from callboard.web.event_stream import EventStream
from callboard.web.problems import SAFE, not_found
from callboard.web.requests import body_of, number_of, read_as

from .watcher import Watcher, told

MOST_LETTERS: Final = 500
MOST_RUNS: Final = 100
MOST_TOPICS: Final = 500
BUSIEST: Final = 20  # agents of a type
DIARY: Final = 200  # entries
LONGEST: Final = 200_000  # characters of a text that is shown


class Plain(RootModel[Any]):
    """Plain data, as the command of the same name prints it with --json."""


class Letters(BaseModel):
    """Dead letters of one type."""

    model_config = ConfigDict(extra="forbid")

    letters: list[str] = Field(min_length=1, max_length=MOST_LETTERS)


class Paused(BaseModel):
    """Something to be paused, or to go on."""

    model_config = ConfigDict(extra="forbid")

    kind: str = Field(pattern="^(agent|type|topic)$")
    name: str = Field(min_length=1, max_length=1000)
    paused: bool


@dataclass
class Operations:
    """The lines of the API.

    Args:
        watcher: Looks at the namespace.
    """

    watcher: Watcher

    def routes(self) -> Sequence[Route]:
        """The table."""
        return (
            Route("GET", "/me", "read", self.me, Plain),
            Route("GET", "/live", "read", self.live, None),
            Route("GET", "/latest", "read", self.latest, Plain, query=("state", "team", "limit", "before")),
            Route("GET", "/inbox", "read", self.inbox, Plain),
            Route("POST", "/inbox/{id}", "answer", self.answer, Done, Answer),
            Route("GET", "/dead", "read", self.dead, Plain, query=("type", "limit")),
            Route("GET", "/dead/{type}/{id}", "read", self.letter, Plain),
            Route("POST", "/dead/{type}/replay", OPERATE, self.replay, Plain, Letters),
            Route("POST", "/dead/{type}/discard", OPERATE, self.discard, Plain, Letters),
            Route("GET", "/types/{type}", "read", self.busiest, Plain),
            Route("GET", "/agents/{type}/{key:path}", "read", self.agent, Plain, query=("unread",)),
            Route("POST", "/pauses", OPERATE, self.pause, Done, Paused),
            Route("GET", "/topics", "read", self.topics, Plain, query=("all",)),
            Route("GET", "/diary", "read", self.diary, Plain),
        )

    # What is looked at

    async def me(self, call: Call) -> Response:
        """Say who asks, and where this is."""
        transport = await self._transport()
        return _plain(
            {
                "name": call.identity.name,
                "scopes": sorted(call.identity.scopes),
                "namespace": transport.keys.namespace,
                "server": transport.endpoint.shown,
                "version": callboard.__version__,
            }
        )

    async def live(self, call: Call) -> Response:
        """Read the history since somebody watches, and then what each look finds, as server-sent events."""
        call.streams.check_room()
        return EventStream(self._lines(), call.streams, _line)

    async def _lines(self) -> AsyncGenerator[Sequence[tuple[str, Any]], None]:
        yield [("history", [asdict(point) for point in self.watcher.history])]
        async for portion in self.watcher.listen():
            yield [("look", told(seen)) for seen in portion]

    async def latest(self, call: Call) -> Response:
        """List runs, the newest first, with their use."""
        limit = max(1, number_of(call.query("limit"), "limit", most=MOST_RUNS, default=20))
        found = await list_runs(
            call.runs.runtime,
            state=call.query("state") or None,
            team=call.query("team") or None,
            limit=limit,
            before=call.query("before") or None,
        )
        listed = [
            {
                **asdict(one),
                "id": door_id(one.team, one.conversation, one.run_id)
                if one.team and one.conversation
                else None,
            }
            for one in found
        ]
        return _plain({"runs": listed, "more": len(found) == limit})

    async def inbox(self, call: Call) -> Response:
        """List all open questions, the oldest first, also those of agents outside of runs."""
        await self._transport()
        asked = await call.runs.runtime.inputs.list()
        runs = {question.id: run.id for run, question in await call.runs.questions(call.identity)}
        return _plain([_question(one, runs.get(one.id)) for one in asked])

    async def dead(self, call: Call) -> Response:
        """List dead letters, the newest first, without what they carry."""
        limit = max(1, number_of(call.query("limit"), "limit", most=MOST_LETTERS, default=100))
        found = await deadletters.list_letters(await self._transport(), call.query("type") or None, limit)
        return _plain([_letter(one, whole=False) for one in found])

    async def letter(self, call: Call) -> Response:
        """Show a dead letter with what it carries, and its traceback."""
        named = call.request.path_params
        found = await deadletters.show(await self._transport(), named["type"], named["id"])
        if found is None:
            raise not_found("dead letter")
        return _plain(_letter(found, whole=True))

    async def busiest(self, call: Call) -> Response:
        """List the agents of a type for whom most messages wait. The server counts them: it is asked for, not watched."""
        named = call.request.path_params["type"]
        return _plain(await agents.hottest(await self._transport(), named, BUSIEST))

    async def agent(self, call: Call) -> Response:
        """Show all that is known of an agent, with its state. `unread=1` also counts what no worker has read yet."""
        named, is_whole = call.request.path_params, call.query("unread") in ("1", "true")
        found = await agents.agent(
            await self._transport(), named["type"], named["key"], state=True, unread=is_whole
        )
        shown: dict[str, Any] = asdict(found)
        if found.state is not None and len(found.state) > LONGEST:
            shown["state"] = None
        return _plain(shown)

    async def topics(self, call: Call) -> Response:
        """List topics, the longest first: some, with those where something waits, or with `all=1` up to 500, at length."""
        transport = await self._transport()
        is_whole = call.query("all") in ("1", "true")
        view = await (inspect.overview(transport) if is_whole else glance(transport))
        longest = sorted(view.topics, key=lambda one: (-one.length, one.type))[:MOST_TOPICS]
        return _plain({"at": view.at, "all": len(view.topics) + view.left_out.topics, "topics": longest})

    async def diary(self, call: Call) -> Response:
        """List what has happened in the namespace, the newest first."""
        transport = await self._transport()
        name = transport.keys.of("events")
        raws = await transport.admin.command("XREVRANGE", name, "+", "-", "COUNT", DIARY)
        return _plain([_entry(*raw) for raw in raws])

    # What is done

    async def answer(self, call: Call) -> Response:
        """Answer a question. The first answer counts."""
        given = read_as(Answer, call.request, await body_of(call.request, call.options))
        await self._transport()
        named = call.request.path_params["id"]
        await call.runs.runtime.inputs.answer(named, given.answer, by=call.identity.name)
        return answered(Done(done=True))

    async def replay(self, call: Call) -> Response:
        """Send dead letters again, each once."""
        given = read_as(Letters, call.request, await body_of(call.request, call.options))
        named = call.request.path_params["type"]
        return _plain(await deadletters.replay(await self._transport(), named, given.letters))

    async def discard(self, call: Call) -> Response:
        """Delete dead letters."""
        given = read_as(Letters, call.request, await body_of(call.request, call.options))
        named = call.request.path_params["type"]
        return _plain(await deadletters.discard(await self._transport(), named, given.letters))

    async def pause(self, call: Call) -> Response:
        """Pause an agent, a type or a topic, or let it go on."""
        given = read_as(Paused, call.request, await body_of(call.request, call.options))
        await self._transport()
        control, by = call.runs.runtime.control, call.identity.name
        if given.kind == "topic":
            order = control.pause_topic if given.paused else control.resume_topic
            return answered(Done(done=await order(given.name, by=by)))
        what: Any = AgentId.from_str(given.name) if given.kind == "agent" else given.name
        order_of: Any = control.pause if given.paused else control.resume
        return answered(Done(done=await order_of(what, by=by)))

    async def _transport(self) -> Any:
        await self.watcher.runtime.open()
        return self.watcher.runtime.transport


def _plain(value: Any) -> Response:
    told = pydantic_core.to_json(value, fallback=str, bytes_mode="base64", inf_nan_mode="null")
    return Response(told, headers=dict(SAFE), media_type="application/json")


def _line(one: tuple[str, Any]) -> bytes:
    kind, value = one
    return f"event: {kind}\ndata: {json.dumps(value)}\n\n".encode()


def _question(one: InputRequest, run: str | None) -> dict[str, Any]:
    return {
        "id": one.id,
        "run": run,
        "agent": str(one.agent),
        "question": one.question,
        "choices": list(one.choices),
        "schema": dict(one.schema),
        "details": dict(one.details),
        "to": list(one.to),
        "asked": one.asked,
        "expires": one.expires,
    }


def _letter(one: DeadLetterRecord, *, whole: bool) -> dict[str, Any]:
    shown = asdict(one)
    del shown["body"], shown["head"]
    if not whole:
        del shown["payload"], shown["traceback"]
        shown["error"] = one.error[:1000]
    return shown


def _entry(id: bytes, flat: Sequence[bytes]) -> dict[str, JsonValue]:
    words = [word.decode(errors="replace") for word in flat]
    return {"id": id.decode(), **dict(zip(words[::2], words[1::2], strict=False))}
