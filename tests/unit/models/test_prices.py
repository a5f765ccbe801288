import pytest

from callboard.models.info import Price, price_of
from callboard.models.types import RequestUsage

PRICES = {"small": Price(1.0, 4.0), "small-2024-08-06": Price(2.0, 8.0)}


def test_a_price_is_for_a_million_tokens() -> None:
    assert Price(2.5, 10.0).of(RequestUsage(1_000_000, 500_000)) == pytest.approx(7.5)


def test_a_version_has_the_price_of_its_model_unless_it_has_its_own() -> None:
    assert price_of("small-2024-08-06", PRICES) == Price(2.0, 8.0)
    assert price_of("small-2025-01-01", PRICES) == Price(1.0, 4.0)
    assert price_of("large", PRICES) is None
