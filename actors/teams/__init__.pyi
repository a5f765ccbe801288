from .errors import (
    HandoffTargetError as HandoffTargetError,
    ParticipantTypeError as ParticipantTypeError,
    SpeakerChoiceError as SpeakerChoiceError,
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
from .selector import SelectorGroupChat as SelectorGroupChat
from .swarm import Swarm as Swarm

__all__: list[str]
