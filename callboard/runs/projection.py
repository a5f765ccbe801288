"""Words of agents and teams as the events of a run, what was said so far, and the context variables that travel along."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2s
from typing import Any, Final, TypeAlias, TypeGuard
from uuid import UUID, SafeUUID

from callboard.agents.base import Said
from callboard.errors import DeclarationError
from callboard.groupchat.context_variables import VARIABLES, ContextVariables, current_variables, standing
from callboard.groupchat.messages import ConversationMessage, as_message
from callboard.groupchat.model import VENDOR
from callboard.messages.chat import (
    BaseAgentEvent,
    BaseChatMessage,
    HandoffMessage,
    StopMessage,
    StructuredMessage,
    TextMessage,
    ToolCallSummaryMessage,
)
from callboard.messages.events import (
    AttemptEndedEvent,
    CodeExecutionEvent,
    InputAnsweredEvent,
    InputRequestedEvent,
    ModelClientStreamingChunkEvent,
    SelectSpeakerEvent,
    ThoughtEvent,
    ToolCallExecutionEvent,
    ToolCallRequestEvent,
    UserInputRequestedEvent,
)
from callboard.models.types import ENDED, ENDINGS

from .events import (
    AgentMessageEvent,
    AsyncInputRequestEvent,
    Event,
    HandoffEvent,
    InputRequestEvent,
    InputResponseEvent,
    Message,
    OutputEvent,
    SpeakerSelectedEvent,
    StreamEvent,
    SystemEvent,
    ToolCallEvent,
    ToolResultEvent,
    UsageEvent,
)

Part: TypeAlias = tuple[type[Event] | None, dict[str, Any]]
"""The class of an event, and what it says; None: a question, whose class depends on the readers."""

RUN_BITS: Final = 64  # of an event's uuid that say which run it is; the others are its number
DRAFT: Final = 1 << 63  # in a uuid: the same number may be a draft's, and one that counts
_set: Final = object.__setattr__  # of what is frozen
MODEL: Final = "model"
"""Where the metadata of a message names the model that was asked."""


class Projection:
    """Makes the events of one run.

    Args:
        run_id: The run.
        is_async: Whether its questions are for async readers.
    """

    def __init__(self, run_id: str, *, is_async: bool = False) -> None:
        self.run_id = run_id
        self.asks_as = AsyncInputRequestEvent if is_async else InputRequestEvent
        digest = blake2s(run_id.encode("utf-8", "surrogatepass"), digest_size=RUN_BITS // 8).digest()
        self._base = int.from_bytes(digest, "big") << RUN_BITS

    def make(
        self, kind: type[Event], number: int, at: datetime, fields: dict[str, Any], is_draft: bool = False
    ) -> Event:
        """One event.

        Args:
            kind: Its class.
            number: Its place in the run.
            at: When it happened.
            fields: What it says.
            is_draft: Whether it may not count.
        """
        values = {
            **_defaults(kind),
            **fields,
            "uuid": _uuid(self._base + (number + DRAFT if is_draft else number)),
            "run_id": self.run_id,
            "number": number,
            "at": at,
            "is_draft": is_draft,
        }
        return _built(kind, values)

    def of(self, said: Said, number: int, at: datetime, *, is_draft: bool = False) -> list[Event]:
        """The events of a message, whose numbers follow each other.

        Args:
            said: What was said.
            number: Of the first event.
            at: When it was said.
            is_draft: Whether it may not count.
        """
        events: list[Event] = []
        for kind, fields in _parts(said):
            fields["source"] = said.source
            events.append(self.make(kind or self.asks_as, number + len(events), at, fields, is_draft))
        return events


def _uuid(value: int) -> UUID:
    """The same as `UUID(int=value)`, without its many questions: they take longer than the rest of an event."""
    made = UUID.__new__(UUID)
    _set(made, "int", value)
    _set(made, "is_safe", SafeUUID.unknown)
    return made


@cache
def _defaults(kind: type[Event]) -> dict[str, Any]:
    """The fields that `make` sets in the class's own way: its type, and those that an event need not give."""
    by_make = ("uuid", "run_id", "number", "at", "is_draft")
    fields = kind.model_fields.items()
    return {name: field.default for name, field in fields if not field.is_required() and name not in by_make}


@cache
def _names(kind: type[Event]) -> set[str]:
    """The names of all its fields: an event is frozen, so all of a class share them."""
    return set(kind.model_fields)


def _built(kind: type[Event], fields: dict[str, Any]) -> Event:
    """An event of values that were checked when the message was read: checking them again takes most of the time."""
    if kind.__private_attributes__:
        return kind(**fields)
    event = kind.__new__(kind)
    _set(event, "__dict__", fields)
    _set(event, "__pydantic_fields_set__", _names(kind))
    _set(event, "__pydantic_extra__", None)
    _set(event, "__pydantic_private__", None)
    return event


def message_of(said: BaseChatMessage) -> Message:
    """A message as plain data, with the RFC's names beside those of group chats."""
    data = {name: value for name, value in as_message(said).items() if name != VENDOR}
    message = {"text": said.to_text(), "sender": said.source, "id": said.id, **data}
    if isinstance(said, StructuredMessage):
        message["data"] = said.content.model_dump(mode="json")
    return message


def _parts(said: Said) -> list[Part]:
    parts = _SHOWN.get(type(said), _other)(said)
    if ending := ENDINGS.get(said.metadata.get(ENDED, "")):
        parts.append((SystemEvent, {"value": ending}))
    usage = said.models_usage
    if usage is not None and not isinstance(said, ModelClientStreamingChunkEvent):
        model = said.metadata.get(MODEL, "")
        tokens = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens}
        parts.append((UsageEvent, {"model": model, **tokens}))
    return parts


def _other(said: Said) -> list[Part]:
    return _message(said) if isinstance(said, BaseChatMessage) else [(SystemEvent, {"value": said.to_text()})]


def _message(said: BaseChatMessage) -> list[Part]:
    return [(AgentMessageEvent, {"message": message_of(said)})]


def _text(said: TextMessage) -> list[Part]:
    """The most frequent one, and the same as `_message`: nothing of its class can say anything else."""
    content, source = said.content, said.source
    rfc = {"text": content, "sender": source, "id": said.id}
    return [(AgentMessageEvent, {"message": {**rfc, "content": content, "role": "user", "name": source}})]


def _conversation(said: ConversationMessage) -> list[Part]:
    """A message of a group chat, which may call functions, or answer calls."""
    data = said.data
    calls: list[Mapping[str, Any]] = list(data.get("tool_calls") or ())
    answers: list[Mapping[str, Any]] = list(data.get("tool_responses") or ())
    parts = _message(said) if not answers and (said.to_text() or not calls) else []
    for call in calls:
        function = call.get("function", {})
        called = {"name": function.get("name", ""), "arguments": function.get("arguments", "")}
        parts.append((ToolCallEvent, {"call_id": call.get("id", ""), **called}))
    for answer in answers:
        returned = {"name": answer.get("name", ""), "content": str(answer.get("content", ""))}
        parts.append((ToolResultEvent, {"call_id": answer.get("tool_call_id", ""), **returned}))
    return parts


def _stop(said: StopMessage) -> list[Part]:
    return [(SystemEvent, {"value": said.content})]


def _handoff(said: HandoffMessage) -> list[Part]:
    return [(HandoffEvent, {"target": said.target, "content": said.content})]


def _calls(said: ToolCallRequestEvent) -> list[Part]:
    return [
        (ToolCallEvent, {"call_id": call.id, "name": call.name, "arguments": call.arguments})
        for call in said.content
    ]


def _results(said: ToolCallExecutionEvent) -> list[Part]:
    return [
        (
            ToolResultEvent,
            {
                "call_id": result.call_id,
                "name": result.name,
                "content": result.content,
                "is_error": bool(result.is_error),
            },
        )
        for result in said.content
    ]


def _piece(said: ModelClientStreamingChunkEvent) -> list[Part]:
    return [(StreamEvent, {"content": said.content, "message_id": said.full_message_id or ""})]


def _speakers(said: SelectSpeakerEvent) -> list[Part]:
    return [(SpeakerSelectedEvent, {"speakers": tuple(said.content)})]


def _output(said: CodeExecutionEvent) -> list[Part]:
    return [(OutputEvent, {"value": said.to_text()})]


def _sentence(said: AttemptEndedEvent | ThoughtEvent) -> list[Part]:
    return [(SystemEvent, {"value": f"{said.source}: {said.content}"})]


def _question(said: InputRequestedEvent) -> list[Part]:
    fields = {
        "prompt": said.content,
        "request_id": said.request_id,
        "choices": tuple(said.choices),
        "answer_schema": said.answer_schema,
        "details": said.details,
        "expires": None if said.timeout is None else said.created_at + timedelta(seconds=said.timeout),
    }
    return [(None, fields)]


def _answer(said: InputAnsweredEvent) -> list[Part]:
    value = json.loads(said.content) if said.content else None
    fields = {"value": value, "request_id": said.request_id, "by": said.by, "status": said.status}
    return [(InputResponseEvent, fields)]


def _nothing(said: UserInputRequestedEvent) -> list[Part]:
    """The question itself is an event of its own."""
    return []


_SHOWN: Final[Mapping[type[Any], Callable[[Any], list[Part]]]] = {
    ConversationMessage: _conversation,
    TextMessage: _text,
    StopMessage: _stop,
    HandoffMessage: _handoff,
    ToolCallSummaryMessage: _message,
    ToolCallRequestEvent: _calls,
    ToolCallExecutionEvent: _results,
    ModelClientStreamingChunkEvent: _piece,
    SelectSpeakerEvent: _speakers,
    CodeExecutionEvent: _output,
    AttemptEndedEvent: _sentence,
    ThoughtEvent: _sentence,
    UserInputRequestedEvent: _nothing,
    InputRequestedEvent: _question,
    InputAnsweredEvent: _answer,
}


class SoFar:
    """A run while it goes on, as `ChatManagerProtocol.get_next_agent` sees it.

    Attributes:
        said: Everything that was said and happened.
        messages: What the agents and those outside have said to each other.
        context_variables: What the agents know besides.
    """

    def __init__(self) -> None:
        self.said: list[Said] = []
        self.messages: list[Message] = []
        self.context_variables = ContextVariables()

    def add(self, said: Sequence[Said]) -> None:
        """More was said."""
        self.said.extend(said)
        apply(self.context_variables, said)
        self.messages += [message_of(one) for one in said if is_message(one)]

    @property
    def last_speaker(self) -> str:
        """The speaker of the last message, perhaps one from outside; "": there is none."""
        return self.messages[-1]["sender"] if self.messages else ""

    @property
    def last_target(self) -> str:
        """To whom the last one who spoke has handed over; "": to none."""
        last = next((one for one in reversed(self.said) if isinstance(one, BaseChatMessage)), None)
        return last.target if isinstance(last, HandoffMessage) else ""

    @property
    def summary(self) -> str:
        """The text of the last message."""
        return str(self.messages[-1]["text"]) if self.messages else ""

    @property
    def events(self) -> list[Event]:
        """The same as events."""
        projection, at, events = Projection(""), datetime.now(UTC), list[Event]()
        for one in self.said:
            events += projection.of(one, len(events) + 1, at)
        return events


def is_message(said: Said) -> TypeGuard[BaseChatMessage]:
    """Whether something is one of the messages of a run: no handoff, and no word of the end."""
    return isinstance(said, BaseChatMessage) and not isinstance(said, HandoffMessage | StopMessage)


def context_variables() -> ContextVariables:
    """The context variables of the run, for functions that its agents call. What is changed, the agents after this one know.

    Outside a run: an empty set of variables.
    """
    return current_variables()


def as_json(values: Mapping[str, Any]) -> dict[str, str]:
    """Each of some variables as JSON.

    Raises:
        DeclarationError: One is no plain data (a ValueError).
    """
    if not isinstance(values, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance] - programs without types
        raise _not_kept("context_variables", f"a {type(values).__name__} has no names")
    return {_checked(name): _json(name, value) for name, value in values.items()}


def written(values: Mapping[str, str]) -> dict[str, str]:
    """Variables, each as JSON, as metadata of a message; nothing, where there are none."""
    if not values:
        return {}
    pairs = ", ".join(f"{json.dumps(name)}: {text}" for name, text in values.items())
    return {VARIABLES: f"{{{pairs}}}"}


def changes(before: Mapping[str, str], after: Mapping[str, Any]) -> dict[str, str]:
    """The variables that are new or different since a snapshot, each as JSON; removed ones are null.

    Raises:
        DeclarationError: One of them is no plain data (a ValueError).
    """
    new = {name: value for name, value in after.items() if before.get(name) != standing(value)}
    return {**dict.fromkeys(before.keys() - after.keys(), "null"), **as_json(new)}


def apply(variables: ContextVariables, said: Iterable[BaseChatMessage | BaseAgentEvent]) -> None:
    """Take over what messages say that was changed."""
    for message in said:
        text = message.metadata.get(VARIABLES)
        for key, value in (json.loads(text) if text else {}).items():
            if value is None:
                variables.remove(key)
            else:
                variables[key] = value


def _not_kept(name: str, reason: str) -> DeclarationError:
    return DeclarationError(
        f"The context variable {name} can't be kept: {reason}. Its value has to fit into JSON: "
        f"texts, numbers, lists, dictionaries, true, false."
    )


def _checked(name: object) -> str:
    if not isinstance(name, str):
        raise _not_kept(repr(name), f"its name is a {type(name).__name__}, and not a text")
    return name


def _json(name: str, value: Any) -> str:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_kept(repr(name), str(error)) from error
