from .errors import (
    TeamBusyError as TeamBusyError,
    TeamDeclarationError as TeamDeclarationError,
    TeamError as TeamError,
    TeamNotRunError as TeamNotRunError,
    TeamRunError as TeamRunError,
    TeamStateError as TeamStateError,
)
from .group_chat import BaseGroupChat as BaseGroupChat
from .round_robin import RoundRobinGroupChat as RoundRobinGroupChat
from .selection import (
    Choice as Choice,
    Floor as Floor,
    Member as Member,
    SpeakerSelection as SpeakerSelection,
)

__all__: list[str]
