"""`jitmem bench`: measurements on this machine."""

from __future__ import annotations

from typing import Any

import click

from ..errors import UserError
from ..terminal import Seconds, emit, facts, json_option, names, note, table


@click.group("bench")
def bench_group() -> None:
    """Measure retrieval, stream, choice and environments here."""


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part.replace("_", "")) for part in names(text, "--sizes"))
    except ValueError:
        raise UserError(
            f"--sizes takes whole numbers with commas, such as 1000,100000, not '{text}'"
        ) from None


@bench_group.command("retrieval")
@click.option(
    "--corpus", "corpora", default="alfworld,webshop,long", show_default=True, help="Corpora, with commas."
)
@click.option("--sizes", default="1000,100000", show_default=True, help="Traces in the bank, with commas.")
@click.option("--seed", default=0, show_default=True, help="Seed of the texts.")
@json_option
def bench_retrieval(corpora: str, sizes: str, seed: int, as_json: bool) -> None:
    """Retrieval against rank-bm25, interleaved in one process."""
    counts = _sizes(sizes)

    def work() -> dict[str, Any]:
        from .retrieval import run

        return dict(run(corpora=names(corpora, "--corpus"), sizes=counts, seed=seed, progress=note))

    def show(result: dict[str, Any]) -> str:
        from .retrieval import render

        return render(result)

    emit(as_json, work, show)


@bench_group.command("stream")
@click.option(
    "--episodes", type=click.IntRange(min=1), default=2000, show_default=True, help="Episodes played."
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=32, show_default=True, help="Episodes at a time."
)
@click.option(
    "--latency",
    type=Seconds(min=0),
    default=0.2,
    show_default=True,
    help="Seconds that the stub model takes.",
)
@json_option
def bench_stream(episodes: int, concurrency: int, latency: float, as_json: bool) -> None:
    """The stream's own cost, with a stub model of a fixed latency."""

    def work() -> dict[str, Any]:
        from .stream import run

        return dict(run(episodes=episodes, concurrency=concurrency, latency=latency))

    emit(as_json, work, facts)


@bench_group.command("choose")
@click.option(
    "--states", type=click.IntRange(min=1), default=200, show_default=True, help="Recorded states decided on."
)
@click.option(
    "--threads", type=click.IntRange(min=1), default=2, show_default=True, help="Threads of the model."
)
@click.option("--split", default="valid_seen", show_default=True, help="Split the states come from.")
@json_option
def bench_choose(states: int, threads: int, split: str, as_json: bool) -> None:
    """The embedded model's time to choose an action on recorded states."""

    def work() -> dict[str, Any]:
        from .choose import run

        return dict(run(states=states, threads=threads, split=split))

    emit(as_json, work, facts)


@bench_group.command("payload")
@click.option(
    "--games",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Games, the same under each.",
)
@click.option("--split", default="valid_seen", show_default=True, help="Split to play.")
@click.option("--model", default="smol", show_default=True, help="The executor's model.")
@click.option("-o", "--out", help="Folder in which the two runs are kept.")
@json_option
def bench_payload(games: int, split: str, model: str, out: str | None, as_json: bool) -> None:
    """Success with no payload, a wrong one, a raw trace, and the walkthrough."""

    def work() -> dict[str, Any]:
        from .payload import run

        return run(games=games, split=split, model=model, out=out)

    emit(as_json, work, facts)


@bench_group.command("alfworld")
@click.option("--split", "splits", default="valid_seen,valid_unseen", show_default=True, help="With commas.")
@click.option("--games", type=click.IntRange(min=1), help="Games of each split; all by default.")
@click.option(
    "--memo-games",
    type=click.IntRange(min=0),
    help="Games replayed without the memo patches; all by default.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Worker processes; one a CPU by default.")
@json_option
def bench_alfworld(
    splits: str, games: int | None, memo_games: int | None, workers: int | None, as_json: bool
) -> None:
    """Oracle, floors and memo patches on real ALFWorld games."""

    def work() -> dict[str, Any]:
        from ..benchmarks.alfworld.check import check_split

        rows = []
        for split in names(splits, "--split"):
            note(f"{split} …")
            rows.append(check_split(split, workers=workers, limit=games, memo_limit=memo_games))
        return {"rows": rows}

    emit(as_json, work, lambda result: table(result["rows"], "no splits"))


@bench_group.command("env")
@click.option("--benchmark", "benchmarks", help="Benchmarks, with commas; all by default.")
@click.option(
    "--episodes", type=click.IntRange(min=1), default=10, show_default=True, help="Tasks of each split."
)
@json_option
def bench_env(benchmarks: str | None, episodes: int, as_json: bool) -> None:
    """Resets and steps of each benchmark's environments."""
    chosen = None if benchmarks is None else names(benchmarks, "--benchmark")

    def work() -> dict[str, Any]:
        from .environments import run

        return run(chosen, episodes, progress=note)

    emit(as_json, work, lambda result: table(result["rows"], "no benchmarks", limit=100))


@bench_group.command("views")
@click.option(
    "--episodes", type=click.IntRange(min=1), default=10_000, show_default=True, help="Of the long run."
)
@click.option(
    "--gigabytes",
    type=click.FloatRange(min=0.001),
    default=1.0,
    show_default=True,
    help="Size of the large run's episodes.jsonl.",
)
@click.option(
    "--observation",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="Megabytes of one observation.",
)
@click.option(
    "--sessions", type=click.IntRange(min=0), default=200, show_default=True, help="Visits opened and closed."
)
@json_option
def bench_views(episodes: int, gigabytes: float, observation: float, sessions: int, as_json: bool) -> None:
    """The dashboards in a real browser: first view, opening a task, long runs, memory of the server."""

    def work() -> dict[str, Any]:
        from .views import run

        return run(episodes, gigabytes, observation, sessions, progress=note)

    def show(result: dict[str, Any]) -> str:
        from .views import render

        return render(result)

    emit(as_json, work, show)


@bench_group.command("training")
@click.option("--preset", default="pocket", show_default=True, help="Preset of the training.")
@click.option("--steps", type=click.IntRange(min=3), default=5, show_default=True, help="Steps a training.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=4, show_default=True, help="Trainings each way, in turn."
)
@json_option
def bench_training(preset: str, steps: int, rounds: int, as_json: bool) -> None:
    """A training step beside TRL's own, interleaved, with episodes of no length."""

    def work() -> dict[str, Any]:
        from .training import run

        return dict(run(preset=preset, steps=steps, rounds=rounds, progress=note))

    emit(as_json, work, facts)


@bench_group.command("sweep")
@click.option("--games", type=click.IntRange(min=1), default=6, show_default=True, help="Games of a run.")
@click.option(
    "--rounds", type=click.IntRange(min=1), default=4, show_default=True, help="Passes each way, in turn."
)
@json_option
def bench_sweep(games: int, rounds: int, as_json: bool) -> None:
    """Runs one by one beside the same runs as a sweep, interleaved."""

    def work() -> dict[str, Any]:
        from .sweeps import run

        return run(games=games, rounds=rounds, progress=note)

    emit(as_json, work, facts)
