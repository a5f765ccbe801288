"""Webhooks that leave: a receiver is told that a run has ended, or asks a person, until it has taken it.

A webhook is one message to an agent type of its own, so the bus delivers it: it leaves with the commit that ends the run, is
tried again after a pause, and is a dead letter at last. Nothing of it is in the process of a door.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import blake2s
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, Unpack
from urllib.parse import urlsplit

from callboard.app import App, DeclaredTeam
from callboard.broker.ids import AgentId
from callboard.broker.retry import RetryPolicy
from callboard.core.context import MessageContext
from callboard.core.declaration import AgentOptions, AgentSettings
from callboard.core.handlers import RoutedAgent, event
from callboard.core.resources import resource
from callboard.errors import SettingValueError
from callboard.foundation import MissingPackageError
from callboard.foundation.addresses import is_private, public_transport
from callboard.foundation.component import ComponentNotAllowedError
from callboard.runs.outside import TENANT, door_id, outside
from callboard.teams.notices import RunNotice
from callboard.teams.protocol import stream_of

from .errors import WebhookAddressError, WebhookFailedError, WebhookGoneError
from .secrets import Secret, keys_of, standard_key
from .signatures import STANDARD_RULE, signed

if TYPE_CHECKING:
    import httpx2

EventName: TypeAlias = Literal["run.ended", "run.question"]
EVENTS: Final[tuple[EventName, ...]] = ("run.ended", "run.question")

RETRY: Final = RetryPolicy(max_attempts=20, base=5.0, cap=21_600.0)
"""Pauses of 5 s at first and of 6 hours at last, for about two days."""

LONGEST: Final = 15.0  # seconds for one attempt
GONE: Final = 410


def webhook(
    app: App,
    name: str,
    url: str,
    *,
    teams: Sequence[DeclaredTeam],
    secret: Secret,
    on: Collection[EventName] = EVENTS,
    tenant: str = "",
    allow_private: bool = False,
    timeout: float = LONGEST,
    **settings: Unpack[AgentOptions],
) -> None:
    """Declare that a receiver is told what becomes of the runs of teams, whoever begins them.

    ```python
    webhook(app, "crm", "https://crm.example/told", teams=[desk], secret=lambda: os.environ["CRM_SECRET"])
    ```

    It is a POST by the rules of Standard Webhooks, and taken when it is answered 2xx. Workers of the agent type `name`
    send it; a worker that dies may send it twice, with one `webhook-id`. Those of one run come in order. Redirects are
    not followed, and proxies of the environment not used.

    Args:
        app: The app.
        name: The agent type.
        url: Of the receiver: https, or http with `allow_private`.
        teams: Whose runs; `App.team` has declared them.
        secret: Signs: ``whsec_`` and 24 to 64 bytes in base64, as `new_secret` makes one; several sign together, while one
            takes the place of another; a function gives it when it is needed.
        on: What is told: "run.ended", in whatever way, and "run.question", when a run asks a person.
        tenant: Only the runs of this tenant, whose conversations are named without it; "": all runs.
        allow_private: Also send to private addresses, and without TLS.
        timeout: Seconds for an attempt.
        **settings: The fields of AgentSettings. Without `retry` it is tried 20 times, in about two days.

    Raises:
        SettingValueError: A value can't work (a ValueError).
        UnknownNameError: A team is not declared (a LookupError).
        DuplicateAgentTypeError: The name is taken (a ValueError).
    """
    hook = Webhook(name, url, secret, frozenset(on), tenant, allow_private, timeout)
    limits = AgentSettings.of({"retry": RETRY, **settings})
    app.register(name, lambda: WebhookSender(hook), expected_class=WebhookSender, settings=limits)
    app.resource(name=hook.connections, types=[name])(hook.opened)
    for team in teams:
        app.hear(team, name)


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook that leaves; see `webhook`.

    Raises:
        SettingValueError: A value can't work (a ValueError).
    """

    name: str
    url: str = field(repr=False)
    secret: Secret = field(repr=False)
    on: frozenset[str]
    tenant: str
    allow_private: bool
    timeout: float

    def __post_init__(self) -> None:
        """Refuse what would fail only when the first run ends."""
        parts = urlsplit(self.url)
        if (
            parts.scheme not in (("https", "http") if self.allow_private else ("https",))
            or not parts.hostname
        ):
            # The rest of an address may be a secret.
            shown = f"{parts.scheme}://{parts.hostname or ''}/..."
            raise SettingValueError(
                "url", repr(shown), "https://...; with allow_private=True it may be http://..."
            )
        if not self.allow_private and is_private(parts.hostname):
            raise SettingValueError("url", repr(parts.hostname), "public, unless allow_private=True is given")
        if unknown := self.on - set(EVENTS):
            raise SettingValueError("on", repr(min(unknown)), f"some of {', '.join(EVENTS)}")
        if self.tenant and not TENANT.fullmatch(self.tenant):
            raise SettingValueError(
                "tenant", repr(self.tenant), "1 to 40 letters, digits, '_' and '-', or nothing"
            )
        if not self.timeout > 0:
            raise SettingValueError("timeout", repr(self.timeout), "a number of seconds above 0")
        if not callable(self.secret):
            self.keys()

    @property
    def host(self) -> str:
        """The receiver, as errors name it."""
        return urlsplit(self.url).hostname or ""

    @property
    def connections(self) -> str:
        """Name of the resource that sends."""
        return f"webhook {self.name}"

    def keys(self) -> tuple[bytes, ...]:
        """The keys to sign with.

        Raises:
            SettingValueError: The secret is none (a ValueError).
        """
        return keys_of(self.secret, standard_key, STANDARD_RULE)

    async def opened(self) -> AsyncIterator[Any]:
        """The connections of a process to this receiver.

        No client stands before them: it would follow redirects and use proxies where it is told to, and logs addresses, of
        which a part may be a secret.
        """
        try:
            import httpx2
        except ModuleNotFoundError:
            raise MissingPackageError("httpx2", "http") from None
        # guard: a webhook reaches public addresses only
        transport = httpx2.AsyncHTTPTransport() if self.allow_private else public_transport()
        async with transport:
            yield transport

    def told(self, notice: RunNotice) -> tuple[str, bytes] | None:
        """The id and the body of what is sent, the same in every attempt; None: nothing is."""
        is_asking = notice.state == "input_required"
        kind: EventName = "run.question" if is_asking else "run.ended"
        conversation = outside(self.tenant, notice.conversation)
        # guard: a receiver hears of its own tenant only
        if conversation is None or kind not in self.on:
            return None
        data: dict[str, Any] = {
            "id": door_id(notice.team, conversation, notice.run_id),
            "service": notice.team,
            "conversation": conversation,
            "run_id": notice.run_id,
            "state": notice.state,
            "text": notice.text,
        }
        if is_asking:
            data["question"] = notice.input_id
        else:
            data |= {"stop_reason": notice.stop_reason, "error": notice.problem or None}
        at = datetime.fromtimestamp(notice.at, UTC).isoformat(timespec="milliseconds")
        body = {"type": kind, "timestamp": at.replace("+00:00", "Z"), "data": data}
        return _id_of(notice), json.dumps(body, separators=(",", ":")).encode()


def _id_of(notice: RunNotice) -> str:
    """The id of an event: derived from the run and what happened, so that whoever sends it again sends the same one."""
    stream = stream_of(AgentId(notice.team, notice.conversation), notice.run_id)
    what = f"{stream}\0{notice.input_id or 'end'}"
    return f"msg_{blake2s(what.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


class WebhookSender(RoutedAgent):
    """Sends the webhooks of one run.

    Args:
        hook: The webhook.
    """

    def __init__(self, hook: Webhook) -> None:
        super().__init__(f"tells {hook.host} what becomes of runs")
        self._hook = hook

    @event
    async def on_notice(self, message: RunNotice, ctx: MessageContext) -> None:
        """Send one.

        Raises:
            WebhookFailedError: It was not taken.
            WebhookGoneError: It is not wanted.
            WebhookAddressError: It leads to a private address.
        """
        told = self._hook.told(message)
        if told is not None:
            await _post(self._hook, resource(self._hook.connections), *told)


async def _post(hook: Webhook, by: httpx2.AsyncBaseTransport, webhook_id: str, body: bytes) -> None:
    import httpx2

    headers = {
        "content-type": "application/json",
        "user-agent": "callboard",
        **signed(hook.keys(), webhook_id, int(time.time()), body),
    }
    try:
        # For all of it: an answer may come one byte at a time.
        async with asyncio.timeout(hook.timeout):
            answer = await by.handle_async_request(
                httpx2.Request("POST", hook.url, content=body, headers=headers)
            )
            await answer.aclose()
            status, after = answer.status_code, answer.headers.get("retry-after", "")
    except TimeoutError:
        raise WebhookFailedError(hook.name, hook.host, f"no answer in {hook.timeout:g} s") from None
    except ComponentNotAllowedError:
        raise WebhookAddressError(hook.name, hook.host) from None
    except httpx2.InvalidURL:  # its text has the address
        raise WebhookFailedError(hook.name, hook.host, "its address is none") from None
    except httpx2.TransportError as error:
        reason = f"{type(error).__name__}: {str(error)[:200]}"
        raise WebhookFailedError(hook.name, hook.host, reason) from None
    if status == GONE:
        raise WebhookGoneError(hook.name, hook.host)
    # guard: only 2xx is a yes
    if not 200 <= status < 300:
        reason = f"it answered {status}"
        raise WebhookFailedError(hook.name, hook.host, reason, _seconds(after))


def _seconds(retry_after: str) -> float:
    """Seconds that a receiver asks to wait, which may also be said as a date; 0: none."""
    if retry_after.isascii() and retry_after.isdecimal():
        return float(retry_after)
    try:
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except ValueError:
        return 0.0
