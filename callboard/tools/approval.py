"""Approval of calls by people: the rule that asks for it, and the question."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeAlias

from pydantic import WithJsonSchema

from callboard.core.answers import (
    APPROVAL,
    Approval as Approval,  # noqa: PLC0414 - a public name of tools
    said_or,
)
from callboard.core.cancellation import CancellationToken
from callboard.core.context import MessageContext
from callboard.core.people import NO_DEFAULT, Question, ask_person
from callboard.errors import InputWithdrawnError

from .call import AskedCall, CheckedArguments
from .errors import CallRefusedError

SHOWN: Final = 500  # characters of the arguments in the text of a question; its details have all of them
FORBIDDEN: Final = "a person has not allowed it"
WITHDRAWN: Final = "the question was withdrawn before anybody had answered"


When: TypeAlias = Callable[[Mapping[str, Any]], bool | Awaitable[bool]]
"""Whether a call has to be allowed: of its arguments as plain data, as the tool takes them, with defaults."""

Check: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[CheckedArguments]]
"""Makes of written arguments those with which a call would run, see `Workbench.check_arguments`."""


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
    check: Check,
    parameters: Callable[[], Awaitable[Mapping[str, Any]]],
    name: str,
    context: MessageContext | None,
    token: CancellationToken | None,
) -> AskedCall:
    """A call as a person allows it: what the person was shown, or what the person has made of it.

    Args:
        asked: The call.
        needs_approval: Which calls of the tool have to be allowed.
        check: Checks arguments as the tool does.
        parameters: Looks up the JSON schema of the tool's arguments.
        name: Of the question; the same in every attempt.
        context: Of the message that is handled; None: there is none.
        token: Ends the wait.

    Raises:
        ToolArgumentsError: The arguments, or those of a person, don't fit the tool (a ValueError).
        CallRefusedError: It is not allowed, or the rule failed, so that it is not known whether it has to be; the
            model reads why.
        CannotAskError: Nobody can be asked here (a RuntimeError).
    """
    rule = rule_of(needs_approval)
    if rule.when is False:
        return asked
    # guard: the rule is asked about what runs, and not about a text that the tool reads in another way
    checked = await check(asked.arguments or {})
    try:
        applies = await rule.applies_to(dict(checked.shown))
    except Exception as error:
        # guard: a call is not made where it is not known whether it has to be allowed
        reason = "whether a person has to allow it with these arguments can't be told"
        raise CallRefusedError(asked.name, f"{reason}: {type(error).__name__}: {error}") from error
    if not applies:
        return replace(asked, arguments=checked)
    question = _question(rule, asked.name, dict(checked.shown), await parameters(), name)
    try:
        answer = await ask_person(question, context, token)
    except InputWithdrawnError:
        raise CallRefusedError(asked.name, f"{FORBIDDEN}: {WITHDRAWN}") from None
    if not answer.approved:
        raise CallRefusedError(asked.name, f"{FORBIDDEN}: {answer.reason}" if answer.reason else FORBIDDEN)
    # guard: what runs is what a person was shown, or wrote
    return replace(asked, arguments=checked if answer.arguments is None else await check(answer.arguments))


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
        details={"kind": APPROVAL, "tool": tool, "arguments": arguments},
    )
