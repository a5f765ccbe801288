from typing import get_args

import pytest

from callboard.models import ModelFamily


def names() -> set[str]:
    return {value for name, value in vars(ModelFamily).items() if name.isupper() and isinstance(value, str)}


def test_any_lists_every_family() -> None:
    assert set(get_args(ModelFamily.ANY)) == names()


def test_every_family_has_one_maker() -> None:
    ways = (
        ModelFamily.is_openai,
        ModelFamily.is_claude,
        ModelFamily.is_gemini,
        ModelFamily.is_llama,
        ModelFamily.is_mistral,
    )
    for family in names() - {ModelFamily.R1, ModelFamily.UNKNOWN}:
        assert sum(way(family) for way in ways) == 1, family
    assert not any(way("something else") for way in ways)


def test_model_family_can_not_be_instantiated() -> None:
    with pytest.raises(TypeError, match="list of names"):
        ModelFamily()
