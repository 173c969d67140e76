"""The contract can fail: each of its checks against doubles that break its rule, and one that keeps all."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.benchmarks.contract import CHECKS, check_contract
from jitmem_lab.benchmarks.demos import demonstrations
from jitmem_lab.errors import UserError
from jitmem_lab.records import Task, Trajectory
from jitmem_lab.session import Session

pytestmark = pytest.mark.unit


class Walk:
    """An episode: `ahead` three times; its place is the only state."""

    length = 3

    def __init__(self, toy: Toy, task: Task) -> None:
        self.toy, self.task, self.place, self.open = toy, task, 0, True

    def reset(self) -> Observation:
        self.place = 0
        return self.seen()

    def step(self, action: str) -> Observation:
        if not self.open:
            raise UserError("closed")
        if action == "ahead":
            self.place += 1
        return self.seen("" if action in ("ahead", "wait") else "You can't do that.")

    def seen(self, text: str = "") -> Observation:
        done = self.place == self.length
        text = text or f"{self.task.description} You are at {self.place}."
        return Observation(text, ("ahead", "wait"), reward=float(done), done=done, success=done)

    def close(self) -> None:
        self.open = False


class Toy:
    """A benchmark in this process that keeps the contract."""

    name, version, max_steps, noop, tells_at_reset = "toy", "1", 5, "wait", False
    splits: tuple[str, ...] = ("train", "test")
    walk: ClassVar[type[Walk]] = Walk
    meta: ClassVar[dict[str, Any]] = {}
    train = "train"

    def __init__(self, split: str = "test") -> None:
        if split not in self.splits:
            raise UserError(f"no split {split!r}; there are {', '.join(self.splits)}")
        self.split = split

    def ids(self, split: str) -> list[str]:
        return [f"{split}-{number}" for number in range(10)]

    def of(self, split: str) -> list[Task]:
        return [
            Task(benchmark=self.name, split=split, task_id=name, description=f"Walk {name}.", meta=self.meta)
            for name in self.ids(split)
        ]

    def tasks(self, limit: int | None = None, order: int | None = None) -> list[Task]:
        if limit is not None and limit < 0:
            raise UserError("limit must be 0 or more")
        found = self.of(self.split)
        if order is not None:
            found = found[order + 1 :] + found[: order + 1]
        return found[:limit]

    def make_env(self, task: Task, session: Session | None = None) -> Walk:
        return self.walk(self, task)

    def oracle(self, task: Task) -> list[str]:
        return ["ahead"] * 3

    def demonstrations(self, limit: int, seed: int = 0) -> list[Trajectory]:
        return demonstrations(self, self.of(self.train)[seed : seed + limit], 1)

    def provenance(self) -> dict[str, Any]:
        return {"benchmark": self.name, "version": self.version, "split": self.split}

    def close(self) -> None:
        pass


def broken(base: type[Toy] = Toy, **changes: Any) -> Toy:
    return type("Broken", (base,), changes)("test")


def walking(**changes: Any) -> Toy:
    """A toy whose episodes are changed."""
    return broken(walk=type("BrokenWalk", (Walk,), changes))


def seen_with(**fields: Any) -> Toy:
    """A toy whose observations have other fields."""
    return walking(seen=lambda self, text="": Walk.seen(self, text)._replace(**fields))


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def sleepers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that a double starts; they are ended with the test."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def fails(check: str, bench: Any, sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        CHECKS[check](bench)


def test_a_benchmark_that_keeps_the_contract_passes_every_check() -> None:
    rows = check_contract(Toy())
    assert [row for row in rows if not row["ok"]] == []
    assert [row["check"] for row in rows] == list(CHECKS)
    assert all(row["detail"] for row in rows)


def test_rows_say_what_is_broken_and_the_rest_is_still_checked() -> None:
    def crash(self: Toy) -> dict[str, Any]:
        raise ZeroDivisionError("oh")

    rows = {row["check"]: row for row in check_contract(broken(provenance=crash, max_steps=2))}
    assert not rows["provenance"]["ok"]
    assert rows["provenance"]["detail"] == "ZeroDivisionError: oh"
    assert "more than max_steps" in rows["oracle"]["detail"]
    assert rows["tasks"]["ok"]
    assert rows["close"]["ok"]


loads = iter(range(10**6))


def tasks_with(**fields: Any) -> Toy:
    """A toy whose tasks have other fields."""
    return broken(of=lambda self, split: [task.model_copy(update=fields) for task in Toy.of(self, split)])


def listing(tasks: Any) -> Toy:
    """A toy whose `tasks(limit, order)` is changed."""
    return broken(tasks=lambda self, limit=None, order=None: tasks(self, limit, order))


def test_tasks() -> None:
    fails("tasks", broken(ids=lambda self, split: []), "has no tasks")
    fails("tasks", broken(ids=lambda self, split: ["a", "a"]), "the same task_id")
    fails("tasks", broken(ids=lambda self, split: [str(next(loads))]), "something else the second time")
    counted = broken(
        __init__=lambda self, split: vars(self).update(split=split, load=next(loads)),
        ids=lambda self, split: [f"{self.load} {split}"],
    )
    fails("tasks", counted, "loading the split again")
    fails("tasks", tasks_with(split="x"), "names another")
    fails("tasks", tasks_with(benchmark="x"), "names another")
    fails("tasks", tasks_with(description=" "), "no description")
    fails("tasks", tasks_with(meta={"pair": (1, 2)}), "does not survive JSON")
    fails("tasks", tasks_with(meta={"hidden": {"facts": ["walk TEST"]}}), "what it hides: 'walk TEST'")


def test_order_and_limit_of_tasks() -> None:
    fails("tasks", listing(lambda self, limit, order: Toy.tasks(self, limit, order)[order or 0 :]), "permut")
    fails("tasks", listing(lambda self, limit, order: Toy.tasks(self, limit)), "as they are")
    shifting = listing(lambda self, limit, order: Toy.tasks(self, limit, order and next(loads) % 10))
    fails("tasks", shifting, "differently the second time")
    fails("tasks", listing(lambda self, limit, order: Toy.tasks(self, None, order)), "take the first tasks")
    unordered = listing(lambda self, limit, order: Toy.tasks(self, limit, None if limit else order))
    fails("tasks", unordered, "first of the order")
    fails("tasks", listing(lambda self, limit, order: Toy.tasks(self, limit or None, order)), "limit of 0")
    lenient = listing(lambda self, limit, order: Toy.tasks(self, limit and max(limit, 0), order))
    fails("tasks", lenient, "-1 is not refused")


def test_splits() -> None:
    fails("splits", broken(split="tset", __init__=lambda self, split: None), "'tset' is none")
    fails("splits", broken(__init__=lambda self, split: vars(self).update(split=split)), "is not refused")

    def vague(self: Toy, split: str) -> None:
        if split not in self.splits:
            raise UserError("no such split; there is test")
        self.split = split

    fails("splits", broken(__init__=vague), "does not name train")


def test_provenance() -> None:
    for facts, sentence in (
        ({"version": "1", "split": "test", "path": Path("x")}, "no JSON"),
        ({"version": "1", "split": "test", "rate": float("nan")}, "no JSON"),
        ({"split": "test"}, "say the version"),
        ({"version": "1"}, "say the split"),
    ):
        fails("provenance", broken(provenance=lambda self, facts=facts: facts), sentence)
    empty = {"version": "", "split": "test"}
    fails("provenance", broken(version="", provenance=lambda self: empty), "version is empty")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"done": True}, "a reset is done already"),
        ({"text": None}, "text is no text"),
        ({"text": " "}, "text is empty"),
        ({"rules": None}, "rules is no text"),
        ({"accepted": 1}, "accepted is neither"),
        ({"reward": float("nan")}, "reward is no finite number"),
        ({"reward": None}, "reward is no finite number"),
        ({"success": True, "done": False}, "success comes before its end"),
        ({"admissible": ["ahead"]}, "no tuple of texts"),
        ({"admissible": (1,)}, "no tuple of texts"),
        ({"admissible": ("ahead", " ")}, "an empty action"),
        ({"admissible": ("ahead", "ahead")}, "twice"),
        ({"admissible": ()}, "admissible is empty"),
        ({"parts": {"at": Path("x")}}, "no JSON"),
        ({"tools": ({"name": "walk"},)}, "no function schemas"),
    ],
)
def test_observations(fields: dict[str, Any], sentence: str) -> None:
    fails("observations", seen_with(**fields), sentence)


def test_a_task_must_be_told_somewhere() -> None:
    fails("observations", broken(tells_at_reset=True), "does not tell the task")
    fails("observations", walking(seen=lambda self, text="": Walk.seen(self, text)[:3]), "no Observation")


def test_oracle() -> None:
    fails("oracle", broken(oracle=lambda self, task: []), "no actions")
    fails("oracle", broken(oracle=lambda self, task: [str(next(loads))]), "two different plans")
    fails("oracle", broken(oracle=lambda self, task: ["wait"] * 9), "more than max_steps")
    fails("oracle", broken(oracle=lambda self, task: ["ahead"] * 4), "ends before its oracle's 'ahead'")
    fails("oracle", broken(oracle=lambda self, task: ["fly"]), "takes 'fly', which is not admissible")
    fails("oracle", broken(oracle=lambda self, task: ["ahead"]), "does not solve")
    fails("oracle", seen_with(reward=0.0), "gives the reward 0")
    fails("oracle", broken(max_steps=0), "no whole number")


def test_floors() -> None:
    def paid(self: Walk, action: str) -> Observation:
        return Walk.step(self, action)._replace(reward=2.0 if action == "wait" else 1.0)

    fails("floors", walking(step=paid), "doing nothing beats the oracle")


def test_admissible() -> None:
    lying = {"admissible": ("ahead", "wait", "fly")}
    fails("admissible", seen_with(**lying), "'fly' is listed as admissible and was refused: \"You can't")

    def marked(self: Walk, action: str) -> Observation:
        return Walk.step(self, action)._replace(accepted=action in ("ahead", "wait"), **lying)

    listed = walking(step=marked, reset=lambda self: Walk.reset(self)._replace(**lying))
    fails("admissible", listed, "'fly' is listed")

    def moved(self: Walk, action: str) -> Observation:
        seen = Walk.step(self, action)
        taken = action in ("ahead", "wait")
        return seen if taken else seen._replace(accepted=False, admissible=("wait",))

    fails("admissible", walking(step=moved), "changed what can be done")


def test_determinism() -> None:
    counted = walking(seen=lambda self, text="": Walk.seen(self, f"{text} {next(loads)}"))
    fails("determinism", counted, "two resets .* do not show the same")
    born = walking(
        __init__=lambda self, toy, task: Walk.__init__(self, toy, task) or vars(self).update(n=next(loads)),
        seen=lambda self, text="": Walk.seen(self, f"{text} {self.n}"),
    )
    fails("determinism", born, "do not agree")
    played: list[str] = []

    def remembering(self: Walk, text: str = "") -> Observation:
        played.append(self.task.task_id)
        return Walk.seen(self, f"{text} {len(set(played))}")

    fails("determinism", walking(seen=remembering), "after other episodes")


def test_isolation() -> None:
    class Shared(Walk):
        places: ClassVar[dict[str, int]] = {}
        place = property(
            lambda self: self.places.get("", 0), lambda self, value: self.places.update({"": value})
        )

    fails("isolation", broken(walk=Shared), "while other episodes run")


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        (lambda text: text.encode(), "lone surrogate fails with UnicodeEncodeError"),
        (lambda text: Path(text).exists(), "50 KB fails with OSError"),
        (lambda text: json.loads(f'"{text}"'), "blank fails with JSONDecodeError"),
        (lambda text: text[0], "empty fails with IndexError"),
    ],
)
def test_odd_text(trouble: Any, sentence: str) -> None:
    def step(self: Walk, action: str) -> Observation:
        trouble(action)
        return Walk.step(self, action)

    fails("odd text", walking(step=step), sentence)


def test_odd_text_that_breaks_the_episode_or_its_worker() -> None:
    def worn(self: Walk, action: str) -> Observation:
        if action not in ("ahead", "wait"):
            self.length = 9
        return Walk.step(self, action)

    fails("odd text", walking(step=worn), "no longer solves")
    fails("odd text", walking(pid=property(lambda self: next(loads))), "costs the worker")
    fails("odd text", walking(step=lambda self, action: Walk.step(self, action)[:3]), "no Observation")
    refusing = walking(step=lambda self, action: Walk.step(self, action) if action == "ahead" else refuse())
    assert "emoji" in CHECKS["odd text"](refusing)


def test_odd_text_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitmem_lab.benchmarks.contract.playing.PATIENCE", 0.0)
    fails("odd text", Toy(), "an action with empty takes too long")


def refuse() -> Observation:
    raise UserError("say something that can be done")


def test_demonstrations() -> None:
    def changed(**fields: Any) -> Toy:
        def demos(self: Toy, limit: int, seed: int = 0) -> list[Trajectory]:
            played = demonstrations(self, self.of("train")[:limit], 1)
            return [demo.model_copy(update={k: v() for k, v in fields.items()}) for demo in played]

        return broken(demonstrations=demos)

    one = Task(benchmark="toy", split="train", task_id="one", description="x")
    fails(
        "demonstrations", broken(demonstrations=lambda self, limit, seed=0: []), "2 .* were asked for, and 0"
    )
    fails("demonstrations", changed(outcome=lambda: "failure"), "is no success")
    fails("demonstrations", changed(source=lambda: "executor"), "that the oracle played it")
    fails("demonstrations", changed(environment=lambda: str(next(loads))), "same seed gives other")
    fails("demonstrations", broken(train="test"), "10 tasks of test may be demonstrated")
    fails("demonstrations", broken(ids=lambda self, split: list("abcdefghij")), "10 tasks of test may be")
    splits = iter([one, one.model_copy(update={"split": "test"})] * 9)
    fails("demonstrations", changed(task=lambda: next(splits)), "several splits")
    everything = broken(demonstrations=lambda self, limit, seed=0: Toy.demonstrations(self, 2))
    fails("demonstrations", everything, "0 demonstrations were asked for")


def test_worker_death(sleepers: list[subprocess.Popen[bytes]]) -> None:
    def pid(self: Walk) -> int:
        if "process" not in vars(self):
            self.process = subprocess.Popen(["sleep", "60"])
            sleepers.append(self.process)
        return self.process.pid

    fails("worker death", walking(pid=property(pid)), "answered though its worker was killed")
    assert "nothing to kill" in CHECKS["worker death"](Toy())


def test_close(sleepers: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitmem_lab.benchmarks.contract.leftovers.LINGER", 0.3)
    kept: list[Any] = []

    def leaving(leave: Any) -> Toy:
        return broken(close=lambda self: kept.append(leave()))

    def child() -> None:
        sleepers.append(subprocess.Popen(["sleep", "60"]))

    fails("close", leaving(child), r"leaves processes behind: \d+ \(sleep 60\)")
    fails("close", leaving(lambda: tempfile.mkstemp(prefix="left")), "temporary files: left")

    def opening(self: Walk) -> Observation:
        kept.append(tempfile.TemporaryFile())  # noqa: SIM115  (left open)
        return Walk.reset(self)

    fails("close", walking(reset=opening), "3 more open files")
    fails("close", walking(close=lambda self: None), "a step after close.* is answered")
    once = walking(close=lambda self: vars(self).pop("place"))
    with pytest.raises(KeyError):
        CHECKS["close"](once)
