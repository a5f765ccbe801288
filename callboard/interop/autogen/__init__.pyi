from .runtime import CallboardRuntime as CallboardRuntime
from .shared_team import SharedTeam as SharedTeam

__all__: list[str]
