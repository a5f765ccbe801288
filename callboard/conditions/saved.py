"""States of conditions, read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from .errors import ConditionStateError

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
