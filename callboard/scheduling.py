"""The part of an App that declares schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol

from .broker.ids import AGENT_TYPE, AgentId, TopicId
from .errors import SettingValueError
from .schedules import Firing, Missed, Schedule, check_missed

Send = Callable[[Firing], tuple[Any, TopicId | AgentId]]

SHOWN = 60  # characters of a task or message that lists show


class OrderedTeam(Protocol):
    """A team, as far as a schedule needs it."""

    @property
    def name(self) -> str:
        """The agent type of its manager."""
        ...

    def order(self, run_id: str, task: str, conversation: str | None = None) -> object:
        """The message to its manager that begins a run, or lets it wait for the one under way."""
        ...


class Scheduling:
    """What an App declares that is sent again and again."""

    def __init__(self) -> None:
        self._schedules: dict[str, Schedule] = {}

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """The schedules, by name."""
        return self._schedules

    def schedule(
        self,
        when: str | timedelta,
        what: Any,
        *,
        topic: str | TopicId | None = None,
        team: OrderedTeam | None = None,
        conversation: str | None = None,
        name: str | None = None,
        tz: str = "UTC",
        missed: Missed = "one",
    ) -> Schedule:
        """Declare what is sent again and again: a message to a topic, or a task to a team.

        ```python
        app.schedule("0 9 * * mon", WeeklyReport(), topic="reports", tz="Europe/Berlin")
        app.schedule(timedelta(minutes=5), "What is new?", team=research, name="watch")
        ```

        Every worker process of the app looks to it; each due time is sent once, however many there are and whatever
        dies. A message has the id `<name>@<due time>`, such as "reports@20261123T080000Z", and so has a team's run.

        Args:
            when: Five fields of cron (minute, hour, day of month, month, day of week), or "@daily" and the like; or
                a span of time: due times are its multiples since 1970.
            what: The message; for a team the task, as a text.
            topic: Topic type, or a topic; its agents get the message.
            team: The team; `App.team` has to declare it as well. A run that is under way is waited for.
            conversation: With a team: the conversation to go on with. None: each run has a new one, named like it.
            name: Letters, digits, ``_``, ``-`` and ``.``. None: that of the topic or team.
            tz: Time zone of a cron text.
            missed: What becomes of due times that no process saw to until the next one was due (a second at least, a
                minute at most), because none was there or the schedule was paused: "skip": nothing; "one": the last one
                is sent; "all": each, the last 1,000 at most.

        Returns:
            The schedule.

        Raises:
            SettingValueError: A value can't work, or the name is taken (a ValueError).
        """
        from .timetable import timetable

        if team is not None and topic is None:
            to, send = f"team {team.name}", _to_team(team, what, conversation)
            team.order(
                Firing(name or team.name, 1).id, what, conversation
            )  # what can't be ordered is said here
        elif topic is not None and team is None and conversation is None:
            goal = TopicId(topic, "default") if isinstance(topic, str) else topic
            to, send = f"topic {goal.type}", lambda firing: (what, goal)
        else:
            raise SettingValueError("topic", repr(topic), "given alone, or a team in its place")
        name = name or to.partition(" ")[2]
        if name in self._schedules or not AGENT_TYPE.match(name):
            rule = "a name that no other schedule has, of letters, digits, '_', '-' and '.'"
            raise SettingValueError("name", repr(name), rule)
        shown = what if isinstance(what, str) else repr(what)
        self._schedules[name] = Schedule(
            name=name,
            timetable=timetable(when, tz),
            missed=check_missed(missed),
            to=to,
            what=shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}...",
            send=send,
            is_run=team is not None,
        )
        return self._schedules[name]


def _to_team(team: OrderedTeam, task: Any, conversation: str | None) -> Send:
    if not isinstance(task, str):
        raise SettingValueError("what", repr(task), "a task as a text, where a team is given")

    def send(firing: Firing) -> tuple[Any, AgentId]:
        return team.order(firing.id, task), AgentId(
            team.name, firing.id if conversation is None else conversation
        )

    return send
