from .access import (
    Access as Access,
    Identity as Identity,
    Tokens as Tokens,
    door_id as door_id,
    new_token as new_token,
)
from .door import asgi as asgi

__all__: list[str]
