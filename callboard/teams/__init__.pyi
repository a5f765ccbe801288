from .budget import RunBudget as RunBudget
from .client import TeamClient as TeamClient
from .concurrent import ConcurrentGroupChat as ConcurrentGroupChat
from .errors import (
    RunBudgetExceededError as RunBudgetExceededError,
    RunCancelledError as RunCancelledError,
    RunUnknownError as RunUnknownError,
    SpeakerChoiceError as SpeakerChoiceError,
    TeamBusyError as TeamBusyError,
    TeamDeclarationError as TeamDeclarationError,
    TeamError as TeamError,
    TeamForkError as TeamForkError,
    TeamMemberError as TeamMemberError,
    TeamNotRunError as TeamNotRunError,
    TeamOutputError as TeamOutputError,
    TeamRunError as TeamRunError,
    TeamStateError as TeamStateError,
)
from .graph_flow import (
    DiGraph as DiGraph,
    DiGraphBuilder as DiGraphBuilder,
    DiGraphEdge as DiGraphEdge,
    DiGraphNode as DiGraphNode,
    GraphFlow as GraphFlow,
)
from .group_chat import (
    BaseGroupChat as BaseGroupChat,
    RoundRobinGroupChat as RoundRobinGroupChat,
    SoloAgent as SoloAgent,
)
from .listing import RunSummary as RunSummary, find_run as find_run, list_runs as list_runs
from .loop import Choice as Choice, Floor as Floor, Member as Member, SpeakerSelection as SpeakerSelection
from .magentic_one import MagenticOneGroupChat as MagenticOneGroupChat
from .notices import RunNotice as RunNotice
from .selector import SelectorGroupChat as SelectorGroupChat
from .swarm import Swarm as Swarm

__all__: list[str]
