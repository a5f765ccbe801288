"""Answers in OpenAI's form: an object, or what went wrong, with a code for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from callboard.web.problems import SAFE, Problem

NO_RETRY: Final[Mapping[str, str]] = {"x-should-retry": "false"}
"""For `openai`, which else sends the request again by itself, and so would begin a second run."""

KINDS: Final[Mapping[int, tuple[str, str | None]]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("permission_error", None),
    404: ("invalid_request_error", "not_found"),
    409: ("conflict_error", None),
}
"""Types and codes by status, where these say more than that the request was wrong."""


class Refusal(Problem):
    """A problem with a code and a parameter.

    Args:
        status: Of HTTP.
        detail: A sentence for the one who asked.
        code: For programs.
        param: What of the request is meant; None: all of it.
        headers: More of the answer.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        code: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, detail, headers)
        self.code = code
        self.param = param


def as_json(body: Any, headers: Mapping[str, str] | None = None) -> Response:
    """An object as an answer."""
    content = json.dumps(body).encode()
    return Response(content, headers={**SAFE, **(headers or {})}, media_type="application/json")


def told(problem: Problem) -> Response:
    """A problem as OpenAI's clients read it."""
    # OpenAI answers 400 to all that can't be read.
    status = 400 if problem.status == 422 else problem.status
    body = json.dumps({"error": error_of(problem)}).encode()
    headers = {**SAFE, **problem.headers}
    return Response(body, status, headers, media_type="application/json")


def error_of(problem: Problem) -> dict[str, str | None]:
    """The object that describes a problem, in an answer or in a stream."""
    usual = "server_error" if problem.status >= 500 else "invalid_request_error"
    kind, code = KINDS.get(problem.status, (usual, None))
    param = None
    if isinstance(problem, Refusal):
        code, param = problem.code, problem.param
    return {"message": problem.detail, "type": kind, "param": param, "code": code}
