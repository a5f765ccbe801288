"""Who looks at the dashboard: a token in the address that the command prints becomes a cookie of the browser."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from callboard.web.access import OPERATE, SCOPES, DoorOptions, Identity, Tokens
from callboard.web.problems import SAFE, Problem
from callboard.web.requests import body_of, check_origin, json_of

LASTS: Final = 12 * 3600  # seconds
PAUSE: Final = 0.2  # seconds after each try that failed, one after the other: five a second
EVERYTHING: Final = frozenset({*SCOPES, OPERATE})
READING: Final = frozenset({"read"})


@dataclass
class SignIn:
    """Knows tokens, and the browsers that came with one.

    A cookie is the token's hash under a key of this process: it is good as long as the process runs, and is not the token.

    Args:
        tokens: Who may come in.
        options: The rules of the door.
    """

    tokens: Tokens
    options: DoorOptions
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    _known: dict[str, Identity] = field(default_factory=dict[str, Identity])
    _one_try: asyncio.Lock = field(default_factory=asyncio.Lock)

    def who(self, request: Request) -> Identity | None:
        """Whose request it is; None: nobody's."""
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._of(token.strip())
        return self._known.get(request.cookies.get(self._cookie(request), ""))

    async def sign_in(self, request: Request) -> Response:
        """Take a token, and set the cookie."""
        check_origin(request, self.options)
        given = json_of(request, await body_of(request, self.options))
        token = given.get("token") if isinstance(given, dict) else None
        found = self._of(token) if isinstance(token, str) else None
        if found is None:
            async with self._one_try:
                await asyncio.sleep(PAUSE)
            raise Problem(
                401, "this token is not known here; `callboard dashboard` prints one when it begins"
            )
        name = hmac.new(self._key, str(token).encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()
        self._known[name] = found
        answer = JSONResponse({"name": found.name, "scopes": sorted(found.scopes)}, headers=dict(SAFE))
        answer.set_cookie(
            self._cookie(request),
            name,
            max_age=LASTS,
            httponly=True,
            samesite="strict",
            secure=request.url.scheme == "https",
        )
        return answer

    def _of(self, token: str) -> Identity | None:
        """Whose token it is, if it is one for all of the namespace."""
        found = self.tokens.identity_of(token)
        # What is shown here is of all tenants, and of all services.
        return None if found is None or found.tenant or found.services is not None else found

    @staticmethod
    def _cookie(request: Request) -> str:
        # Cookies are shared by all ports of a host.
        return f"callboard-{request.url.port or request.url.scheme}"
