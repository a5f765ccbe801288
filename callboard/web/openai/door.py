"""The addresses of the OpenAI-compatible door, and what goes wrong at them in OpenAI's form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, NamedTuple

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

from .answers import told
from .chat import complete, retrieve_completion
from .models import list_models, show_model
from .responses import cancel, create, retrieve


class Line(NamedTuple):
    """An address.

    Attributes:
        method: Of HTTP.
        path: Under /v1.
        scope: What one has to be allowed.
        does: Answers it.
    """

    method: str
    path: str
    scope: Literal["read", "run"]
    does: Callable[[Call], Awaitable[Response]]


LINES: Final = (
    Line("GET", "/models", "read", list_models),
    Line("GET", "/models/{id:path}", "read", show_model),
    Line("POST", "/chat/completions", "run", complete),
    Line("GET", "/chat/completions/{id}", "read", retrieve_completion),
    Line("POST", "/responses", "run", create),
    Line("GET", "/responses/{id}", "read", retrieve),
    Line("POST", "/responses/{id}/cancel", "run", cancel),
)


def routes(runs: ServedRuns, streams: Streams, options: DoorOptions) -> list[WebRoute]:
    """The routes of the door, the last of which refuses what is not there in OpenAI's form.

    Args:
        runs: The runs that there are.
        streams: Those of this process.
        options: The rules of the door.
    """

    def endpoint(lines: Sequence[Line]) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            try:
                check_origin(request, options)
                line = next((one for one in lines if one.method == request.method), None)
                if line is None:
                    raise Problem(405 if lines else 404, f"there is no {request.method} at this address")
                identity = await identity_of(request, options, line.scope)
                return await line.does(Call(request, identity, runs, streams, options))
            except Problem as problem:
                return told(problem)
            except CallboardError as error:
                known = problem_of(error)
                if known is None:
                    raise
                return told(known)

        return answer

    by_path: dict[str, list[Line]] = {}
    for line in LINES:
        by_path.setdefault(line.path, []).append(line)
    made = [WebRoute(f"/v1{path}", endpoint(lines), methods=METHODS) for path, lines in by_path.items()]
    return [*made, WebRoute("/v1/{rest:path}", endpoint(()), methods=METHODS)]


METHODS: Final = ("GET", "POST", "DELETE", "PUT", "PATCH")
