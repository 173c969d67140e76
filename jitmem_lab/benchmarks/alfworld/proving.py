"""The planner's proof that every generated household can be solved.

`python -m jitmem_lab.benchmarks.alfworld.proving --write` searches all plans anew and rewrites
`households.json`; without `--write` it only checks what is shipped.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ...errors import InfrastructureError
from ..workers import WorkerPool, cpu_count
from .catalogue import GENERATED_GAMES
from .games import Game
from .households import Plot, generated_games, plots, problem_hash, write_game

SHORTEST, LONGEST = 3, 10
"""Plan lengths kept, as in the real data."""
ATTEMPTS = 30
"""Placings tried before a game is given up."""
_TARGET = "jitmem_lab.benchmarks.alfworld.mechanics:Host"


def _spec(game: Game) -> dict[str, Any]:
    return {"domain": game.domain, "grammar": game.grammar, "problem": game.problem}


def solves(pool: WorkerPool, game: Game, actions: Iterable[str]) -> bool:
    """Whether the real environment counts `actions` as a solution, each of them admissible."""
    env = pool.open(_spec(game))
    try:
        answer = env.call("reset")
        for action in actions:
            if answer[4] or action not in answer[1]:
                return False
            answer = env.call("step", action)
        return bool(answer[4])
    finally:
        env.close()


def find_plan(pool: WorkerPool, game: Game) -> list[str]:
    """The planner's own solution of `game`; empty when it finds none."""
    plan: list[str] = pool.call("plan", _spec(game))
    return [action.strip() for action in plan]


def prove(n: int | None = None, seed: int = 0, workers: int | None = None) -> dict[str, Any]:
    """Plan and play `n` generated games (None: all) again.

    Returns:
        `games` tried, `planned` (the planner solves it now), `solved` (the shipped walkthrough wins in the
        real environment), and the ids of `failed` ones.
    """
    games = [game for split in GENERATED_GAMES for game in generated_games(split)]
    if n is not None and n < len(games):
        games = random.Random(seed).sample(games, n)
    pool = WorkerPool(_TARGET, workers=workers)
    try:
        with ThreadPoolExecutor(pool.limit) as threads:
            planned = list(threads.map(lambda game: bool(find_plan(pool, game)), games))
            solved = list(threads.map(lambda game: solves(pool, game, game.walkthrough), games))
    finally:
        pool.close()
    failed = [g.game_id for g, a, b in zip(games, planned, solved, strict=True) if not (a and b)]
    return {"games": len(games), "planned": sum(planned), "solved": sum(solved), "failed": failed}


def search(pool: WorkerPool, plot: Plot) -> tuple[int, str, list[str]]:
    """The first attempt of a game whose plan has a fitting length, its problem's hash and that plan."""
    for attempt in range(ATTEMPTS):
        game = write_game(plot, attempt, [])
        try:
            plan = find_plan(pool, game)
        except InfrastructureError:  # the planner takes too long here
            continue
        if SHORTEST <= len(plan) <= LONGEST and solves(pool, game, plan):
            return attempt, problem_hash(game), plan
    raise RuntimeError(f"no attempt of {plot.game_id} has a plan of {SHORTEST} to {LONGEST} actions")


def write(path: Path, workers: int | None = None) -> None:
    """Search the plans that `path` lacks or whose games came out differently, and write them all there."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    kept = {row[1]: row for rows in known.values() for row in rows}
    wanted = {split: plots(split) for split in GENERATED_GAMES}
    pool = WorkerPool(_TARGET, workers=workers or cpu_count())

    def row(plot: Plot) -> list[Any]:
        for attempt in range(ATTEMPTS):
            found = kept.get(problem_hash(write_game(plot, attempt, [])))
            if found:
                return found
        return list(search(pool, plot))

    found: dict[str, list[list[Any]]] = {split: [] for split in wanted}
    try:
        with ThreadPoolExecutor(pool.limit) as threads:
            for split, games in wanted.items():
                for made in threads.map(row, games):
                    found[split].append(made)
                    lines = (f'"{name}": [\n{_rows(rows)}\n]' for name, rows in found.items())
                    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    finally:
        pool.close()


def _rows(rows: list[list[Any]]) -> str:
    return ",\n".join(json.dumps(row) for row in rows)


def main() -> None:
    """Command line of this module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="search all plans anew")
    parser.add_argument("-n", type=int, default=None, help="games to check; all if not given")
    parser.add_argument("--workers", type=int, default=None, help="worker processes")
    options = parser.parse_args()
    if options.write:
        write(Path(__file__).with_name("households.json"), options.workers)
    print(json.dumps(prove(options.n, workers=options.workers)))


if __name__ == "__main__":
    main()
