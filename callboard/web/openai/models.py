"""Models: the services."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from callboard.web.api import Call

from .answers import Refusal, as_json


def _model(name: str, description: str) -> dict[str, Any]:
    # Nothing says since when a service is there; clients want a number.
    return {"id": name, "object": "model", "created": 0, "owned_by": "callboard", "description": description}


async def list_models(call: Call) -> Response:
    """List the services."""
    found = call.runs.services(call.identity).items()
    return as_json({"object": "list", "data": [_model(*one) for one in found]})


async def show_model(call: Call) -> Response:
    """Show a service."""
    name, found = call.request.path_params["id"], call.runs.services(call.identity)
    if name not in found:
        raise Refusal(404, f"there is no model {name!r}, or not for you", "model_not_found", "model")
    return as_json(_model(name, found[name]))
