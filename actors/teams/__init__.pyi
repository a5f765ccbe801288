from .client import TeamClient as TeamClient
from .errors import (
    TeamBusyError as TeamBusyError,
    TeamDeclarationError as TeamDeclarationError,
    TeamError as TeamError,
    TeamNotRunError as TeamNotRunError,
    TeamRunError as TeamRunError,
    TeamStateError as TeamStateError,
    TeamTaskError as TeamTaskError,
)
from .group_chat import BaseGroupChat as BaseGroupChat
from .round_robin import RoundRobinGroupChat as RoundRobinGroupChat
from .selection import (
    Choice as Choice,
    Floor as Floor,
    Member as Member,
    SpeakerSelection as SpeakerSelection,
)
from .solo import SoloAgent as SoloAgent

__all__: list[str]
