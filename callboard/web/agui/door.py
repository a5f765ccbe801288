"""The addresses of the AG-UI door."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as WebRoute

from callboard.foundation import CallboardError
from callboard.web.access import DoorOptions
from callboard.web.api import Call
from callboard.web.event_stream import Streams
from callboard.web.problems import Problem, problem_of
from callboard.web.requests import check_origin, identity_of
from callboard.web.served_runs import ServedRuns

from .pages import connect, run

Does = Callable[[Call], Awaitable[Response]]
LINES: Final[tuple[tuple[str, Does], ...]] = (
    ("/agui/{service}", run),
    ("/agui/{service}/connect", connect),
)


def routes(runs: ServedRuns, streams: Streams, options: DoorOptions) -> list[WebRoute]:
    """The routes of the door. What goes wrong before a run is told by the status of HTTP, as problem details.

    Args:
        runs: The runs that there are.
        streams: Those of this process.
        options: The rules of the door.
    """

    async def answer(does: Does, request: Request) -> Response:
        try:
            check_origin(request, options)
            # Whatever is asked for, the answer says how a run stands.
            identity = await identity_of(request, options, "read")
            return await does(Call(request, identity, runs, streams, options))
        except CallboardError as error:
            problem = problem_of(error)
            if problem is None:
                raise
            return problem.response()
        except Problem as problem:
            return problem.response()

    def endpoint(does: Does) -> Callable[[Request], Awaitable[Response]]:
        answered = partial(answer, does)

        async def told(request: Request) -> Response:
            return await answered(request)

        return told

    return [WebRoute(path, endpoint(does), methods=["POST"]) for path, does in LINES]
