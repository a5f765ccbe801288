"""Cards: what an agent is, and where it is reached."""

from __future__ import annotations

from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    HTTPAuthSecurityScheme,
    SecurityRequirement,
    SecurityScheme,
    StringList,
)
from a2a.utils.constants import PROTOCOL_VERSION_1_0, TransportProtocol
from starlette.requests import Request

import callboard
from callboard.web.access import Tokens
from callboard.web.api import Call
from callboard.web.problems import not_found

from .messages import INPUTS, OUTPUTS

PREFIX = "/a2a"
WELL_KNOWN = "/.well-known/agent-card.json"


def card_of(call: Call, service: str) -> AgentCard:
    """The card of a service.

    Raises:
        Problem: It is not served to this one.
    """
    described = call.runs.services(call.identity)
    if service not in described:
        raise not_found(f"service {service!r}")
    text = described[service] or f"A run of the team {service}."
    bindings = (TransportProtocol.JSONRPC, TransportProtocol.HTTP_JSON)
    address = f"{address_of(call.request)}{PREFIX}/{service}"
    card = AgentCard(
        name=service,
        description=text,
        version=callboard.__version__,
        supported_interfaces=[
            AgentInterface(url=address, protocol_binding=binding, protocol_version=PROTOCOL_VERSION_1_0)
            for binding in bindings
        ],
        capabilities=AgentCapabilities(streaming=True, push_notifications=False, extended_agent_card=False),
        default_input_modes=INPUTS,
        default_output_modes=OUTPUTS,
        skills=[AgentSkill(id=service, name=service, description=text, tags=["team"])],
    )
    if isinstance(call.options.access, Tokens):
        card.security_schemes["token"].CopyFrom(
            SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer"))
        )
        card.security_requirements.append(SecurityRequirement(schemes={"token": StringList()}))
    return card


def only_card(call: Call) -> AgentCard:
    """The card of the only service that there is for this one.

    Raises:
        Problem: There is not exactly one.
    """
    names = list(call.runs.services(call.identity))
    if len(names) != 1:
        places = ", ".join(f"{PREFIX}/{name}{WELL_KNOWN}" for name in names)
        raise not_found(f"card here: each agent has its own: {places}" if names else "agent")
    return card_of(call, names[0])


def address_of(request: Request) -> str:
    """Where the door is, as the client reaches it; in another application that is a path in it."""
    return f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"
