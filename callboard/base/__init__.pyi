from .names import (
    AndTerminationCondition as AndTerminationCondition,
    ChatAgent as ChatAgent,
    Handoff as Handoff,
    OrTerminationCondition as OrTerminationCondition,
    Response as Response,
    TaskResult as TaskResult,
    TaskRunner as TaskRunner,
    Team as Team,
    TerminatedException as TerminatedException,
    TerminationCondition as TerminationCondition,
)

__all__: list[str]
