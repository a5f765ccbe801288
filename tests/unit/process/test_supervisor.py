"""The policy and the words of a supervisor; its processes are in tests/integration."""

from __future__ import annotations

import pytest

from callboard.process.supervisor import RestartPolicy, describe_exit


def test_pauses_double_up_to_the_cap_and_end() -> None:
    policy = RestartPolicy(limit=5, base=1.0, cap=5.0)
    assert [policy.pause(number) for number in range(1, 7)] == [1.0, 2.0, 4.0, 5.0, 5.0, None]
    assert RestartPolicy(limit=0).pause(1) is None


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "ended by itself"),
        (3, "ended with exit code 3"),
        (-9, "was killed by SIGKILL"),
        (-250, "was killed by signal 250"),
    ],
)
def test_endings(code: int, text: str) -> None:
    assert describe_exit(code) == text
