import math
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st

from callboard.broker import BrokerSettings, DeadLetter, ErrorInfo, Retry, RetryPolicy
from callboard.broker.errors import DecodeError, EncodeError, SettingsError, unknown_message
from callboard.broker.retry import decided


def pauses(policy: RetryPolicy, random: float, attempts: int) -> list[float]:
    outcomes = [
        policy.decide(attempt, ValueError("x"), random=lambda: random) for attempt in range(1, attempts + 1)
    ]
    return [one.delay for one in outcomes if isinstance(one, Retry)]


def test_pauses_double_up_to_the_cap() -> None:
    assert pauses(RetryPolicy(10, base=1, cap=5), 0.0, 5) == [1, 2, 4, 5, 5]


def test_chance_shortens_a_pause_by_the_share_that_is_left_to_it() -> None:
    assert pauses(RetryPolicy(10, base=1), 1.0, 3) == [0.5, 1, 2]
    assert pauses(RetryPolicy(10, base=1, jitter=1.0), 1.0, 3) == [0, 0, 0]
    assert pauses(RetryPolicy(10, base=1, jitter=0.0), 1.0, 3) == [1, 2, 4]


@given(st.integers(1, 10**9), st.floats(0, 100), st.floats(0, 3600), st.floats(0, 1), st.floats(0, 1))
def test_a_pause_is_never_longer_than_the_cap(
    attempt: int, base: float, cap: float, jitter: float, random: float
) -> None:
    decided = RetryPolicy(10**9 + 1, base, cap, jitter).decide(
        attempt, ValueError("x"), random=lambda: random
    )
    assert isinstance(decided, Retry)
    assert 0 <= decided.delay <= cap


@pytest.mark.parametrize(
    ("asked", "delay"),
    [(2, 3.0), (0.5, 1.5), (None, 1.0), (-5.0, 1.0), ("soon", 1.0), (10**9, 3_601.0), (float("nan"), 1.0)],
)
def test_an_error_may_ask_for_a_longer_pause(asked: object, delay: float) -> None:
    error = ValueError("x")
    error.retry_after = asked  # type: ignore[attr-defined]
    decided = RetryPolicy(base=1.0).decide(1, error, random=lambda: 0.0)
    assert isinstance(decided, Retry)
    assert decided.delay == delay


def test_the_last_attempt_ends_it() -> None:
    policy = RetryPolicy(max_attempts=3)
    assert isinstance(policy.decide(2, ValueError("x")), Retry)
    assert policy.decide(3, ValueError("x")) == DeadLetter("failed", ErrorInfo("ValueError", "x"))
    assert isinstance(policy.decide(4, ValueError("x")), DeadLetter)


INFO = ErrorInfo("ConnectionError", "away")


def test_an_outage_ends_no_attempts_but_its_time() -> None:
    policy = RetryPolicy(max_attempts=1, base=1.0, cap=5.0, jitter=0.0, outage=20.0)
    waited, delays = 0.0, []
    for _ in range(7):
        one = decided(policy, 1, ConnectionError("away"), INFO, waited)
        assert isinstance(one, Retry)
        assert one.waited == waited + one.delay
        assert one.reason == "ConnectionError: away"
        waited += one.delay
        delays.append(one.delay)
    assert delays == [1, 1, 2, 4, 5, 5, 5], "as long as all before, below the cap"
    end = decided(policy, 1, ConnectionError("away"), INFO, waited)
    assert end == DeadLetter("an outage of more than 20 s", INFO)


class TomorrowError(ConnectionError):
    has_sure_end = True
    retry_after = 3_000.0


def test_what_ends_for_sure_is_waited_for_however_long_it_takes() -> None:
    policy = RetryPolicy(max_attempts=1, base=1.0, jitter=0.0, outage=20.0)
    first = decided(policy, 1, TomorrowError(), INFO)
    assert isinstance(first, Retry)
    assert (first.delay, first.waited) == (3_001, 0.001), "of what may never end it has waited nothing"
    assert decided(policy, 1, TomorrowError(), INFO, waited=30.0) == Retry(
        3_001, "ConnectionError: away", INFO, waited=30.0
    )


def test_no_outage_is_waited_for_where_the_policy_says_so() -> None:
    assert decided(RetryPolicy(1, outage=0.0), 1, ConnectionError("away"), INFO) == DeadLetter("failed", INFO)


def test_an_outage_waits_although_there_is_no_pause_between_attempts() -> None:
    one = decided(RetryPolicy(base=0.0, jitter=0.0), 1, ConnectionError("away"), INFO)
    assert isinstance(one, Retry)
    assert one.delay > 0, "else it would never have waited, and be tried for ever"


def test_an_outage_may_ask_for_a_longer_pause() -> None:
    error = ConnectionError("away")
    error.retry_after = 7  # type: ignore[attr-defined]
    one = decided(RetryPolicy(base=1.0, jitter=0.0), 1, error, INFO)
    assert isinstance(one, Retry)
    assert (one.delay, one.waited) == (8.0, 8.0)


@pytest.mark.parametrize("error", [DecodeError("x"), unknown_message("x"), EncodeError("a", "x")])
def test_what_would_fail_again_is_not_tried_again(error: Exception) -> None:
    decided = RetryPolicy().decide(1, error)
    assert isinstance(decided, DeadLetter)
    assert decided.reason == "permanent"


def test_an_applications_error_may_be_permanent() -> None:
    class NoSuchCustomerError(Exception):
        permanent = True

    assert isinstance(RetryPolicy().decide(1, NoSuchCustomerError()), DeadLetter)


def test_the_reason_names_the_error() -> None:
    decided = RetryPolicy().decide(1, KeyError("x"), ErrorInfo("KeyError", "gone", "trace"))
    assert isinstance(decided, Retry)
    assert decided.reason == "KeyError: gone"
    assert decided.error == ErrorInfo("KeyError", "gone", "trace")


def test_the_policy_of_the_settings() -> None:
    settings = BrokerSettings(max_attempts=5, retry_base=0.2, retry_cap=9.0, retry_outage=60.0)
    assert RetryPolicy.of(settings) == RetryPolicy(5, 0.2, 9.0, outage=60.0)
    assert RetryPolicy.of(settings, max_attempts=1).max_attempts == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", 1.5),
        ("max_attempts", True),
        ("max_attempts", "3"),
        ("base", -1),
        ("base", math.nan),
        ("base", math.inf),
        ("base", "x"),
        ("cap", math.inf),
        ("jitter", 2),
        ("jitter", math.nan),
        ("outage", -1),
        ("outage", "long"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"^{name}=.* has to be a "):
        RetryPolicy(**{name: value})


def test_a_policy_that_is_no_subclass_knows_no_outages() -> None:
    class Never:
        def decide(self, *_: Any, **__: Any) -> DeadLetter:
            return DeadLetter("never", INFO)

    policy: Any = Never()
    assert decided(policy, 1, ConnectionError("away"), INFO) == DeadLetter("never", INFO)


class Own(RetryPolicy):
    """An app's own rule."""

    answer: ClassVar[Any] = None

    def decide(self, *_: Any, **__: Any) -> Any:
        return type(self).answer


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Retry(math.nan, "no"), "a pause of nan seconds"),
        (Retry(math.inf, "no"), "a pause of inf seconds"),
        (Retry(-5, "no"), "a pause of -5 seconds"),
        (None, "NoneType"),
        ("again", "str"),
    ],
)
def test_a_decision_that_cannot_be_carried_out_is_a_dead_letter(answer: Any, told: str) -> None:
    Own.answer = answer
    info = ErrorInfo("E", "no")
    assert decided(Own(), 1, LookupError(), info) == DeadLetter(f"Own.decide returned {told}", info)
    Own.answer = Retry(1.5, "later")
    assert decided(Own(), 1, LookupError(), info) is Own.answer


class Unspeakable(Exception):
    """Its text can't be made."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


def test_an_error_without_a_text_is_decided_too() -> None:
    outcome = RetryPolicy(max_attempts=1).decide(1, Unspeakable())
    assert isinstance(outcome, DeadLetter)
    assert outcome.error == ErrorInfo("Unspeakable", "<its text can't be made: RuntimeError>")
