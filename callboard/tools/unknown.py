"""What to do about a call whose outcome is unknown."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

IfUnknown: TypeAlias = Literal["retry", "idempotency_key", "tell", "ask"]
"""What to do when a crash left it unknown whether a tool did its work.

- "retry": call it again.
- "idempotency_key": call it again, which is right because it hands on the key that it is given.
- "tell": tell the model, which has to find out.
- "ask": have a person decide: call it again, tell the model, or let the turn fail.
"""

NOT_AGAIN: Final[frozenset[IfUnknown]] = frozenset({"tell", "ask"})
"""Where the tool is not called again unasked."""
