"""Approval of calls by people, and what they type as answers."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    GetJsonSchemaHandler,
    ValidationError,
    WithJsonSchema,
    model_validator,
)

from callboard.core.cancellation import CancellationToken
from callboard.core.context import MessageContext
from callboard.core.people import NO_DEFAULT, Question, ask_person
from callboard.errors import InputValueError, InputWithdrawnError
from callboard.foundation.texts import read_json

from .call import AskedCall
from .errors import CallRefusedError

# What `_read` below understands, as a part of a JSON schema.
SAID: Final = {"type": "string", "pattern": r"^\s*([Yy]([Ee][Ss])?|[Nn][Oo]?(\s*:[\s\S]*)?)\s*$"}
YES: Final = frozenset({"yes", "y"})
NO: Final = frozenset({"no", "n"})
SHOWN: Final = 500  # characters of the arguments in the text of a question; its details have all of them
KIND: Final = "tool_approval"
FORBIDDEN: Final = "a person has not allowed it"
WITHDRAWN: Final = "the question was withdrawn before anybody had answered"


class Consent(BaseModel):
    """Yes, or no and why. As a text it is "yes", "no", or "no: the reason".

    Attributes:
        approved: Whether it may be.
        reason: Why not; the model reads it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    approved: bool
    reason: str = ""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, given: Any) -> Any:
        if isinstance(given, bool):
            return {"approved": given}
        return cls._read(given.strip()) if isinstance(given, str) else given

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return said_or(dict(handler(core)))

    @classmethod
    def _read(cls, text: str) -> dict[str, Any]:
        word, _, rest = text.partition(":")
        if text.lower() in YES:
            return {"approved": True}
        if word.strip().lower() in NO:
            return {"approved": False, "reason": rest.strip()}
        raise ValueError("say yes, or no, or no: and the reason")


def said_or(schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON schema of an answer that may be said in a word, too."""
    return {"title": "Consent", "anyOf": [schema, {"type": "boolean"}, SAID]}


class Approval(Consent):
    """A person's decision on a call. As a text it may also be the arguments with which the call is to be made, as JSON.

    Attributes:
        arguments: The call is made with these instead of the model's; None: with the model's.
    """

    arguments: dict[str, Any] | None = None

    @classmethod
    def _read(cls, text: str) -> dict[str, Any]:
        if not text.startswith("{"):
            return super()._read(text)
        return {"approved": True, "arguments": read_json(text)}


When: TypeAlias = Callable[[Mapping[str, Any]], bool | Awaitable[bool]]
"""Whether a call has to be allowed: of its arguments as the model wrote them, which may not fit the tool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRule:
    """When a tool's calls have to be allowed, and by whom.

    Attributes:
        when: Always or never, or a function of the arguments. One that fails is an error that the model reads, and the
            call is not made.
        by: Who may allow it; empty: anybody who may answer questions.
        timeout: Seconds after which a call without an answer is refused; None: it waits.
    """

    when: bool | When = True
    by: str | Sequence[str] = ()
    timeout: float | None = None

    @property
    def people(self) -> tuple[str, ...]:
        """Who may allow it."""
        return (self.by,) if isinstance(self.by, str) else tuple(self.by)

    async def applies_to(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments has to be allowed."""
        if isinstance(self.when, bool):
            return self.when
        applies = self.when(arguments)
        return bool(await applies if inspect.isawaitable(applies) else applies)


NeedsApproval: TypeAlias = bool | When | ApprovalRule
"""Which calls of a tool a person has to allow: none (False), all (True), those for which a function of their arguments,
async or not, says so; or a rule that also says by whom."""


def rule_of(needs_approval: NeedsApproval) -> ApprovalRule:
    """A rule for whatever says when calls need approval."""
    return needs_approval if isinstance(needs_approval, ApprovalRule) else ApprovalRule(when=needs_approval)


async def allowed(
    asked: AskedCall,
    needs_approval: NeedsApproval,
    parameters: Mapping[str, Any],
    name: str,
    context: MessageContext | None,
    token: CancellationToken | None,
) -> AskedCall:
    """A call as a person allows it: what the person was shown, or what the person has made of it.

    Args:
        asked: The call.
        needs_approval: Which calls of the tool have to be allowed.
        parameters: JSON schema of the tool's arguments.
        name: Of the question; the same in every attempt.
        context: Of the message that is handled; None: there is none.
        token: Ends the wait.

    Raises:
        CallRefusedError: It is not allowed, or the rule failed, so that it is not known whether it has to be; the
            model reads why.
        CannotAskError: Nobody can be asked here (a RuntimeError).
    """
    rule, arguments = rule_of(needs_approval), dict(asked.arguments or {})
    try:
        applies = await rule.applies_to(arguments)
    except Exception as error:
        # guard: a call is not made where it is not known whether it has to be allowed
        reason = "whether a person has to allow it with these arguments can't be told"
        raise CallRefusedError(asked.name, f"{reason}: {type(error).__name__}: {error}") from error
    if not applies:
        return asked
    try:
        answer = await ask_person(_question(rule, asked.name, arguments, parameters, name), context, token)
    except InputWithdrawnError:
        raise CallRefusedError(asked.name, f"{FORBIDDEN}: {WITHDRAWN}") from None
    if not answer.approved:
        raise CallRefusedError(asked.name, f"{FORBIDDEN}: {answer.reason}" if answer.reason else FORBIDDEN)
    # guard: what runs is what a person was shown, or wrote
    return replace(asked, arguments=arguments if answer.arguments is None else answer.arguments)


def _approval_of(parameters: Mapping[str, Any]) -> Any:
    """An Approval whose JSON schema knows the tool's arguments, so that others are refused when they are given."""
    arguments = {key: value for key, value in parameters.items() if key != "$defs"}
    schema = said_or(
        {
            "type": "object",
            "properties": {
                "approved": {"type": "boolean"},
                "reason": {"type": "string"},
                "arguments": {"anyOf": [arguments, {"type": "null"}]},
            },
            "required": ["approved"],
            "additionalProperties": False,
        }
    )
    return Annotated[Approval, WithJsonSchema({**schema, "$defs": parameters.get("$defs", {})})]


def _question(
    rule: ApprovalRule, tool: str, arguments: dict[str, Any], parameters: Mapping[str, Any], name: str
) -> Question:
    shown = json.dumps(arguments, ensure_ascii=False)
    if len(shown) > SHOWN:
        shown = f"{shown[:SHOWN]}…"  # readers look for it, and then show the details
    late = Approval(approved=False, reason="nobody has answered in time")
    return Question(
        text=f"May {tool} be called with {shown}?",
        name=name,
        answer_type=_approval_of(parameters),
        to=rule.people,
        timeout=rule.timeout,
        default=NO_DEFAULT if rule.timeout is None else late,
        details={"kind": KIND, "tool": tool, "arguments": arguments},
    )


CONSENT: Final = "guardrail"


def answer_of(
    text: str, input_id: str, choices: Sequence[str], schema: Mapping[str, Any], details: Mapping[str, Any]
) -> Any:
    """A typed answer to a question, as plain data.

    For an approval: yes, no, no: and the reason, or other arguments as a JSON object. Where there are choices: one of
    them, or its number. Where text is asked for: the text. Else JSON.

    Args:
        text: What was typed.
        input_id: Id of the question.
        choices: Its choices.
        schema: JSON schema of its answer.
        details: What is shown with it.

    Raises:
        InputValueError: It can't be understood (a ValueError).
    """
    kind = details.get("kind")
    if kind in (KIND, CONSENT):
        return _consent(text, input_id, Approval if kind == KIND else Consent)
    if choices:
        is_number = text.isdecimal() and 0 < int(text) <= len(choices)
        return choices[int(text) - 1] if is_number and text not in choices else text
    named = schema.get("type")
    if named == "string" or not schema:
        return text
    try:
        return read_json(text)
    except ValueError:
        if named is None:  # several types, or any: a text may be one of them
            return text
        wanted = schema.get("title") or named
        raise InputValueError(input_id, f"{wanted} is asked for, as JSON") from None


def _consent(text: str, input_id: str, kind: type[Consent]) -> Any:
    try:
        return kind.model_validate(text).model_dump(mode="json", exclude_defaults=True)
    except ValidationError:
        edited = ", or other arguments as a JSON object" if kind is Approval else ""
        raise InputValueError(input_id, f"say yes, no, or no: and the reason{edited}") from None


def how_to_answer(choices: Sequence[str], schema: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """The answers that can be typed, in a few words."""
    kind = details.get("kind")
    if kind in (KIND, CONSENT):
        return "yes, no, no: the reason" + (", or other arguments as JSON" if kind == KIND else "")
    if choices:
        return ", or ".join(f"{number} {choice}" for number, choice in enumerate(choices, 1))
    if schema.get("type", "string") == "string":
        return "a text"
    return f"{schema.get('title') or schema['type']}, as JSON"
