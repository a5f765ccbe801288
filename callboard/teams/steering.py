"""Orders to the runs of a conversation, from whatever process."""

from __future__ import annotations

from .errors import TeamNotRunError
from .orders import Accepted, Control
from .records import Records


class Steering(Records):
    """The part of a TeamClient that tells runs what to do."""

    async def pause(self, *, now: bool = False, run_id: str = "") -> bool:
        """Let nobody begin to speak until `resume`; it holds across restarts of everything.

        Args:
            now: Interrupt who is speaking as well. It begins its turn again after `resume`, and what it had recorded,
                such as answers of models and tools, is not made again.
            run_id: The run that is meant; "": the one under way.

        Returns:
            False when it was paused already.

        Raises:
            TeamNotRunError: No run is under way (a RuntimeError).
        """
        return await self._control(Control(what="pause", now=now, run_id=run_id))

    async def resume(self, *, run_id: str = "") -> bool:
        """Go on after `pause`; False when it was not paused."""
        return await self._control(Control(what="resume", run_id=run_id))

    async def step(self, *, run_id: str = "", turn: int = 0, on: bool = False) -> bool:
        """Let the next turn begin, of a run that was started with `step=True`.

        Args:
            run_id: The run that is meant; "": the one under way.
            turn: Number of the turn, of a `RunHeld` entry: a call that comes late begins no other; 0: whichever waits.
            on: Do not wait before the turns that follow, either.

        Returns:
            False when nothing changed: it does not wait, or another turn does; or it is paused, and goes on with `resume`.

        Raises:
            TeamNotRunError: No run is under way (a RuntimeError).
        """
        return await self._control(Control(what="step", now=on, run_id=run_id, turn=turn))

    async def stop(self) -> bool:
        """End the run after the turn under way, as an ExternalTermination does."""
        return await self._control(Control(what="stop"))

    async def abort(self, run_id: str = "") -> bool:
        """Cancel a run now. What was said is kept; who is speaking is not heard any more.

        Args:
            run_id: The run: the one under way, or one that waits for its turn; "": the one under way.

        Raises:
            TeamNotRunError: There is no such run (a RuntimeError).
        """
        return await self._control(Control(what="abort", run_id=run_id))

    async def _control(self, order: Control) -> bool:
        accepted = await self.runtime.send_message(order, self._address)
        self._check_done(accepted)
        return accepted.done

    def _check_done(self, accepted: Accepted) -> None:
        if accepted.problem:
            raise TeamNotRunError(self.team, f"can't do that: {accepted.problem}")
