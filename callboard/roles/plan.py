"""Plans: tasks that a model lays down, and what came of them."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, Field, ValidationError

from callboard.models import extract_json_from_str

from .errors import MessageDataError
from .llm import Answering

ASK: Final = """Make a plan for this:
{goal}

Answer with a JSON list of tasks, in the order in which they are to be done, and nothing else. Each of them is
{{"task_id": "1", "dependent_task_ids": [], "instruction": "..."}}"""


class Task(BaseModel):
    """One task of a plan.

    Attributes:
        task_id: Its number.
        dependent_task_ids: Tasks that have to be done before.
        instruction: What is to be done.
        result: What came of it.
        is_finished: Whether it is done.
    """

    task_id: str
    dependent_task_ids: list[str] = Field(default_factory=list)
    instruction: str = ""
    result: str = ""
    is_finished: bool = False


class TaskResult(BaseModel):
    """What came of a task.

    Attributes:
        result: As text.
        is_success: Whether it is done; else the plan ends there.
    """

    result: str = ""
    is_success: bool = True


class Plan(BaseModel):
    """Tasks for a goal."""

    goal: str = ""
    tasks: list[Task] = Field(default_factory=list)


class Planner(BaseModel):
    """Makes a plan and keeps count of it."""

    plan: Plan = Field(default_factory=Plan)
    has_failed: bool = False

    async def update_plan(self, llm: Answering, goal: str) -> None:
        """Ask a model for the tasks.

        Raises:
            MessageDataError: Its answer is no list of tasks (a ValueError).
        """
        answer = await llm.aask(ASK.format(goal=goal))
        self.plan, self.has_failed = Plan(goal=goal, tasks=_tasks_in(answer)), False

    @property
    def current_task(self) -> Task | None:
        """The first task that is not done and waits for no other; None: there is none, or one has failed."""
        if self.has_failed:
            return None
        done = {task.task_id for task in self.plan.tasks if task.is_finished}
        ready = (
            task
            for task in self.plan.tasks
            if not task.is_finished and done.issuperset(task.dependent_task_ids)
        )
        return next(ready, None)

    def finish(self, task: Task, result: TaskResult) -> None:
        """A task is done, or has failed."""
        task.result, task.is_finished = result.result, result.is_success
        self.has_failed = not result.is_success

    def summary(self) -> str:
        """What came of the tasks, as text."""
        return "\n".join(f"{task.task_id}. {task.instruction}: {task.result}" for task in self.plan.tasks)


def _tasks_in(answer: str) -> list[Task]:
    try:
        found = extract_json_from_str(answer)
        data = found[0] if len(found) == 1 and isinstance(found[0], list) else found
        return [Task.model_validate(one) for one in data]
    except (ValueError, ValidationError) as error:
        raise MessageDataError("the model's answer is no list of tasks") from error
