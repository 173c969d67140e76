"""Every figure of a comparison recomputed from the run directories' lines; pages that are safe to open."""

from __future__ import annotations

import csv
import io
import itertools
import json
import math
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from jitmem_lab.accounting import read_prices
from jitmem_lab.compare_figures import curve_figures
from jitmem_lab.compare_report import WRITES, compare_folder, compare_sections
from jitmem_lab.compare_tables import table_1
from jitmem_lab.comparison import Comparison
from jitmem_lab.errors import UserError
from jitmem_lab.frames import frame as made_frame
from jitmem_lab.inference import few_orders
from jitmem_lab.presets import preset_values
from jitmem_lab.published import CELLS, EXECUTORS, GPT, QWEN, find, published_frame
from jitmem_lab.report import Section, latex_escape, table_html, to_csv, to_html, to_latex, write_report
from jitmem_lab.runs import Run

from .compared import PLACES, make_run, make_runs

pytestmark = pytest.mark.unit
PRICES = {"rule": {"prompt": 3.0, "completion": 5.0}}
Lines = dict[tuple[str, str, str, int], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("compared")
    make_runs(root / "runs")
    comparison = Comparison.read(root / "runs")
    part = compare_sections(comparison, executors=[QWEN, GPT], prices=read_prices(PRICES))
    write_report(root / "out", "Compared", list(part.values()))
    return root


@pytest.fixture(scope="module")
def lines(folder: Path) -> Lines:
    """Episodes as they stand in the files, by benchmark, split, memory and order."""
    found: Lines = {}
    for file in (folder / "runs").glob("*/config.json"):
        asked = json.loads(file.read_text())["request"]
        key = (asked["benchmark"], asked["split"], asked["memory"], asked["order"])
        found[key] = [json.loads(line) for line in (file.parent / "episodes.jsonl").read_text().splitlines()]
    return found


def read(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "out" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def ended(episodes: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [e for e in episodes if e["outcome"] != "error"]


def won(episodes: Iterable[dict[str, Any]]) -> list[float]:
    return [float(e["outcome"] == "success") for e in ended(episodes)]


def orders(lines: Lines, *key: str) -> list[list[dict[str, Any]]]:
    return [lines[k] for k in sorted(lines) if k[:3] == key]


def told(values: list[float]) -> str:
    std = f" ({100 * statistics.stdev(values):.1f})" if len(values) > 1 else ""
    return f"{100 * statistics.mean(values):.1f}{std}"


# Every number of the comparison


def test_table_1_is_recomputed_from_the_lines(folder: Path, lines: Lines) -> None:
    rows = read(folder, "table_1")
    ours = {row["memory"]: row for row in rows if row["memory"] != "–"}
    assert list(ours) == ["none", "raw", "jitmem", "reasoningbank"]
    for memory, row in ours.items():
        played = orders(lines, "alfworld", "valid_seen", memory)
        rate = told([statistics.mean(won(o)) for o in played]) if played else "–"
        assert (row["ALFWorld valid_seen SR"], row["orders"]) == (rate, "3" if played else "2")
        shop = orders(lines, "webshop", "small_test", memory)
        scores = [statistics.mean(e["trajectory"]["reward"] for e in ended(o)) for o in shop]
        rates = [statistics.mean(won(o)) for o in shop]
        assert row["WebShop small_test score"] == (told(scores) if shop else "–")
        assert row["WebShop small_test SR"] == (told(rates) if shop else "–")
    assert ours["none"]["paper, Qwen3-8B executor: ALFWorld SR"] == "47.9 (1.2)"
    assert ours["jitmem"]["paper, GPT-5.4 executor: row"] == "JitMem-strong"


def test_rates_are_recomputed_from_the_lines(folder: Path, lines: Lines) -> None:
    rows = read(folder, "rates")
    assert len(rows) == sum(len(m) for m, _ in PLACES.values()) + 3
    for row in rows:
        played = orders(lines, row["benchmark"], row["split"], row["memory"])
        values = [
            won(o) if row["metric"] == "success" else [e["trajectory"]["reward"] for e in ended(o)]
            for o in played
        ]
        means = [statistics.mean(v) for v in values]
        assert float(row["mean"]) == pytest.approx(statistics.mean(means))
        assert float(row["std"]) == pytest.approx(statistics.stdev(means))
        assert (int(row["orders"]), int(row["episodes"])) == (len(played), sum(map(len, values)))
        cells = [
            {e["task"]["task_id"]: v for e, v in zip(ended(o), vs, strict=True)}
            for o, vs in zip(played, values, strict=True)
        ]
        assert bounds(float(row["low"]), float(row["high"]), cells)


def bounds(low: float, high: float, cells: list[dict[str, float]]) -> bool:
    """Whether 2.5 % of the means of the orders' means lie on either side, orders and tasks drawn one by one.

    Few tasks give few different means, so that many may lie on a limit itself; limits are read to 0.001.
    """
    tasks, dice = sorted({task for row in cells for task in row}), np.random.default_rng(3)
    values = np.array([[row.get(task, np.nan) for task in tasks] for row in cells])
    rows, columns = (dice.integers(0, n, (20_000, n)) for n in values.shape)
    means = np.nanmean(values[rows[:, :, None], columns[:, None, :]], axis=2).mean(axis=1)
    return all(
        (beyond > 0.001).mean() <= 0.03 and (beyond >= -0.001).mean() >= 0.02
        for beyond in (low - means, means - high)
    )


def test_table_2_is_recomputed_from_the_lines(folder: Path, lines: Lines) -> None:
    rows = [row for row in read(folder, "table_2") if row["memory"] != "–"]
    assert [row["memory"] for row in rows] == ["none", "jitmem"]
    for row in rows:
        by_split = {
            s: [won(o) for o in orders(lines, "tau2", s, row["memory"])] for s in ("airline", "retail")
        }
        for split, streams in by_split.items():
            assert row[f"{split} SR"] == told([statistics.mean(w) for w in streams])
        pairs = list(zip(*by_split.values(), strict=True))
        assert row["micro average"] == told([statistics.mean(a + r) for a, r in pairs])
        assert row["macro average"] == told([statistics.mean(map(statistics.mean, pair)) for pair in pairs])


def by_stage(folder: Path, lines: Lines, *key: Any) -> list[tuple[str, dict[str, Any]]]:
    """Every call of a run with its stage, as the files have them."""
    file = folder / "runs" / "-".join(map(str, key)) / "writes.jsonl"
    written = [json.loads(line) for line in file.read_text().splitlines()]
    found = [("lost" if e["outcome"] == "error" else "episode", e["calls"]) for e in lines[key]]  # type: ignore[index]
    found += [("lost" if line.get("error") else "write", line["calls"]) for line in written]
    return [(stage, call) for stage, calls in found for call in calls]


def test_table_4_is_recomputed_from_the_lines(folder: Path, lines: Lines) -> None:
    rows = [row for row in read(folder, "table_4") if row["memory"] != "–"]
    assert len(rows) == sum(len(memories) for memories, _ in PLACES.values())
    for row in rows:
        sums: dict[str, list[float]] = defaultdict(list)
        place = (row["benchmark"], row["split"], row["memory"])
        for order in (k[3] for k in sorted(lines) if k[:3] == place):
            played = ended(lines[*place, order])
            calls = by_stage(folder, lines, *place, order)
            whole = [c for stage, c in calls if stage in ("episode", "write")]
            asked = [c for c in whole if c["role"] != "embedder"]
            acted = [c["usage"] for s, c in calls if (s, c["role"]) == ("episode", "executor")]
            for name, usages in (("executor", acted), ("all roles", [c["usage"] for c in asked])):
                for way, field in (("input", "prompt_tokens"), ("output", "completion_tokens")):
                    sums[f"{name} {way} K"].append(sum(u[field] for u in usages) / len(played) / 1000)
            read_by = [c["usage"]["prompt_tokens"] for c in whole if c["role"] == "embedder"]
            sums["embedded K"].append(sum(read_by) / len(played) / 1000)
            sums["steps"].append(statistics.mean(len(e["trajectory"]["steps"]) for e in played))
            sums["calls"].append(sum(c["usage"]["calls"] for c in asked) / len(played))
            lost = [c["usage"] for stage, c in calls if stage == "lost" and c["role"] != "embedder"]
            sums["lost K a run"].append(sum(u["prompt_tokens"] + u["completion_tokens"] for u in lost) / 1000)
        for name, values in sums.items():
            digits = 1 if name in ("steps", "calls", "lost K a run") else 2
            assert row[name] == f"{statistics.mean(values):.{digits}f}", name
        dollars = (
            3 * statistics.mean(sums["all roles input K"]) + 5 * statistics.mean(sums["all roles output K"])
        ) / 1000
        assert float(row["price $"]) == pytest.approx(dollars, abs=5e-5), "the model in the process is free"
        ours = row["benchmark"] == "alfworld" and row["memory"] in ("none", "jitmem")
        assert (row["paper, GPT-5.4 executor: ALFWorld steps"] != "–") == ours
    (lost_write,) = [row for row in rows if row["lost K a run"] != "0.0"]
    assert lost_write["memory"] == "reasoningbank"


def test_costs_by_stage_role_and_phase_are_recomputed_from_the_lines(folder: Path, lines: Lines) -> None:
    rows = read(folder, "costs")
    seen = set()
    for row in rows:
        place = (row["benchmark"], row["split"], row["memory"])
        means: dict[str, list[float]] = defaultdict(list)
        for order in (k[3] for k in sorted(lines) if k[:3] == place):
            n = len(ended(lines[*place, order]))
            usages = [
                call["usage"]
                for stage, call in by_stage(folder, lines, *place, order)
                if (stage, call["role"], call["phase"]) == (row["stage"], row["role"], row["phase"])
            ]
            for name in ("calls", "prompt_tokens", "completion_tokens"):
                means[name].append(sum(u[name] for u in usages) / n)
        for name, values in means.items():
            assert float(row[name]) == pytest.approx(statistics.mean(values)), name
        tokens = [statistics.mean(means[f"{name}_tokens"]) for name in ("prompt", "completion")]
        if row["role"] == "embedder" and tokens[0]:
            assert row["price"] == row["paid"] == "", "no price was given for it"
        else:
            dollars = (3 * tokens[0] + 5 * tokens[1]) / 1e6
            assert float(row["price"]) == float(row["paid"]) == pytest.approx(dollars)
        seen.add((row["stage"], row["role"], row["phase"]))
    assert seen == {
        ("episode", "executor", "act"),
        ("episode", "curator", "recall"),
        ("episode", "embedder", "recall"),
        ("episode", "judge", "judge"),
        ("write", "distiller", "write"),
        ("write", "embedder", "write"),
        ("lost", "distiller", "write"),
        ("lost", "embedder", "write"),
    }


def test_costs_add_up_to_table_4(folder: Path) -> None:
    costs = read(folder, "costs")
    for row in read(folder, "table_4"):
        place = [row[name] for name in ("benchmark", "split", "memory")]
        own = [
            cost
            for cost in costs
            if [cost[name] for name in ("benchmark", "split", "memory")] == place
            and cost["stage"] in ("episode", "write")
            and cost["role"] != "embedder"
        ]
        for whole, part, scale in (
            ("calls", "calls", 1),
            ("all roles input K", "prompt_tokens", 1000),
            ("all roles output K", "completion_tokens", 1000),
            ("price $", "price", 1),
        ):
            if row["memory"] != "–":
                total = sum(float(cost[part]) for cost in own) / scale
                assert float(row[whole]) == pytest.approx(total, abs=0.051 if whole == "calls" else 0.0051)


def test_reusable_prefixes_are_recomputed_from_the_lines(folder: Path, lines: Lines) -> None:
    for row in read(folder, "prefixes"):
        characters = reusable = 0
        place = (row["benchmark"], row["split"], row["memory"])
        for order in (k[3] for k in lines if k[:3] == place):
            earlier: list[str] = []
            for call in in_order(folder, lines, *place, order):
                prompt = "\n".join(f"<{m['role']}>\n{m['content']}" for m in call["messages"])
                known = max((common(prompt, old) for old in earlier), default=0)
                if row["role"] in ("all", call["role"]):
                    characters += len(prompt)
                    reusable += known // 64 * 64
                earlier.append(prompt)
        assert (int(row["characters"]), int(row["reusable"])) == (characters, reusable)
        assert row["share %"] == f"{100 * reusable / characters:.1f}"


def in_order(folder: Path, lines: Lines, *key: Any) -> Iterable[dict[str, Any]]:
    """The prompts of a run: of each batch the episodes', then the writes'; last what was made up for."""
    file = folder / "runs" / "-".join(map(str, key)) / "writes.jsonl"
    written = [json.loads(line) for line in file.read_text().splitlines()]
    late = [
        line
        for number, line in enumerate(written)
        if any(w["batch"] > line["batch"] for w in written[:number])
    ]
    episodes = lines[key]  # type: ignore[index]
    for batch in sorted({e["batch"] for e in episodes}):
        for line in [*episodes, *(line for line in written if line not in late)]:
            if line["batch"] == batch:
                yield from (call for call in line["calls"] if call["role"] != "embedder")
    yield from (call for line in late for call in line["calls"] if call["role"] != "embedder")


def common(a: str, b: str) -> int:
    """Length of the common beginning."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def test_paired_differences_are_recomputed_from_the_lines(folder: Path, lines: Lines) -> None:
    rows = read(folder, "pairs")
    assert [(r["memory"], r["split"], r["metric"]) for r in rows] == [
        ("raw", "valid_seen", "SR"),
        ("jitmem", "valid_seen", "SR"),
        ("jitmem", "airline", "SR"),
        ("jitmem", "retail", "SR"),
        *((memory, "small_test", what) for memory in ("jitmem", "reasoningbank") for what in ("SR", "score")),
    ]
    for row in rows:
        place, cells, tests = (row["benchmark"], row["split"]), [], []
        for order in PLACES[place][1]:
            both = [
                {
                    e["task"]["task_id"]: e["trajectory"]["reward"]
                    if row["metric"] == "score"
                    else float(e["outcome"] == "success")
                    for e in ended(lines[*place, memory, order])
                }
                for memory in ("none", row["memory"])
            ]
            cells.append({task: both[1][task] - both[0][task] for task in both[0] if task in both[1]})
            only = [sum(gap == sign for gap in cells[-1].values()) for sign in (-1, 1)]
            tail = sum(math.comb(sum(only), i) for i in range(min(only) + 1)) / 2 ** sum(only)
            tests.append(f"order {order}: {only[0]}/{only[1]}, p {min(1, 2 * tail):.3g}")
        gaps = [statistics.mean(row.values()) for row in cells]
        assert row["difference"] == f"{100 * statistics.mean(gaps):.1f}"
        assert (int(row["pairs"]), row["differs in"]) == (sum(map(len, cells)), "sampling.temperature")
        assert row["McNemar by order"] == ("–" if row["metric"] == "score" else "; ".join(tests))
        assert over_tasks(row, cells)
        assert row["left out: errors"] == ("1" if row["memory"] == "raw" else "0")
        assert row["without partner"] == "0"
        low, high = (float(limit) / 100 for limit in row["95 % bootstrap"].split(" to "))
        assert bounds(low, high, cells)
    ranked = sorted(rows, key=lambda row: float(row["p"]))
    least = [float(row["p"]) * (len(rows) - rank) for rank, row in enumerate(ranked)]
    holm = [min(1.0, max(least[: rank + 1])) for rank in range(len(rows))]
    assert [float(row["p Holm"]) for row in ranked] == pytest.approx(holm, rel=0.01)


def over_tasks(row: dict[str, str], cells: list[dict[str, float]]) -> bool:
    """Whether p is the share of all signs that lie as far, and detectable solves its formula."""
    by_task: dict[str, list[float]] = defaultdict(list)
    for order in cells:
        for task, gap in order.items():
            by_task[task].append(gap)
    means = np.array([statistics.mean(gaps) for gaps in by_task.values()])
    signs = np.array(list(itertools.product((-1, 1), repeat=len(means))))
    p = (np.abs(signs @ means) >= abs(means.sum()) - 1e-9).mean()
    gap = float(row["detectable"]) / 100
    share = max((means**2).mean(), gap**2, 0 if row["metric"] == "score" else gap / len(cells))
    wanted = (1.96 * math.sqrt(share) + 0.8416 * math.sqrt(share - gap**2)) / math.sqrt(len(means))
    return float(row["p"]) == pytest.approx(p, rel=0.005) and gap == pytest.approx(wanted, abs=0.005)


def test_wins_by_task_are_recomputed_from_the_lines(folder: Path, lines: Lines) -> None:
    rows = read(folder, "tasks")
    counts: dict[tuple[str, str, str], dict[str, int]] = defaultdict(lambda: {"none": 0, "jitmem": 0, "n": 0})
    for (benchmark, split, memory, _), episodes in lines.items():
        for e in episodes if memory in ("none", "jitmem") else []:
            count = counts[benchmark, split, e["task"]["task_id"]]
            count[memory] += e["outcome"] == "success"
            count["n"] += memory == "none"
    assert len(rows) == len(counts)
    for row in rows:
        count = counts[row["benchmark"], row["split"], row["task_id"]]
        assert (float(row["none"]), float(row["jitmem"])) == (count["none"], count["jitmem"])
        assert int(row["pairs"]) == count["n"]
        leads = count["jitmem"] - count["none"]
        same = {0: "neither", count["n"]: "both"}.get(count["none"], "equal")
        assert row["better"] == (same if not leads else "jitmem" if leads > 0 else "none")
        assert row["task"].startswith("press the right button")


def test_verdicts_are_recomputed_from_the_lines(folder: Path, lines: Lines) -> None:
    rows = read(folder, "judge")
    assert [(row["memory"], row["split"]) for row in rows][:2] == [
        ("raw", "valid_seen"),
        ("jitmem", "valid_seen"),
    ]
    for row in rows:
        played = ended(e for o in orders(lines, row["benchmark"], row["split"], row["memory"]) for e in o)
        pairs = [(e["verdict"]["success"], e["outcome"] == "success") for e in played]
        counts = [
            pairs.count((v, t)) for v, t in ((True, True), (True, False), (False, False), (False, True))
        ]
        names = ("true positive", "false positive", "true negative", "false negative")
        assert [int(row[name]) for name in names] == counts
        assert int(row["unknown"]) == sum(v is None for v, _ in pairs) > 0
        assert row["agreement %"] == f"{100 * (counts[0] + counts[2]) / sum(counts):.1f}"


def test_curves_are_recomputed_from_the_lines(folder: Path, lines: Lines) -> None:
    figures = curve_figures(Comparison.read(folder / "runs"))
    assert figures[0].layout.title.text == "ALFWorld valid_seen, executor rule"
    shown = {trace.name: trace for trace in figures[0].data if trace.name}
    for memory, trace in shown.items():
        streams = [
            won(sorted(o, key=lambda e: e["position"]))
            for o in orders(lines, "alfworld", "valid_seen", memory)
        ]
        longest = max(map(len, streams))
        assert list(trace.x) == list(range(1, longest + 1))
        for n, y in zip(trace.x, trace.y, strict=True):
            so_far = [sum(s[:n]) / n for s in streams if len(s) >= n]
            assert y == pytest.approx(100 * statistics.mean(so_far))


def test_what_was_read_is_counted_from_the_lines(folder: Path, lines: Lines) -> None:
    for row in read(folder, "runs"):
        played = [e for o in orders(lines, row["benchmark"], row["split"], row["memory"]) for e in o]
        errors = len(played) - len(ended(played))
        assert (int(row["episodes"]), int(row["errors"]), int(row["owed"])) == (
            len(ended(played)),
            errors,
            errors,
        )
    assert sum(int(row["errors"]) for row in read(folder, "runs")) == 1


# The paper's cells


def test_the_papers_cells_stand_in_columns_that_say_so_and_in_no_other(folder: Path) -> None:
    printed = {cell.text for cell in CELLS}
    for name in ("table_1", "table_2", "table_4"):
        for row in read(folder, name):
            for column, text in row.items():
                if column.startswith("paper, "):
                    assert text == "–" or column.endswith(": row") or text in printed
                    assert any(f"{executor} executor" in column for executor in EXECUTORS)
                elif row["memory"] == "–":
                    assert text in ("–", ""), "a row of the paper's has no figure outside its columns"
    rows = read(folder, "table_1")
    theirs = {row["paper, Qwen3-8B executor: row"] for row in rows} - {"–"}
    assert theirs == {cell.row for cell in find("1", QWEN)}, "each row once"
    assert len(theirs) == sum(row["paper, Qwen3-8B executor: row"] != "–" for row in rows)


@pytest.mark.parametrize(
    ("table", "row", "executor", "benchmark", "metric", "text"),
    [
        ("1", "JitMem (trained Qwen)", "Qwen3-8B", "webshop", "score", "61.1 (0.9)"),
        ("1", "JitMem (trained Qwen)", "GPT-5.4", "webshop", "success", "45.4 (0.0)"),
        ("1", "JitMem-base (Qwen)", "Qwen3-8B", "webshop", "score", "32.5 (3.2)"),
        ("1", "ReasoningBank (strong)", "Gemini-2.5-Pro", "alfworld", "success", "78.6 (2.9)"),
        ("2", "ReasoningBank-gpt", "GPT-5.4", "tau2", "success", "71.7"),
        ("3", "trained with GPT-5.4 executor", "GPT-5.4", "alfworld", "success", "88.1 (0.9)"),
        ("4", "JitMem (trained)", "GPT-5.4", "alfworld", "output_k", "0.87"),
        ("5", "staged refresh", "Qwen3-8B", "webshop", "success", "35.6"),
        ("6", "No memory, thinking", "Qwen3-8B", "alfworld", "success", "42.1"),
        ("8", "JitMem (trained), k = 5", "Gemini-2.5-Pro", "webshop", "score", "59.2"),
        ("9", "trained, not told the task", "Qwen3-8B", "webshop", "success", "22.4 (0.4)"),
    ],
)
def test_published_cells(table: str, row: str, executor: str, benchmark: str, metric: str, text: str) -> None:
    (cell,) = [c for c in find(table, executor, benchmark) if (c.row, c.metric) == (row, metric)]
    assert cell.text == text


def test_published_tables_have_no_cell_twice() -> None:
    places = [(c.table, c.row, c.executor, c.benchmark, c.metric) for c in CELLS]
    assert len(places) == len(set(places)) == 154
    assert list(published_frame("2").columns) == ["paper, GPT-5.4 executor: τ²-bench SR"]
    with pytest.raises(UserError, match="no executor 'gpt'"):
        table_1(Comparison([]), ["gpt"])


# Which runs are one system


def test_runs_that_differ_in_more_than_order_are_told_apart(tmp_path: Path) -> None:
    for k in (1, 3):
        for order in (0, 1):
            make_run(tmp_path / f"{k}-{order}", "alfworld", "valid_seen", "raw", order, k=k)
    make_run(tmp_path / "none", "alfworld", "valid_seen", "none", 0)
    make_run(tmp_path / "again", "alfworld", "valid_seen", "none", 0)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    comparison = Comparison.read([tmp_path])
    assert [(g.label, len(g.runs)) for g in comparison.groups] == [
        ("none", 1),
        ("raw k=1", 2),
        ("raw k=3", 2),
    ]
    assert len(comparison.notes) == 2
    assert any("order 0 again" in note for note in comparison.notes)
    one = comparison.baseline(comparison.groups[2], "raw k=1")
    assert one is comparison.groups[1]
    assert comparison.baseline(comparison.groups[0], "none") is None
    assert comparison.baseline(comparison.groups[1], "jitmem") is None


def test_the_baseline_was_played_alike_or_it_is_said_in_what_not(tmp_path: Path) -> None:
    for memory, history in (("none", 3), ("none", 5), ("jitmem", 5), ("jitmem", 7)):
        made = {"temperature": 1.0, "history": history}
        make_run(tmp_path / f"{memory}{history}", "alfworld", "s", memory, 0, executor=made, history=history)
    make_run(
        tmp_path / "chosen", "alfworld", "s", "raw", 0, executor={"act": "choose", "history": 5}, history=5
    )
    comparison = Comparison.read(tmp_path)
    table = compare_sections(comparison, draws=10)["pairs"].table.set_index("memory")
    assert table.loc["jitmem history=5", ["against", "differs in"]].tolist() == ["none history=5", "–"]
    assert table.loc["jitmem history=7", "differs in"] == "history"
    assert table.loc["raw", "against"] == "none history=5"
    assert table.loc["raw", "differs in"] == "act, prompt, prompt_hash, sampling"


def test_of_baselines_played_alike_the_one_with_most_values_alike_is_taken(tmp_path: Path) -> None:
    for memory, k in (("raw", 1), ("raw", 3), ("jitmem", 3)):
        make_run(tmp_path / f"{memory}{k}", "alfworld", "s", memory, 0, k=k)
    comparison = Comparison.read(tmp_path)
    found = comparison.baseline(comparison.groups[-1], "raw")
    assert found is not None
    assert found.label == "raw k=3"


def test_presets_are_told_by_their_names(tmp_path: Path) -> None:
    for preset, k in (("paper", 3), ("small", 3), ("small", 5)):
        asked = {"preset": preset, **preset_values(preset, "alfworld"), "k": k}
        make_run(tmp_path / f"{preset}-{k}", "alfworld", "valid_seen", "raw", 0, **asked)
    labels = [group.label for group in Comparison.read(tmp_path).groups]
    assert labels == ["raw preset=paper, k=3", "raw preset=small, k=3", "raw preset=small, k=5"]


def test_splits_of_one_benchmark_share_a_row_only_if_asked_for_alike(tmp_path: Path) -> None:
    for split, k, games in (("airline", 1, 8), ("airline", 3, 8), ("retail", 3, 12), ("retail", 5, 12)):
        make_run(tmp_path / f"{split}{k}", "tau2", split, "raw", 0, k=k, games=games)
    comparison = Comparison.read(tmp_path)
    assert [(g.label, g.split) for g in comparison.groups] == [
        ("raw k=1", "airline"),
        ("raw k=3", "airline"),
        ("raw k=3", "retail"),
        ("raw k=5", "retail"),
    ]
    table = compare_sections(comparison, draws=10)["table_2"].table.set_index("memory")
    averages = table["micro average"]
    assert averages["raw k=1"] == averages["raw k=5"] == "–"
    assert averages["raw k=3"] != "–"


def test_a_folder_that_lies_in_another_is_read_once(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "a", "alfworld", "valid_seen", "raw", 0)
    (tmp_path / "link").symlink_to(tmp_path / "runs" / "a")
    folders = [tmp_path, tmp_path / "runs", tmp_path / "runs" / "a", tmp_path / "link"]
    comparison = Comparison.read(folders)
    assert comparison.notes == []
    assert [len(group.runs) for group in comparison.groups] == [1]


def _rewrite(name: str, old: str, new: str) -> Callable[[Path], None]:
    def spoil(run: Path) -> None:
        file = run / name
        file.write_text(file.read_text().replace(old, new))

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [
        lambda run: (run / "config.json").write_text("[" * 100_000),
        lambda run: (run / "config.json").write_bytes(b"\xff"),
        lambda run: ((run / "episodes.jsonl").unlink(), (run / "episodes.jsonl").mkdir()),
        _rewrite("config.json", '"request": {', '"request": "x", "was": {'),
        _rewrite("config.json", '"schema_version": 1', '"schema_version": 2'),
        _rewrite("config.json", '"schema_version": 1', '"schema_version": Infinity'),
        _rewrite("episodes.jsonl", '"schema_version": 1', '"schema_version": 2'),
    ],
)
def test_a_run_that_cannot_be_read_is_named_and_the_others_are_compared(
    tmp_path: Path, spoil: Callable[[Path], Any]
) -> None:
    for order in (0, 1):
        make_run(tmp_path / f"raw{order}", "alfworld", "valid_seen", "raw", order)
    spoil(tmp_path / "raw1")
    comparison = Comparison.read(tmp_path)
    assert [len(group.runs) for group in comparison.groups] == [1]
    (note,) = comparison.notes
    assert str(tmp_path / "raw1") in note
    assert (
        compare_sections(comparison, draws=10)["runs"].text
        == f"{note}\nall systems: {few_orders(1)}\n{WRITES}"
    )


def test_a_line_nested_too_deep_is_passed_over(tmp_path: Path) -> None:
    for order in (0, 1):
        make_run(tmp_path / f"raw{order}", "alfworld", "valid_seen", "raw", order)
    before = compare_sections(Comparison.read(tmp_path), draws=10)["table_1"].text
    with (tmp_path / "raw1" / "episodes.jsonl").open("a") as file:
        file.write("[" * 100_000 + "\n")
    assert compare_sections(Comparison.read(tmp_path), draws=10)["table_1"].text == before


@pytest.mark.parametrize("line", ['{"key": "a", "calls": null}', '{"key": "a", "calls": [{"role": "boss"}]}'])
def test_costs_that_cannot_be_read_are_told_with_the_run(tmp_path: Path, line: str) -> None:
    make_run(tmp_path / "raw", "alfworld", "valid_seen", "raw", 0)
    with (tmp_path / "raw" / "writes.jsonl").open("a") as file:
        file.write(f"{line}\n")
    with pytest.raises(UserError, match="raw cannot be read: a call in writes") as caught:
        compare_sections(Comparison.read(tmp_path), draws=10)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"baseline": "nonee"}, "did you mean 'none'"),
        ({"baseline": ""}, "there are raw"),
        ({"shown": "jitmem"}, "no system 'jitmem' here"),
        ({"draws": 0}, "draws must be 1"),
        ({"seed": -1}, "seed 0 or more"),
        ({"executors": ["Qwen"]}, "no executor 'Qwen'"),
    ],
)
def test_what_is_asked_wrongly_of_a_comparison_is_one_sentence(
    tmp_path: Path, wrong: dict[str, Any], says: str
) -> None:
    make_run(tmp_path / "raw", "alfworld", "valid_seen", "raw", 0)
    with pytest.raises(UserError, match=says):
        compare_sections(Comparison.read(tmp_path), **{"draws": 10} | wrong)


@pytest.mark.parametrize("where", [[3], [None], ["a\0b"], "x" * 5000, ["a" * 5000]])
def test_what_names_no_folder_is_one_sentence(where: Any) -> None:
    with pytest.raises(UserError, match="there is no folder"):
        Comparison.read(where)


@pytest.mark.parametrize("where", ["nowhere", "empty"])
def test_no_runs_is_one_sentence(tmp_path: Path, where: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"there is no (folder|run)"):
        Comparison.read(tmp_path / where)


def test_a_comparison_of_one_unfinished_run_has_no_figures_and_no_fault(tmp_path: Path) -> None:
    make_run(tmp_path / "r", "alfworld", "valid_seen", "raw", 0, {f"b{n}" for n in range(10)})
    part = compare_sections(Comparison.read(tmp_path), executors=[], draws=100)
    assert part["table_1"].table["ALFWorld valid_seen SR"].tolist() == ["–"]
    assert part["runs"].table["owed"].tolist() == [10]
    assert len(part["costs"].table) == 0, "no model was asked"
    for name in ("pairs", "tasks", "judge", "table_2"):
        assert len(part[name].table) == 0
    write_report(tmp_path / "out", "None", list(part.values()))
    page = (tmp_path / "out" / "report.html").read_text()
    empty = [s.title for s in part.values() if s.table is not None and not len(s.table) and not s.figures]
    assert empty
    assert "(nothing to show)" not in page
    assert not [title for title in empty if f"<h2>{title}" in page]


# Pages and files

NASTY = (
    "<img src=x onerror=\"document.title='x'\"></script><script>alert(1)</script> "
    "& \x1b[31m \ud83d \x00 $$x$$ [x](javascript:alert)"
)


class Tags(HTMLParser):
    """Tags and attributes of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


def nasty_sections() -> list[Section]:
    import plotly.graph_objects as go

    nasty = made_frame([{NASTY: NASTY, "paper, X executor: SR": "1.0", "n": 3, "x": None}])
    figure = go.Figure()
    from jitmem_lab.render import escape

    figure.add_scatter(x=[1], y=[1], name=escape(NASTY))
    figure.update_layout(title={"text": escape(NASTY)})
    return [Section("a", NASTY, NASTY, nasty), Section("b", "B", figures=[figure])]


def test_a_page_holds_all_it_needs_and_nothing_of_the_texts_is_markup() -> None:
    page = to_html(NASTY, nasty_sections())
    plain = re.sub(r"<script[^>]*>.*?</script>", "", page, flags=re.S)
    tags = Tags(plain).tags
    names = {name for name, _ in tags}
    assert not names & {"img", "script", "link", "iframe", "object", "a"}
    for _, attributes in tags:
        assert not set(attributes) & {"src", "href", "onerror", "onclick"}
    assert "Content-Security-Policy" in plain
    assert "default-src 'none'" in plain
    assert "&lt;img src=x" in plain
    for script in re.findall(r"<script[^>]*>", page):
        assert "src=" not in script
    assert page.count("alert(1)") == plain.count("alert(1)") + 2, "the figure's own texts, as data"
    assert "\x1b" not in page
    page.encode("utf-8")


def test_nasty_texts_survive_csv_and_latex(tmp_path: Path) -> None:
    files = write_report(tmp_path / "out", NASTY, nasty_sections())
    assert [file.name for file in files] == ["a.csv", "a.tex", "report.html"]
    with (tmp_path / "out" / "a.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert row["n"] == "3"
    assert row["x"] == ""
    assert "alert(1)" in next(iter(row.values()))
    tex = (tmp_path / "out" / "a.tex").read_text()
    assert tex.count("{") == tex.count("}")
    assert r"\&" in tex


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-2+3", "@SUM(1)", " =1", "\t=1", "\n@x", "--", "-x"])
def test_no_text_is_a_formula_in_a_spreadsheet(text: str) -> None:
    frame = pd.DataFrame({text: [text, "-5.0", "-5.0 to 3.0", "–", "a-b"], "n": [-1, -0.5, 3, 4, 5]})
    head, first, *others = csv.reader(io.StringIO(to_csv(frame), newline=""))
    assert head == [f"'{text}", "n"]
    assert first == [f"'{text}", "-1.0"]
    assert [row[0] for row in others] == ["-5.0", "-5.0 to 3.0", "–", "a-b"]


@pytest.mark.parametrize("text", ["a\rb", "a\nb", "a\r\nb", "a\x00b", "\r", "a\x1b[31mb", 'a"b', "a,b"])
def test_a_text_is_one_cell_of_a_csv_file(tmp_path: Path, text: str) -> None:
    write_report(tmp_path, "t", [Section("a", "t", table=pd.DataFrame({text: [text, "x"], "n": [1, 2]}))])
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert [len(row) for row in rows] == [2, 2, 2]
    assert len(pd.read_csv(tmp_path / "a.csv")) == 2
    assert "\x00" not in rows[0][0]


def test_what_a_report_cannot_write_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "report.html").mkdir()
    with pytest.raises(UserError, match=r"report\.html cannot be written \(.*\); choose another"):
        write_report(tmp_path, "t", [])
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_no_cell_is_an_argument_of_a_line_break() -> None:
    lines = to_latex(pd.DataFrame({"[1cm] head": ["[5pt] x", "*"]}), "t", "tab:x").splitlines()
    assert [line for line in lines if line.startswith(("[", "*"))] == []
    assert r"{}[5pt] x \\" in lines


def test_latex_escapes_what_means_something() -> None:
    assert latex_escape("50 % of a_b & c#1 $x$ {y} ~ ^ \\") == (
        r"50 \% of a\_b \& c\#1 \$x\$ \{y\} \textasciitilde{} \textasciicircum{} \textbackslash{}"
    )
    assert latex_escape("τ²-bench – x\ny") == r"$\tau^2$-bench -- x y"
    frame = pd.DataFrame({"memory": ["none", "raw"], "SR": ["47.9 (1.2)", "–"], "n": [1, 2]})
    text = to_latex(frame, "Success", "tab:x")
    assert r"\begin{tabular}{lrr}" in text
    assert r"none & 47.9 (1.2) & 1 \\" in text
    assert r"raw & -- & 2 \\" in text


def test_csv_keeps_full_precision_and_pages_show_less() -> None:
    frame = pd.DataFrame({"x": [1 / 3, None], "big": [1234567, 2], "text": ["a,b", 'c"d']})
    assert to_csv(frame).splitlines()[1] == '0.3333333333333333,1234567,"a,b"'
    assert to_csv(frame).splitlines()[2] == ',2,"c""d"'
    page = table_html(frame)
    assert "0.3333<" in page
    assert "1,234,567" in page


@pytest.mark.parametrize("names", [["a", "a"], ["../a"], ["a b"], [""]])
def test_a_report_writes_no_file_outside_its_folder(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(UserError, match="names no file"):
        write_report(tmp_path / "out", "x", [Section(name, "x") for name in names])
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be made"):
        write_report(tmp_path / "file", "x", [])


def test_runs_made_without_a_request_are_grouped_by_their_settings(tmp_path: Path) -> None:
    run = make_run(tmp_path / "r", "alfworld", "valid_seen", "raw", 0)
    config = json.loads((run.path / "config.json").read_text())
    config["request"] = None
    (run.path / "config.json").write_text(json.dumps(config))
    (group,) = Comparison.of({"mine": [Run(run.path)]}).groups
    assert group.label == "mine"
    assert group.model == "rule"


def test_a_comparison_has_a_folder_of_its_own(tmp_path: Path) -> None:
    a, b = tmp_path / "sweep of a", tmp_path / "b"
    found = compare_folder([a, b])
    assert found.parent == Path("runs/compare")
    assert found.name.startswith("sweep_of_a-b-")
    assert compare_folder([str(b), a]) != compare_folder([a])
    assert compare_folder([b, a]).name[-8:] == found.name[-8:]
    assert compare_folder(["x" * 300]).name.count("x") == 60


def test_wins_by_task_say_whose_and_how_to_choose_another(folder: Path) -> None:
    part = compare_sections(Comparison.read(folder / "runs"), draws=10)
    others = [label for label in part["pairs"].table["memory"].unique() if label != "jitmem"]
    assert part["tasks"].text.startswith("jitmem against none")
    assert f"-p shown '{others[0]}'" in part["tasks"].text
