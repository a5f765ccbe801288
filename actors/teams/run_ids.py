"""Ids that programs give their runs."""

from __future__ import annotations

from typing import Final

from callboard.errors import SettingValueError

MOST_OWN_ID: Final = 100  # characters; MOST_RUN_ID without a digest and what ends the name of a recording


def check_run_id(run_id: str) -> None:
    """Refuse an id that leaves no room for what is added to it in the names of the run's streams.

    Raises:
        SettingValueError: It is too long (a ValueError).
    """
    if len(run_id) > MOST_OWN_ID:
        raise SettingValueError("run_id", repr(run_id[:MOST_OWN_ID]), f"1 to {MOST_OWN_ID} characters")
