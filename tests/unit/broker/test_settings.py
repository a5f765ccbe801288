import dataclasses
from typing import Any

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.errors import SettingsError
from callboard.broker.redis.client.identity import TOKEN_VARIABLE
from callboard.broker.settings import described_fields, parse_size


def test_nothing_in_the_environment_means_the_defaults() -> None:
    assert BrokerSettings.from_env({}) == BrokerSettings()


def test_every_setting_is_documented() -> None:
    described = described_fields(BrokerSettings)
    assert [one.name for one in described] == [spec.name for spec in dataclasses.fields(BrokerSettings)]
    for one in described:
        assert one.meaning.endswith("."), one.name
        is_number = isinstance(one.default, int | float) and not isinstance(one.default, bool)
        assert bool(one.unit) is is_number, one.name


def test_the_environment_is_read() -> None:
    environ = {
        "CALLBOARD_NAMESPACE": "shop",
        "CALLBOARD_LEASE": "2.5",
        "CALLBOARD_MAX_ATTEMPTS": "7",
        "CALLBOARD_CONCURRENCY": "",
        "LEASE": "9",
    }
    settings = BrokerSettings.from_env(environ)
    assert (settings.namespace, settings.lease, settings.max_attempts) == ("shop", 2.5, 7)
    assert settings.concurrency == BrokerSettings().concurrency


def test_our_url_wins_over_everybodys() -> None:
    both = {"CALLBOARD_URL": "redis://ours", "REDIS_URL": "redis://theirs"}
    assert BrokerSettings.from_env(both).url == "redis://ours"
    assert BrokerSettings.from_env({"REDIS_URL": "redis://theirs"}).url == "redis://theirs"


def test_a_variable_that_is_no_setting_is_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    environ = {"CALLBOARD_NAMESPCE": "shop", "CALLBOARD_QQQ": "1", "CALLBOARD_LEASE": "3", "OTHER": "x"}
    for _ in range(2):
        BrokerSettings.from_env(environ)
    assert [record.getMessage() for record in caplog.records] == [
        "there is no setting CALLBOARD_NAMESPCE; it is ignored: did you mean 'CALLBOARD_NAMESPACE'?",
        "there is no setting CALLBOARD_QQQ; it is ignored",
    ]


def test_the_token_of_a_supervisor_is_no_unknown_setting(caplog: pytest.LogCaptureFixture) -> None:
    BrokerSettings.from_env({TOKEN_VARIABLE: "abcd1234"})
    assert not caplog.records


def test_what_is_said_in_code_wins_over_the_environment() -> None:
    environ = {"CALLBOARD_LEASE": "3"}
    assert BrokerSettings.from_env(environ, lease=4.0).lease == 4.0
    assert BrokerSettings.from_env(environ, lease=None).lease == 3.0


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"lease": 0}, "lease=0 has to be more than 0"),
        ({"lease": -1.0}, "lease=-1.0 has to be more than 0"),
        ({"lease": float("nan")}, "has to be a number"),
        ({"lease": float("inf")}, "has to be a number"),
        ({"lease": "5"}, "lease='5' has to be a number"),
        ({"retain": -1}, "retain=-1 has to be at least 0"),
        ({"concurrency": 1.5}, "concurrency=1.5 has to be a whole number"),
        ({"max_attempts": True}, "max_attempts=True has to be a whole number"),
        ({"claim_check": 1}, "claim_check=1 has to be True or False"),
        ({"namespace": ""}, "namespace='' has to be text"),
        ({"url": 5}, "url=5 has to be text"),
        ({"beat_every": 3.0}, "beat at least twice in a lease"),
    ],
)
def test_values_that_can_not_work(given: dict[str, object], why: str) -> None:
    with pytest.raises(SettingsError, match=why):
        BrokerSettings(**given)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has to"):
        BrokerSettings(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["retain", "max_unclaimed", "drain_grace", "retry_base"])
def test_some_may_be_zero(name: str) -> None:
    assert getattr(BrokerSettings.from_env({}, **{name: 0}), name) == 0


def test_a_value_of_the_environment_that_is_no_number() -> None:
    with pytest.raises(SettingsError, match="CALLBOARD_LEASE='long' has to be a number"):
        BrokerSettings.from_env({"CALLBOARD_LEASE": "long"})
    with pytest.raises(SettingsError, match=r"CALLBOARD_RETAIN='1\.5' has to be a whole number"):
        BrokerSettings.from_env({"CALLBOARD_RETAIN": "1.5"})


@pytest.mark.parametrize(("text", "value"), [("1", True), ("true", True), ("off", False), ("0", False)])
def test_a_switch_in_the_environment(text: str, value: bool) -> None:
    assert BrokerSettings.from_env({"CALLBOARD_CLAIM_CHECK": text}).claim_check is value
    with pytest.raises(SettingsError, match="CALLBOARD_CLAIM_CHECK='maybe' has to be 1 or 0"):
        BrokerSettings.from_env({"CALLBOARD_CLAIM_CHECK": "maybe"})


def test_a_setting_that_does_not_exist() -> None:
    with pytest.raises(SettingsError, match="there is no setting 'leese': did you mean 'lease'"):
        BrokerSettings.from_env({}, leese=4)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (
            {"when_full": "rejekt"},
            "when_full='rejekt' has to be one of: wait, reject. Did you mean 'reject'?",
        ),
        ({"durability": "disk"}, "durability='disk' has to be one of: server, replica"),
        ({"leese": 4}, "there is no setting 'leese': did you mean 'lease'?"),
        ({"url": ""}, "url='' has to be text"),
        ({"max_payload": "much"}, "max_payload: 'much' is no size: write a number of bytes"),
    ],
)
def test_the_sentence_names_what_would_work(given: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError) as caught:
        BrokerSettings(**given)
    assert str(caught.value).startswith(why)
    assert caught.value.__cause__ is None


def test_arguments_have_names() -> None:
    with pytest.raises(TypeError, match="positional"):
        BrokerSettings("redis://x")  # type: ignore[call-arg]


def test_an_override_hides_what_the_environment_says() -> None:
    environ = {"CALLBOARD_BEAT_EVERY": "3", "CALLBOARD_LEASE": "never"}
    assert BrokerSettings.from_env(environ, lease=10.0).beat_every == 3.0
    with pytest.raises(SettingsError, match="beat at least twice"):
        BrokerSettings.from_env(environ, lease=4.0)


def test_settings_can_be_compared_and_changed_in_a_copy() -> None:
    changed = dataclasses.replace(BrokerSettings(), lease=7.0)
    assert changed == BrokerSettings(lease=7.0)
    assert hash(changed) == hash(BrokerSettings(lease=7))
    with pytest.raises(SettingsError, match="lease=0 has to be more than 0"):
        dataclasses.replace(changed, lease=0)


def test_settings_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        BrokerSettings().lease = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1048576", 1_048_576),
        ("500MB", 500_000_000),
        ("500 mb", 500_000_000),
        ("1.5G", 1_500_000_000),
        ("64MiB", 67_108_864),
        ("2GiB", 2_147_483_648),
        ("10k", 10_000),
        ("0", 0),
    ],
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert BrokerSettings.from_env({"CALLBOARD_MAX_MEMORY": text}).max_memory == size


@pytest.mark.parametrize("text", ["", "much", "-1", "1 TB of it", "MB", "1e3"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is no size"):
        parse_size(text)


def test_there_is_no_limit_of_a_worker_by_default() -> None:
    assert (BrokerSettings().max_memory, BrokerSettings().max_messages) == (0, 0)
    with pytest.raises(SettingsError, match="max_messages"):
        BrokerSettings(max_messages=-1)
