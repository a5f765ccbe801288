"""The team whose work an orchestrator plans: its strategy, its ledgers and its prompts."""

from __future__ import annotations

import copy
import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, ValidationError, WithJsonSchema, create_model

from callboard.agents.draft import without_images
from callboard.conditions.base import TerminationCondition
from callboard.foundation.component import Component, ComponentModel, dumped
from callboard.foundation.texts import read_json
from callboard.memory.contexts import Conversation
from callboard.memory.llm_messages import AssistantMessage, LLMMessage, UserMessage
from callboard.messages.chat import BaseAgentEvent, BaseChatMessage, TextMessage
from callboard.models.base import ChatCompletionClient
from callboard.models.budget import NOTHING
from callboard.models.errors import BadResponseError, ModelError, charged
from callboard.models.recorded import recorded
from callboard.models.types import CreateResult, RequestUsage

from .errors import SpeakerChoiceError
from .group_chat import BaseGroupChat, TeamConfig, common_config
from .loop import Choice, Floor, Participant, SpeakerSelection
from .outcome import first_problem, json_text

FACTS: Final = """You will direct a team that works on a request. Before the work begins, take stock of what is known.

The request:

{task}

Write a fact sheet with exactly these four headings:

1. GIVEN OR VERIFIED FACTS: what the request itself states; there may be nothing.
2. FACTS TO LOOK UP: what has to be found out, and where, naming the sources that the request mentions.
3. FACTS TO DERIVE: what follows from other facts by reasoning, calculation or simulation.
4. EDUCATED GUESSES: what you remember or suppose.

Facts are names, dates, numbers and the like. Write no plan and no next steps yet.
"""

PLAN: Final = """Thank you. This is the team:

{team}

Write a short plan for the request as a list, with what is known and what is not. Use only those members who are needed."""

LEDGER: Final = """The team works on this request:

{task}

The members of the team:

{team}

What is known so far:

{facts}

The plan, to be followed as far as possible:

{plan}
"""

PROGRESS: Final = """Remember the request:

{task}

And the team:

{team}

Judge how the work stands, each time with a reason:

- is_request_satisfied: has the request been carried out completely and with success?
- is_in_loop: does the team repeat the same steps or get the same answers, also over several turns?
- is_progress_being_made: does the work go forward? True at the beginning; false where it is stuck or something
  indispensable can't be had, such as a file that can't be read.
- next_speaker: who should speak next, one of: {names}
- instruction_or_question: what you say to that member, addressed to them, with all they need to know.

Answer with one JSON object of this form, and with nothing before or after it:

{{
    "is_request_satisfied": {{"reason": string, "answer": boolean}},
    "is_in_loop": {{"reason": string, "answer": boolean}},
    "is_progress_being_made": {{"reason": string, "answer": boolean}},
    "next_speaker": {{"reason": string, "answer": string (one of: {names})}},
    "instruction_or_question": {{"reason": string, "answer": string}}
}}
"""

FACTS_UPDATE: Final = """Remember the request:

{task}

The work does not get on, but something may have been learned. Rewrite the fact sheet: add what is new, move guesses that
turned out to be right to the verified facts, and add or change at least one educated guess, with your reason.

The fact sheet so far:

{facts}
"""

PLAN_UPDATE: Final = """Say in a few words why the work got stuck. Then write a new plan as a short list, which avoids
these mistakes and has hints against them. Nobody but this team can take part:

{team}
"""

FINAL_ANSWER: Final = """The request was:

{task}

From what was found out above, write the answer to the request: only the answer, in words for the person who made it, without
a preface, and without these instructions.
"""


class BooleanAnswer(BaseModel):
    """Yes or no, and why."""

    reason: str
    answer: bool


class StringAnswer(BaseModel):
    """A text, and why."""

    reason: str
    answer: str


class LedgerEntry(BaseModel):
    """How the work stands; the fields are AutoGen's.

    Attributes:
        is_request_satisfied: Whether it is done.
        is_in_loop: Whether it repeats itself.
        is_progress_being_made: Whether it goes forward.
        next_speaker: Who is to speak.
        instruction_or_question: What that member is told.
    """

    is_request_satisfied: BooleanAnswer
    is_in_loop: BooleanAnswer
    is_progress_being_made: BooleanAnswer
    next_speaker: StringAnswer
    instruction_or_question: StringAnswer

    @property
    def is_stalled(self) -> bool:
        """Whether the work does not get on."""
        return not self.is_progress_being_made.answer or self.is_in_loop.answer


@lru_cache(maxsize=100)
def ledger_class(names: tuple[str, ...]) -> type[LedgerEntry]:
    """The class of ledgers of a team: its schema lists the names, and a name that is nearly right is the one that is meant.

    Args:
        names: Who may speak; with one member it is that one, whatever the model says.
    """
    speaker: Any = Annotated[
        str, BeforeValidator(partial(nearest, names)), WithJsonSchema({"type": "string", "enum": list(names)})
    ]
    answer = create_model("Speaker", __base__=StringAnswer, answer=(speaker, ...))
    more: dict[str, Any] = {"next_speaker": (answer, ...)}
    if len(names) == 1:
        more = {"next_speaker": (answer, answer(reason="The team has only this member.", answer=names[0]))}
    return create_model("LedgerEntry", __base__=LedgerEntry, **more)


def nearest(names: Sequence[str], text: Any) -> Any:
    """The name that a model means: "the coder" and "Coder Agent" are `coder`. What is no name of a member stays.

    Args:
        names: Who may speak.
        text: The model's words.
    """
    if len(names) == 1:
        return names[0]
    if not isinstance(text, str) or text in names:
        return text
    words = _WORD.findall(text.casefold())
    named = [name for name in names if name.casefold() in words or name.casefold() == text.strip().casefold()]
    if len(named) == 1:
        return named[0]
    close = difflib.get_close_matches(text.casefold(), [name.casefold() for name in names], n=1, cutoff=0.8)
    return next((name for name in names if close and name.casefold() == close[0]), text)


def read_ledger(text: str, names: Sequence[str]) -> LedgerEntry:
    """The ledger in a model's answer, which may stand in a fenced block.

    Args:
        text: The answer.
        names: Who may speak; with one member it is that one, whatever the model says.

    Raises:
        SpeakerChoiceError: There is none, or it names no member that may speak (a ValueError).
    """
    try:
        entry = ledger_class(tuple(names)).model_validate(_object(text))
    except ValidationError as error:
        raise SpeakerChoiceError(first_problem(error)) from error
    if not entry.is_request_satisfied.answer and entry.next_speaker.answer not in names:
        raise SpeakerChoiceError(f"next_speaker is none of {list(names)}")
    return entry


def _object(text: str) -> dict[str, Any]:
    try:
        data = read_json(json_text(text))
    except json.JSONDecodeError as error:
        raise SpeakerChoiceError("it is not JSON") from error
    except ValueError as error:
        raise SpeakerChoiceError(str(error)) from error
    if not isinstance(data, dict):
        raise SpeakerChoiceError("it is not a JSON object")
    return data


JSON_RETRIES: Final = 5  # AutoGen asks ten times, each time the same
NOT_BELIEVED: Final = (
    "is_request_satisfied can't be true: no member of the team has spoken yet. Say who begins, and with what"
)
AGAIN: Final = """That can't be used: {problem}.

Answer again with one JSON object of the form above, with short reasons, and with nothing before or after it."""
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Roster:
    """The members, as the prompts have them.

    Attributes:
        name: Of the manager, the source of what is asked.
        names: The members' names.
        description: Who they are, one on each line.
    """

    name: str
    names: Sequence[str]
    description: str


class Orchestrator:
    """Asks the model.

    Args:
        model_client: The model.
        final_answer_prompt: What it is asked at the end; {task} in it is filled in.
    """

    def __init__(self, model_client: ChatCompletionClient, final_answer_prompt: str) -> None:
        self._client = model_client
        self._final_answer_prompt = final_answer_prompt
        self._used = NOTHING

    async def begin(self, team: Roster, task: str) -> tuple[str, str]:
        """The first facts and the first plan."""
        return await self._facts_and_plan(
            [],
            team,
            FACTS.format(task=task),
            PLAN.format(team=team.description),
        )

    async def begin_again(
        self, team: Roster, context: Sequence[LLMMessage], task: str, facts: str
    ) -> tuple[str, str]:
        """New facts and a new plan."""
        return await self._facts_and_plan(
            context,
            team,
            FACTS_UPDATE.format(task=task, facts=facts),
            PLAN_UPDATE.format(team=team.description),
        )

    async def _facts_and_plan(
        self, context: Sequence[LLMMessage], team: Roster, facts_prompt: str, plan_prompt: str
    ) -> tuple[str, str]:
        asked = [*context, UserMessage(content=facts_prompt, source=team.name)]
        facts = _text(await self._ask(asked))
        asked = [*asked, AssistantMessage(content=facts, source=team.name)]
        plan = _text(await self._ask([*asked, UserMessage(content=plan_prompt, source=team.name)]))
        return facts, plan

    async def progress(
        self, team: Roster, context: Sequence[LLMMessage], task: str, *, is_first: bool = False
    ) -> LedgerEntry:
        """How the work stands. An answer that can't be read is asked for again, and the model is told why.

        Args:
            team: The members.
            context: What was said since the last plan.
            task: What is to be done.
            is_first: No member has spoken yet: that all is done already is not believed.

        Raises:
            SpeakerChoiceError: None of the answers could be read (a ValueError).
        """
        prompt = PROGRESS.format(task=task, team=team.description, names=", ".join(team.names))
        asked: list[LLMMessage] = [*context, UserMessage(content=prompt, source=team.name)]
        problem = ""
        for tried in range(JSON_RETRIES):
            text = ""
            try:
                text = _text(await self._ask(asked, **self._json_output(team.names)))
                ledger = read_ledger(text, team.names)
            except (SpeakerChoiceError, BadResponseError) as error:
                problem = error.reason
            else:
                if not (is_first and ledger.is_request_satisfied.answer):
                    return ledger
                if tried:
                    return _begun(ledger, team.names, task)
                problem = NOT_BELIEVED
            asked = [*asked, AssistantMessage(content=text, source=team.name)] if text else asked
            asked = [*asked, UserMessage(content=AGAIN.format(problem=problem), source=team.name)]
        raise SpeakerChoiceError(
            f"Failed to parse ledger information after multiple retries. The last time: {problem}"
        )

    def _json_output(self, names: Sequence[str]) -> dict[str, Any]:
        info = self._client.model_info
        if info.get("structured_output", False):
            return {"json_output": ledger_class(tuple(names))}
        return {"json_output": True} if info.get("json_output", False) else {}

    async def final_answer(self, team: Roster, context: Sequence[LLMMessage], task: str) -> str:
        """The answer to the task."""
        prompt = self._final_answer_prompt.replace("{task}", task)
        return _text(await self._ask([*context, UserMessage(content=prompt, source=team.name)]))

    async def _ask(self, messages: Sequence[LLMMessage], **options: Any) -> CreateResult:
        seen = messages if self._client.model_info["vision"] else without_images(messages)
        try:
            result = await self._client.create(seen, **options)
        except ModelError as error:
            self._used += charged(error)
            raise
        self._used += result.usage
        return result

    def for_step(self) -> Orchestrator:
        """The same for one step, whose usage is its own."""
        one = copy.copy(self)
        one._used = NOTHING
        return one

    def taken(self) -> RequestUsage | None:
        """The tokens that were used since the last time; None: none."""
        used, self._used = self._used, NOTHING
        return used if used.total_tokens else None


def _begun(ledger: LedgerEntry, names: Sequence[str], task: str) -> LedgerEntry:
    """A ledger of a model that insists that all is done, as one with which the work begins."""
    speaker = ledger.next_speaker.answer if ledger.next_speaker.answer in names else names[0]
    told = ledger.instruction_or_question.answer.strip() or task
    return ledger.model_copy(
        update={
            "is_request_satisfied": BooleanAnswer(reason="Nobody has spoken yet.", answer=False),
            "next_speaker": StringAnswer(reason=ledger.next_speaker.reason, answer=speaker),
            "instruction_or_question": StringAnswer(reason="", answer=told),
        }
    )


def _text(result: CreateResult) -> str:
    return result.content if isinstance(result.content, str) else ""


class MagenticState(BaseModel):
    """How the work stands; the fields are AutoGen's.

    Attributes:
        task: What is to be done.
        facts: What is known.
        plan: What is to be done about it.
        n_rounds: How many progress ledgers there were.
        n_stalls: How many of the last ones said that the work does not get on.
    """

    task: str = ""
    facts: str = ""
    plan: str = ""
    n_rounds: int = 0
    n_stalls: int = 0


class Step:
    """Works on copies: what a choice changes counts when it has been made, not where a model call fails in between.

    Args:
        orchestrator: The model.
        team: The members.
        state: How the work stands; it is copied.
        context: What was said since the last plan; it is copied.

    Attributes:
        is_new_plan: Whether `context` begins with a plan that was made in this step.
    """

    def __init__(
        self, orchestrator: Orchestrator, team: Roster, state: MagenticState, context: Sequence[LLMMessage]
    ) -> None:
        self._orchestrator = orchestrator.for_step()
        self._team = team
        self.state = state.model_copy()
        self.context = list(context)
        self.is_new_plan = False
        self._said: list[TextMessage] = []

    async def begin(self, task: str) -> None:
        """Plan a new task."""
        facts, plan = await self._orchestrator.begin(self._team, task)
        self._enter(MagenticState(task=task, facts=facts, plan=plan))

    async def begin_again(self) -> None:
        """Plan the same task again, with what was learned."""
        state = self.state
        facts, plan = await self._orchestrator.begin_again(self._team, self.context, state.task, state.facts)
        self._enter(state.model_copy(update={"facts": facts, "plan": plan}))

    def _enter(self, state: MagenticState) -> None:
        self.state, self.context, self.is_new_plan = state, [], True
        self._said.clear()
        self._say(
            LEDGER.format(task=state.task, team=self._team.description, facts=state.facts, plan=state.plan)
        )

    async def progress(self) -> LedgerEntry:
        """How the work stands; counts the stalls."""
        self.state.n_rounds += 1
        ledger = await self._orchestrator.progress(
            self._team, self.context, self.state.task, is_first=self.state.n_rounds == 1
        )
        stalls = self.state.n_stalls + (1 if ledger.is_stalled else -1)
        if not ledger.is_request_satisfied.answer:
            self.state.n_stalls = max(0, stalls)
        return ledger

    def instruct(self, ledger: LedgerEntry) -> Choice:
        """Say to the next speaker what to do."""
        self._say(ledger.instruction_or_question.answer)
        return Choice([ledger.next_speaker.answer], self._said, self._resets)

    async def end(self, reason: str) -> Choice:
        """Answer the task."""
        self._say(await self._orchestrator.final_answer(self._team, self.context, self.state.task))
        return Choice(said=self._said, resets=self._resets, stop=reason)

    def _say(self, text: str) -> None:
        usage = self._orchestrator.taken()
        self._said.append(TextMessage(content=text, source=self._team.name, models_usage=usage))
        self.context.append(AssistantMessage(content=text, source=self._team.name))

    @property
    def _resets(self) -> Sequence[str]:
        return self._team.names if self.is_new_plan else ()


MAX_ROUNDS: Final = "Max rounds reached."
NO_PROGRESS: Final = "No progress after {count} plans."
MOST_PLANS: Final = (
    10  # one after the other without anybody speaking: AutoGen's orchestrator goes on for ever
)


class MagenticOneSelection(SpeakerSelection):
    """Whom a model chooses that keeps two ledgers; AutoGen's MagenticOneOrchestrator.

    The outer ledger has facts and a plan; with each plan the members forget everything and hear the ledger. The inner one is
    asked for before each turn: it says whether the task is done, whether the work stalls, and who is told what.

    Args:
        orchestrator: The model.
        max_turns: How many inner ledgers a run has at most, beside the first; None: no limit.
        max_stalls: With how many stalls there is a new plan.
    """

    def __init__(self, orchestrator: Orchestrator, *, max_turns: int | None, max_stalls: int) -> None:
        self._orchestrator = orchestrator
        self._max_turns = max_turns
        self._max_stalls = max_stalls
        self._state = MagenticState()
        self._context: Conversation = list[LLMMessage]()

    async def check(self, messages: Sequence[BaseChatMessage] | None, floor: Floor) -> None:
        """Refuses to go on with nothing.

        Raises:
            SpeakerChoiceError: There was no task yet (a ValueError).
        """
        if not (messages or self._state.task or _task(floor)):
            raise SpeakerChoiceError("A MagenticOneGroupChat needs a task to begin with.")

    async def select(self, floor: Floor) -> Choice:
        """The next step of the work; a new task is planned first."""
        heard = list(_heard(floor))
        step = Step(self._orchestrator, _team(floor), self._state, [*self._context, *heard])
        task = _task(floor)
        if task:
            await step.begin(task)
        choice = await self._next(step)
        self._keep(step)
        return choice

    async def _next(self, step: Step) -> Choice:
        for _ in range(MOST_PLANS):
            if self._max_turns is not None and step.state.n_rounds > self._max_turns:
                return await step.end(MAX_ROUNDS)
            ledger = await step.progress()
            if ledger.is_request_satisfied.answer:
                return await step.end(ledger.is_request_satisfied.reason)
            if step.state.n_stalls < self._max_stalls:
                return step.instruct(ledger)
            await step.begin_again()
        return await step.end(NO_PROGRESS.format(count=MOST_PLANS))

    def _keep(self, step: Step) -> None:
        self._state = step.state
        if step.is_new_plan:
            self._context.clear()
        self._context.extend(step.context[len(self._context) :])

    async def reset(self) -> None:
        """There is no task."""
        self._state = MagenticState()
        self._context.clear()

    async def save_state(self) -> Mapping[str, Any]:
        """How the work stands."""
        return {**self._state.model_dump(), "type": "MagenticOneOrchestratorState"}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned, or AutoGen's."""
        self._state = MagenticState.model_validate(dict(state))

    def keep_context_in(self, messages: Conversation) -> None:
        """Keep what was said since the last plan in this list."""
        self._context = messages


def _team(floor: Floor) -> Roster:
    lines = [" ".join(f"{member.name}: {member.description}".split()) for member in floor.members]
    return Roster(floor.team, floor.names, "\n".join(lines))


def _task(floor: Floor) -> str:
    """A new task as text; "": there is none. Messages of AutoGen's orchestrator have no speaker in a state of it."""
    return " ".join(message.to_model_text() for message in floor.task if message.source != floor.team)


def _heard(floor: Floor) -> Iterator[LLMMessage]:
    """The messages since the last choice, but for the task, which is in the ledger."""
    for by, message in zip(floor.new_by, floor.new, strict=True):
        if not isinstance(message, BaseChatMessage):
            continue
        if by:
            yield message.to_model_message()
        elif message.source == floor.team:
            yield AssistantMessage(content=message.to_model_text(), source=message.source)


class MagenticOneGroupChatConfig(TeamConfig):
    """A MagenticOneGroupChat as plain data."""

    model_client: ComponentModel
    max_turns: int | None = 20
    max_stalls: int = 3
    final_answer_prompt: str = FINAL_ANSWER


class MagenticOneGroupChat(BaseGroupChat, Component[MagenticOneGroupChatConfig]):
    """A team whose work a model plans, directs and judges, as Magentic-One does.

    It writes down facts and a plan, and before each turn judges the work: done, then it gives the final answer, whose reason
    is the run's `stop_reason`; stalled too often, then it plans again, and the members forget what they have heard; else
    it tells a member what to do. Each task begins with a new plan.

    Where AutoGen's is broken: an answer of the model that names no member, lacks a field or was cut off is asked for again,
    with the reason (four times, then the run fails with SpeakerChoiceError). A name that is nearly right is taken. That all
    is done before a member has spoken is not believed. Messages carry what the model used. Rounds are counted from the
    beginning of each task, a plan after plan without a turn ends, members may be teams, and messages of any type can be
    said. The task counts for the termination condition, as in all teams.

    Args:
        participants: The members.
        model_client: The orchestrator's model; its answers are recorded, so that none is paid twice.
        name: Its name.
        description: What it can do, for a larger team.
        termination_condition: When a run ends without a final answer.
        max_turns: How many turns a run has at most, beside the first; then comes the final answer. None: no limit.
        max_stalls: With how many stalls there is a new plan.
        final_answer_prompt: What the model is asked at the end; {task} in it is filled in.
        custom_message_types: Types of messages of your own that members say.
        emit_team_events: Whether readers see who is next.
        **options: See BaseGroupChat.
    """

    component_config_schema = MagenticOneGroupChatConfig
    component_provider_override = "callboard.teams.MagenticOneGroupChat"

    def __init__(
        self,
        participants: Sequence[Participant],
        model_client: ChatCompletionClient,
        *,
        name: str | None = None,
        description: str | None = None,
        termination_condition: TerminationCondition | None = None,
        max_turns: int | None = 20,
        max_stalls: int = 3,
        final_answer_prompt: str = FINAL_ANSWER,
        custom_message_types: Sequence[type[BaseAgentEvent | BaseChatMessage]] | None = None,
        emit_team_events: bool = False,
        **options: Any,
    ) -> None:
        # The limit is the strategy's: there is a final answer when it is reached.
        super().__init__(
            participants,
            name=name or "MagenticOneGroupChat",
            description=description or "A team of agents.",
            manager_name="MagenticOneOrchestrator",
            termination_condition=termination_condition,
            custom_message_types=custom_message_types,
            emit_team_events=emit_team_events,
            **options,
        )
        self._model_client = model_client
        self._recorded_client = recorded(model_client)
        self._max_turns = max_turns
        self._max_stalls = max_stalls
        self._final_answer_prompt = final_answer_prompt

    def _to_config(self) -> MagenticOneGroupChatConfig:
        return MagenticOneGroupChatConfig(
            **{**common_config(self), "max_turns": self._max_turns},
            model_client=dumped(self._model_client, self),
            max_stalls=self._max_stalls,
            final_answer_prompt=self._final_answer_prompt,
        )

    @classmethod
    def _from_config(cls, config: MagenticOneGroupChatConfig) -> Self:
        return cls(
            **config.arguments(),
            model_client=ChatCompletionClient.load_component(config.model_client),
            max_stalls=config.max_stalls,
            final_answer_prompt=config.final_answer_prompt,
        )

    def new_selection(self) -> SpeakerSelection:
        """The orchestrator, without a task."""
        return MagenticOneSelection(
            Orchestrator(self._recorded_client, self._final_answer_prompt),
            max_turns=self._max_turns,
            max_stalls=self._max_stalls,
        )
