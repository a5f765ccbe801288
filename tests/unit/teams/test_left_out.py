"""Fields that are left out of what is written where they say nothing: each is, at its default."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel

from callboard.memory import llm_messages
from callboard.models import types
from callboard.teams import loop, protocol, states


def sparse_fields() -> Iterator[Any]:
    """Every field with a rule by which it is left out."""
    rooms: tuple[ModuleType, ...] = (llm_messages, types, loop, protocol, states)
    models = {one for room in rooms for one in vars(room).values() if isinstance(one, type)}
    for model in sorted(models, key=lambda one: f"{one.__module__}.{one.__qualname__}"):
        if issubclass(model, BaseModel) and model.__module__.startswith("callboard."):
            for name, field in model.model_fields.items():
                if field.exclude_if is not None:
                    yield pytest.param(field, id=f"{model.__qualname__}.{name}")


@pytest.mark.parametrize("field", list(sparse_fields()))
def test_a_default_is_left_out(field: Any) -> None:
    assert field.exclude_if(field.get_default(call_default_factory=True))
