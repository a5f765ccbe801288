"""To whom an agent hands over, and when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from callboard.groupchat.errors import HandoffError

from .on_condition import OnCondition, OnContextCondition, check_target
from .target import TransitionTarget

T = TypeVar("T")


class Handoffs:
    """What an agent of a pattern hands over by. Methods return it, so that they can be written one after the other.

    Attributes:
        llm_conditions: By its model's decision.
        context_conditions: By context variables, before its model is asked.
        after_works: When it has spoken: the first that is available and met; one without a condition is the last.
    """

    def __init__(
        self,
        context_conditions: Iterable[OnContextCondition] = (),
        llm_conditions: Iterable[OnCondition] = (),
        after_works: Iterable[OnContextCondition] = (),
    ) -> None:
        self.context_conditions = list(context_conditions)
        self.llm_conditions = list(llm_conditions)
        self.after_works: list[OnContextCondition] = []
        self.add_after_works(list(after_works))

    def __deepcopy__(self, memo: dict[int, Any]) -> Handoffs:
        """For another conversation: conditions never change."""
        return Handoffs(self.context_conditions, self.llm_conditions, self.after_works)

    def add_context_condition(self, condition: OnContextCondition) -> Handoffs:
        """Hand over by context variables."""
        return self.add_context_conditions([condition])

    def add_context_conditions(self, conditions: Sequence[OnContextCondition]) -> Handoffs:
        """Hand over by context variables.

        Raises:
            HandoffError: One is no OnContextCondition (a TypeError and a ValueError).
        """
        self.context_conditions.extend(_checked(conditions, OnContextCondition))
        return self

    def add_llm_condition(self, condition: OnCondition) -> Handoffs:
        """Hand over by the model's decision."""
        return self.add_llm_conditions([condition])

    def add_llm_conditions(self, conditions: Sequence[OnCondition]) -> Handoffs:
        """Hand over by the model's decision.

        Raises:
            HandoffError: One is no OnCondition (a TypeError and a ValueError).
        """
        self.llm_conditions.extend(_checked(conditions, OnCondition))
        return self

    def set_after_work(self, target: TransitionTarget) -> Handoffs:
        """Who is next when the agent has spoken and hands over to nobody; it takes the place of all that were set before.

        Raises:
            HandoffError: It is no target (a TypeError and a ValueError).
        """
        check_target(target)
        self.after_works = [OnContextCondition(target)]
        return self

    def add_after_work(self, condition: OnContextCondition) -> Handoffs:
        """One more. Without a condition it takes the place of the one that has none."""
        _checked([condition], OnContextCondition)
        others = [one for one in self.after_works if one.condition is not None]
        last = [one for one in self.after_works if one.condition is None]
        self.after_works = [*others, condition, *([] if condition.condition is None else last)]
        return self

    def add_after_works(self, conditions: Sequence[OnContextCondition]) -> Handoffs:
        """Several more.

        Raises:
            HandoffError: One is no OnContextCondition, or several have no condition (a TypeError and a ValueError).
        """
        if sum(one.condition is None for one in _checked(conditions, OnContextCondition)) > 1:
            raise HandoffError(
                "Only one after-work condition can be without a condition: it is what else happens."
            )
        for condition in conditions:
            self.add_after_work(condition)
        return self

    def add(self, condition: OnCondition | OnContextCondition) -> Handoffs:
        """A condition of either kind."""
        return self.add_many([condition])

    def add_many(self, conditions: Sequence[OnCondition | OnContextCondition]) -> Handoffs:
        """Conditions of either kind.

        Raises:
            HandoffError: One is no condition (a TypeError and a ValueError).
        """
        for condition in conditions:
            if isinstance(condition, OnCondition):
                self.add_llm_condition(condition)
            else:
                self.add_context_condition(condition)
        return self

    def clear(self) -> Handoffs:
        """Hand over to nobody."""
        self.context_conditions.clear()
        self.llm_conditions.clear()
        self.after_works.clear()
        return self


def _checked(conditions: Sequence[Any], kind: type[T]) -> Sequence[T]:
    for condition in conditions:
        if not isinstance(condition, kind):
            raise HandoffError(f"A {type(condition).__name__} was given, where {kind.__name__} is needed.")
    return conditions
