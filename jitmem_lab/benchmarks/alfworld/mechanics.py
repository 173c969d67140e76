"""ALFWorld's real mechanics, as they run inside a worker process."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from ...errors import UserError
from . import memo as memoised
from .native import Libraries

HIDDEN = frozenset({"help"})
"""Commands left out of the admissible list: they never change a game."""


class Host:
    """Makes games in this process.

    Args:
        memo: Whether TextWorld's pure functions are memoised (same games, several times faster).
        kept: Folder in which translated games are kept; empty keeps none.
    """

    def __init__(self, memo: bool = True, kept: str = "") -> None:
        # Importing alfworld makes a folder in the user's home unless told of one that exists.
        os.environ.setdefault("ALFWORLD_DATA", tempfile.gettempdir())
        import fast_downward

        self._libraries = Libraries()
        fast_downward.load_lib = self._libraries.take
        self._memo = memoised.install(Path(kept) if kept else None) if memo else memoised.Memo()

    def open(self, spec: dict[str, Any]) -> Game:
        """A live game from `spec`: `domain`, `grammar` (task sentence included) and `problem` texts."""
        return Game(spec, self._libraries)

    def plan(self, spec: dict[str, Any]) -> list[str]:
        """The planner's solution of a game; empty when it finds none."""
        self._memo.planning = True
        try:
            game = Game(spec, self._libraries)
        finally:
            self._memo.planning = False
        try:
            return game.plan()
        finally:
            game.close()


class Game:
    """One live game. Every answer is `[text, admissible, reward, done, won]`."""

    def __init__(self, spec: dict[str, Any], libraries: Libraries) -> None:
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld.core import EnvInfos
        from textworld.envs.pddl.pddl import PddlEnv

        self._libraries = libraries
        base = PddlEnv(EnvInfos(won=True, admissible_commands=True))
        self._library: Any = base.downward_lib
        self._base = base
        self._env = AlfredDemangler(base)
        try:
            self._env.load(
                {
                    "pddl_domain": spec["domain"],
                    "grammar": spec["grammar"],
                    "pddl_problem": spec["problem"],
                }
            )
        except BaseException:
            self.close()
            raise

    def reset(self) -> list[Any]:
        """Start over."""
        state = self._env.reset()
        return _answer(state, 0.0, False)

    def step(self, action: str) -> list[Any]:
        """Act; an unknown command is answered by the game's own text."""
        if not isinstance(action, str):
            raise UserError(f"an action must be a string, not {type(action).__name__}")
        state, reward, done = self._env.step(action)
        return _answer(state, float(reward), bool(done))

    def plan(self) -> list[str]:
        """The planner's actions from the present state to the goal; empty when it finds none."""
        return [str(action) for action in self._base._pddl_state.replan(self._base._entity_infos)]

    def close(self) -> None:
        """Give the native library back for the next game."""
        if self._library is not None:
            self._libraries.give(self._library)
            self._library = None


def _answer(state: Any, reward: float, done: bool) -> list[Any]:
    admissible = [command for command in state["admissible_commands"] if command not in HIDDEN]
    return [state.feedback, admissible, reward, done, bool(state["won"])]
