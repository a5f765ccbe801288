"""Names of a run outside: its id at a door, and its conversation as those of a tenant name it."""

from __future__ import annotations

import base64
import json
import re
from typing import Final

TENANT: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
OUTSIDE: Final = ":"  # between a tenant and its conversation; no tenant's name has it


def inside(tenant: str, conversation: str) -> str:
    """A conversation as it is kept, by the name that a tenant gives it; "": the house itself."""
    return f"{tenant}{OUTSIDE}{conversation}" if tenant else conversation


def outside(tenant: str, kept: str) -> str | None:
    """A conversation as a tenant names it, by the name that it is kept under; None: it is of another tenant."""
    if not tenant:
        return kept
    found, colon, conversation = kept.partition(OUTSIDE)
    return conversation if colon and found == tenant else None


def door_id(service: str, conversation: str, run_id: str) -> str:
    """The id at a door of a run that a program began, to be handed to a client.

    Args:
        service: Name of the team.
        conversation: Its id, as who reads the run names it: without the tenant.
        run_id: Id of the run in it.
    """
    told = json.dumps([service, conversation, run_id], ensure_ascii=False)
    return base64.urlsafe_b64encode(told.encode()).decode().rstrip("=")
