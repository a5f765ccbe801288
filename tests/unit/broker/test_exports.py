import subprocess
import sys

import pytest

import broker


def test_all_names_everything_and_everything_is_there() -> None:
    assert sorted(broker.__all__) == sorted(broker._HOME)
    for name in broker.__all__:
        assert getattr(broker, name) is not None
    assert set(broker.__all__) <= set(dir(broker))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'broker' has no attribute 'AgentID'"):
        broker.AgentID  # type: ignore[attr-defined]  # noqa: B018


def test_importing_loads_nothing_heavy() -> None:
    code = "import sys, broker; print([m for m in ('asyncio', 'pydantic', 'redis', 'msgpack') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_pure_half_loads_neither_redis_nor_asyncio() -> None:
    code = (
        "import sys\n"
        "from broker import MessageRegistry, RetryPolicy, SubscriptionTable, BrokerSettings, Outcome\n"
        "import broker.codec, broker.remote_errors, broker.telemetry\n"
        "print([m for m in ('asyncio', 'redis', 'hiredis') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
