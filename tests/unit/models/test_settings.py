import math
from dataclasses import fields
from typing import Any

import pytest

from callboard.errors import SettingValueError
from callboard.models import ModelSettings


@pytest.mark.parametrize("name", [spec.name for spec in fields(ModelSettings) if spec.name != "prices"])
@pytest.mark.parametrize("value", [-1, math.nan])
def test_numbers_have_to_be_positive(name: str, value: float) -> None:
    changed: dict[str, Any] = {name: value}
    with pytest.raises(SettingValueError, match=f"{name}="):
        ModelSettings(**changed)


def test_the_first_pause_may_be_zero() -> None:
    assert ModelSettings(retry_base=0).retry_base == 0
    with pytest.raises(SettingValueError):
        ModelSettings(max_attempts=0)
