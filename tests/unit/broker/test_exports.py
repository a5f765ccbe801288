import subprocess
import sys

import pytest

import callboard.broker


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"No callboard\.broker attribute AgentID"):
        callboard.broker.AgentID  # type: ignore[attr-defined]  # noqa: B018


def test_importing_loads_nothing_heavy() -> None:
    code = (
        "import sys, callboard.broker;"
        "print([m for m in ('asyncio', 'pydantic', 'redis', 'msgpack') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_pure_half_loads_neither_redis_nor_asyncio() -> None:
    code = (
        "import sys\n"
        "from callboard.broker import MessageRegistry, RetryPolicy, BrokerSettings, Outcome\n"
        "from callboard.broker.subscriptions import SubscriptionTable\n"
        "import callboard.broker.envelope, callboard.broker.remote_errors, callboard.broker.telemetry\n"
        "print([m for m in ('asyncio', 'redis', 'hiredis') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
