"""The base of termination conditions, their combinations, their errors, and their states read back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Self, TypeAlias, TypeVar

from pydantic import BaseModel, Field, ValidationError

from callboard.foundation import ActorError
from callboard.foundation.component import Component, ComponentBase, ComponentModel, dumped
from callboard.messages.chat import BaseAgentEvent, BaseChatMessage, StopMessage


class ConditionError(ActorError):
    """The root of what is wrong with a termination condition or with how it is used."""


class TerminatedException(ConditionError, RuntimeError):
    """A condition that has been reached was asked again; it must be reset first.

    AutoGen's is a BaseException, which passes every ``except Exception`` and so takes the whole process with it, and its
    ``|`` raises a RuntimeError instead. This is an Exception, and a RuntimeError, for all conditions: programs that catch
    either of AutoGen's by name catch this one.
    """

    template = "Termination condition has already been reached"


class ConditionStateError(ConditionError, ValueError):
    """A state was loaded that this condition did not save."""

    template = "{condition} can't load this state: {reason}"

    condition: str
    reason: str


ModelT = TypeVar("ModelT", bound=BaseModel)
PartT = TypeVar("PartT")


def read_state(model: type[ModelT], state: Mapping[str, Any], condition: object) -> ModelT:
    """A state as its model.

    Raises:
        ConditionStateError: It does not fit (a ValueError).
    """
    try:
        return model.model_validate(state)
    except ValidationError as error:
        places = [".".join(map(str, item["loc"])) + ": " + item["msg"] for item in error.errors()]
        raise ConditionStateError(type(condition).__name__, "; ".join(places)) from error


def part_states(
    parts: Sequence[PartT], states: Sequence[Mapping[str, Any]], whole: object
) -> list[tuple[PartT, Mapping[str, Any]]]:
    """The parts of a combined condition, each with its state.

    Raises:
        ConditionStateError: There are more states than parts, or fewer (a ValueError).
    """
    if len(parts) != len(states):
        reason = f"it combines {len(parts)} conditions, and the state is that of {len(states)}."
        raise ConditionStateError(type(whole).__name__, reason)
    return list(zip(parts, states, strict=True))


Messages: TypeAlias = Sequence[BaseAgentEvent | BaseChatMessage]


class TerminationCondition(ComponentBase[BaseModel], ABC):
    """Decides from what is said whether a conversation ends.

    A team asks it at the start of a run and after each turn, about what is new, and resets it when the run has ended.
    ``a | b`` ends a conversation as soon as one of them does, ``a & b`` as soon as both have.

    In a team on the bus each conversation has a copy of its own (`copy.deepcopy`), whose state is a part of the team's.

    For a condition of your own that needs no more than a look at the messages, derive from `LatchedTermination`.
    """

    component_type = "termination"

    @property
    @abstractmethod
    def terminated(self) -> bool:
        """Whether it has been reached."""
        ...

    @abstractmethod
    async def __call__(self, messages: Messages) -> StopMessage | None:
        """Look at what is new.

        Args:
            messages: What was said since the last call.

        Returns:
            Why the conversation ends; None: it goes on.

        Raises:
            TerminatedException: It has been reached already, and was not reset (a RuntimeError).
        """
        ...

    @abstractmethod
    async def reset(self) -> None:
        """Be as in the beginning."""
        ...

    async def save_state(self) -> Mapping[str, Any]:
        """Its memory, as plain data that fits into JSON; here: nothing.

        AutoGen's conditions can't be saved: there a team that is restarted counts from zero.
        """
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` of an equal condition returned; here: nothing.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """

    def __and__(self, other: TerminationCondition) -> TerminationCondition:
        """A condition that is reached as soon as both have been."""
        if not isinstance(other, TerminationCondition):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return AndTerminationCondition(self, other)

    def __or__(self, other: TerminationCondition) -> TerminationCondition:
        """A condition that is reached as soon as one of them is."""
        if not isinstance(other, TerminationCondition):  # pyright: ignore[reportUnnecessaryIsInstance]
            return NotImplemented
        return OrTerminationCondition(self, other)


class AndTerminationConditionConfig(BaseModel):
    """A combination as plain data.

    Attributes:
        conditions: What is combined.
    """

    conditions: list[ComponentModel]


class AndTerminationCondition(TerminationCondition, Component[AndTerminationConditionConfig]):
    """Is reached as soon as all of its conditions have been, each at its own time; its text names all reasons.

    Args:
        conditions: The conditions.
    """

    component_config_schema = AndTerminationConditionConfig
    # Where AutoGen has it: dumps name the class there, and stay readable when this file moves.
    component_provider_override = "callboard.base.AndTerminationCondition"

    def __init__(self, *conditions: TerminationCondition) -> None:
        self._conditions = conditions
        self._reasons: list[StopMessage] = []

    @property
    def terminated(self) -> bool:
        """Whether all have been reached."""
        return all(condition.terminated for condition in self._conditions)

    async def __call__(self, messages: Messages) -> StopMessage | None:
        """Ask those that have not been reached; see `TerminationCondition`."""
        if self.terminated:
            raise TerminatedException
        asked = [condition for condition in self._conditions if not condition.terminated]
        reasons = await _ask(asked, messages)
        self._reasons.extend(reasons)
        return _joined(self._reasons) if len(reasons) == len(asked) else None

    async def reset(self) -> None:
        """Reset all of them."""
        for condition in self._conditions:
            await condition.reset()
        self._reasons.clear()

    async def save_state(self) -> Mapping[str, Any]:
        """The states of all, and the reasons so far."""
        reasons = [reason.dump() for reason in self._reasons]
        return {"conditions": await _states(self._conditions), "reasons": reasons}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """
        saved = read_state(_AndState, state, self)
        await _load(self._conditions, saved.conditions, self)
        self._reasons = list(saved.reasons)

    def _to_config(self) -> AndTerminationConditionConfig:
        return AndTerminationConditionConfig(
            conditions=[dumped(condition, self) for condition in self._conditions]
        )

    @classmethod
    def _from_config(cls, config: AndTerminationConditionConfig) -> Self:
        return cls(*map(TerminationCondition.load_component, config.conditions))


class OrTerminationConditionConfig(BaseModel):
    """A combination as plain data.

    Attributes:
        conditions: What is combined.
    """

    conditions: list[ComponentModel]


class OrTerminationCondition(TerminationCondition, Component[OrTerminationConditionConfig]):
    """Is reached as soon as one of its conditions is; its text names the reasons of all that were reached by then.

    Args:
        conditions: The conditions.
    """

    component_config_schema = OrTerminationConditionConfig
    component_provider_override = "callboard.base.OrTerminationCondition"

    def __init__(self, *conditions: TerminationCondition) -> None:
        self._conditions = conditions

    @property
    def terminated(self) -> bool:
        """Whether one has been reached."""
        return any(condition.terminated for condition in self._conditions)

    async def __call__(self, messages: Messages) -> StopMessage | None:
        """Ask all of them; see `TerminationCondition`."""
        if self.terminated:
            raise TerminatedException
        reasons = await _ask(self._conditions, messages)
        return _joined(reasons) if reasons else None

    async def reset(self) -> None:
        """Reset all of them."""
        for condition in self._conditions:
            await condition.reset()

    async def save_state(self) -> Mapping[str, Any]:
        """The states of all."""
        return {"conditions": await _states(self._conditions)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """
        await _load(self._conditions, read_state(_OrState, state, self).conditions, self)

    def _to_config(self) -> OrTerminationConditionConfig:
        return OrTerminationConditionConfig(
            conditions=[dumped(condition, self) for condition in self._conditions]
        )

    @classmethod
    def _from_config(cls, config: OrTerminationConditionConfig) -> Self:
        return cls(*map(TerminationCondition.load_component, config.conditions))


class _OrState(BaseModel):
    conditions: list[dict[str, Any]]


class _AndState(_OrState):
    reasons: list[StopMessage] = Field(default_factory=list)


async def _ask(conditions: Sequence[TerminationCondition], messages: Messages) -> list[StopMessage]:
    answers = [await condition(messages) for condition in conditions]
    return [answer for answer in answers if answer is not None]


def _joined(reasons: Sequence[StopMessage]) -> StopMessage:
    return StopMessage(
        content=", ".join(reason.content for reason in reasons),
        source=", ".join(reason.source for reason in reasons),
    )


async def _states(conditions: Sequence[TerminationCondition]) -> list[dict[str, Any]]:
    return [dict(await condition.save_state()) for condition in conditions]


async def _load(
    conditions: Sequence[TerminationCondition],
    states: Sequence[Mapping[str, Any]],
    whole: TerminationCondition,
) -> None:
    for condition, state in part_states(conditions, states, whole):
        await condition.load_state(state)
