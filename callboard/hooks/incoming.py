"""Webhooks that come in: what others have signed becomes a message, once for each of their ids."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from callboard.broker.ids import AGENT_TYPE, TopicId
from callboard.errors import SettingValueError

from .secrets import Secret, keys_of
from .signatures import SCHEMES, SchemeName

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.core.protocol import MessageType

ANY: Final = ""  # the kind of what becomes one class, whatever happened


def incoming_webhook(
    app: App,
    name: str,
    *,
    topic: str | TopicId,
    message: MessageType | Mapping[str, MessageType],
    secret: Secret,
    scheme: SchemeName = "standard",
    key: Callable[[Any], str] | None = None,
) -> IncomingWebhook:
    """Declare that what others post to ``/hooks/NAME`` of a door becomes a message.

    ```python
    incoming_webhook(
        app, "github", topic="pushes", message={"push": Push}, scheme="github",
        secret=lambda: os.environ["GITHUB_SECRET"], key=lambda push: push.repository.full_name,
    )
    ```

    The sender hears that it was taken (204) when the server has the message. One with an id that was taken in the last day
    (`dedupe_window`) is taken, and dropped. With the scheme "github" anybody who got hold of one can send it again:
    GitHub signs neither its id nor a time.

    Args:
        app: The app.
        name: Letters, digits, ``_``, ``-`` and ``.``.
        topic: Topic type, or a topic.
        message: What the body is read as, which may have fewer fields; or that by what has happened: GitHub's event, such
            as "push", or the field `type` of the body. What is not among these is taken, and dropped.
        secret: What the sender signs with; several, while one takes the place of another; or a function that gives it
            when it is needed, such as ``lambda: os.environ["SECRET"]``.
        scheme: "standard" (Standard Webhooks, with a secret that begins with ``whsec_``), "github" or "stripe". With the
            first and the last one, what was sent more than five minutes ago is refused.
        key: Key of the topic, from the message; None: "default".

    Returns:
        The webhook.

    Raises:
        SettingValueError: A value can't work, or another one has the name (a ValueError).
    """
    if not AGENT_TYPE.match(name):
        raise SettingValueError("name", repr(name), "letters, digits, '_', '-' and '.'")
    if scheme not in SCHEMES:
        raise SettingValueError("scheme", repr(scheme), f"one of {', '.join(SCHEMES)}")
    if isinstance(topic, TopicId) and key is not None:
        raise SettingValueError("key", "a function", "given with a topic type, not with a topic")
    kinds = dict(message) if isinstance(message, Mapping) else {ANY: message}
    hook = IncomingWebhook(name, topic, kinds, secret, scheme, key)
    if not callable(secret):
        hook.keys()
    app.receive(hook)
    return hook


class IncomingWebhook:
    """A webhook that comes in; see `incoming_webhook`, which makes it.

    Args:
        name: The last part of its address.
        topic: Topic type, or a topic.
        kinds: Classes of messages, by what has happened.
        secret: What the sender signs with.
        scheme: How.
        key: Key of the topic, from the message.
    """

    def __init__(
        self,
        name: str,
        topic: str | TopicId,
        kinds: Mapping[str, MessageType],
        secret: Secret,
        scheme: SchemeName,
        key: Callable[[Any], str] | None,
    ) -> None:
        self.name = name
        self._topic = topic
        self._kinds = kinds
        self._secret = secret
        self._scheme = SCHEMES[scheme]
        self._key = key
        self._adapters: dict[str, TypeAdapter[Any]] = {}

    @property
    def headers(self) -> Sequence[str]:
        """The headers that say who sent it, in small letters."""
        return self._scheme.headers

    @property
    def message_classes(self) -> Sequence[MessageType]:
        """What it becomes."""
        return tuple(self._kinds.values())

    def keys(self) -> tuple[bytes, ...]:
        """The keys, one of which has to have signed.

        Raises:
            SettingValueError: The secret is none (a ValueError).
        """
        return keys_of(self._secret, self._scheme.reading, self._scheme.rule)

    def check(self, headers: Mapping[str, str], body: bytes, now: float) -> str:
        """The id of one whose signature is good.

        Args:
            headers: Those that came with it, by names in small letters.
            body: What came, byte by byte.
            now: Unix time.

        Raises:
            WebhookSignatureError: It is not, or too old (a PermissionError).
            SettingValueError: The secret is none (a ValueError).
        """
        return self._scheme.check(headers, body, self.keys(), now)

    def message(self, headers: Mapping[str, str], found: Any) -> tuple[Any, TopicId] | None:
        """The message that a body is, and where it goes; None: nobody wants it.

        Args:
            headers: Those that came with it.
            found: The body, read as JSON.

        Raises:
            pydantic.ValidationError: It does not fit the class (a ValueError).
            InvalidIdError: The key can't be one (a ValueError).
        """
        kind = ANY if ANY in self._kinds else self._scheme.kind(headers, found)
        if kind not in self._kinds:
            return None
        made = self._adapter(kind).validate_python(found)
        if isinstance(self._topic, TopicId):
            return made, self._topic
        return made, TopicId(self._topic, "default" if self._key is None else self._key(made))

    def _adapter(self, kind: str) -> TypeAdapter[Any]:
        if kind not in self._adapters:
            self._adapters[kind] = TypeAdapter(self._kinds[kind])
        return self._adapters[kind]
