"""An agent that fails, whose keys and message ids are chosen by somebody who wants a shell to run them."""

from __future__ import annotations

from callboard import App, MessageContext, RoutedAgent, event

TYPE = "clerk"
MARK = "PWNED"

app = App("desk")


@app.agent(TYPE, topics=["calls"], max_attempts=1)
class Clerk(RoutedAgent):
    """Fails, and says with what."""

    @event
    async def on_call(self, message: str, ctx: MessageContext) -> None:
        raise ValueError(f"no such room: {message}")


HOSTILE = (
    f"x; touch {MARK} #",
    f"x && touch {MARK}",
    f"$(touch {MARK})",
    f"`touch {MARK}`",
    f"x'; touch {MARK}; '",
    f'x"; touch {MARK}; "',
    f"x\ntouch {MARK}\n",
    f"x | tee {MARK}",
    f"x > {MARK}",
    f"--help; touch {MARK}",
)
"""Keys and ids. Pasted without quotes, each leaves a file of that name."""
