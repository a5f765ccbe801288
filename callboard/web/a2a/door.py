"""The addresses of the A2A door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.types import AgentCard
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route as WebRoute

from callboard.web.access import DoorOptions
from callboard.web.api import Call
from callboard.web.event_stream import Streams
from callboard.web.problems import SAFE, Problem
from callboard.web.requests import check_origin, identity_of
from callboard.web.served_runs import ServedRuns

from .bindings import OPERATIONS, rest, rest_error, rpc, rpc_error
from .cards import PREFIX, WELL_KNOWN, card_of, only_card

METHODS: Final = ("GET", "POST", "DELETE", "PUT", "PATCH")
Does = Callable[[Call], Awaitable[Response]]
Refuse = Callable[[Exception], Response]


def routes(runs: ServedRuns, streams: Streams, options: DoorOptions) -> list[WebRoute]:
    """The routes of the door, the last of which refuses what is not there in the protocol's form.

    Args:
        runs: The runs that there are.
        streams: Those of this process.
        options: The rules of the door.
    """

    def endpoint(does: Mapping[str, Does], refuse: Refuse) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                check_origin(request, options)
                one = does.get(request.method)
                if one is None:
                    raise Problem(405 if does else 404, f"there is no {request.method} at this address")
                # Whatever is asked for, the answer says how a run stands.
                identity = await identity_of(request, options, "read")
                return await one(Call(request, identity, runs, streams, options))
            except Problem as problem:
                return refuse(problem)

        return answer

    by_path: dict[str, dict[str, Does]] = {WELL_KNOWN: {"GET": _card}}
    for one in OPERATIONS:
        by_path.setdefault(f"{PREFIX}/{{service}}{one.path}", {})[one.verb] = partial(rest, operation=one)
    by_path[f"{PREFIX}/{{service}}{WELL_KNOWN}"] = {"GET": _card}
    by_path[PREFIX + "/{rest:path}"] = {}
    made = [WebRoute(path, endpoint(does, rest_error), methods=METHODS) for path, does in by_path.items()]
    return [WebRoute(f"{PREFIX}/{{service}}", endpoint({"POST": rpc}, rpc_error), methods=METHODS), *made]


async def _card(call: Call) -> Response:
    service = call.request.path_params.get("service")
    card: AgentCard = only_card(call) if service is None else card_of(call, service)
    return JSONResponse(agent_card_to_dict(card), headers=dict(SAFE))
