"""The JitMem paper's own cells, as data: to be shown in columns of their own, never mixed with a run's.

As transcribed by third parties from the paper's tables, which agreed where they overlapped. Its test sets
are ALFWorld's `valid_seen` (140 games), 500 WebShop goals and τ²-bench's airline, retail and telecom (50,
114 and 114 tasks); mean and std are over 3 orders of the tasks (4 in τ²). Of tables 2 and 9 only some cells
are known. Its rows without memory and of the write-time systems in table 1 are mostly the numbers printed by
an earlier paper (SkillOS); its own runs without memory are in table 6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .errors import UserError

if TYPE_CHECKING:
    import pandas as pd

QWEN, GEMINI, GPT = EXECUTORS = ("Qwen3-8B", "Gemini-2.5-Pro", "GPT-5.4")
"""Executors of the paper's tables."""
BENCHMARKS = {"alfworld": "ALFWorld", "webshop": "WebShop", "tau2": "τ²-bench", "express": "TextWorldExpress"}
"""Names of benchmarks as they are written."""
METRICS = {"success": "SR", "score": "score", "input_k": "input K", "output_k": "output K", "steps": "steps"}
"""Names of what is measured, as in the paper's tables."""


class Published(NamedTuple):
    """One cell."""

    table: str
    """The paper's table."""
    row: str
    """The paper's name of the row."""
    executor: str
    """The model that acts."""
    benchmark: str
    """alfworld, webshop or tau2."""
    metric: str
    """success (rate, %), score (%), input_k, output_k (tokens in thousands) or steps."""
    mean: float
    """As printed."""
    std: float | None = None
    """As printed, over orders; None where none is known."""
    memory: str = ""
    """The memory of ours that it may stand beside: of the untrained rows the one nearest to a run in which
    one model does everything. The row's own name always stands with it."""

    @property
    def text(self) -> str:
        """As the paper prints it."""
        mean = f"{self.mean:.{2 if self.metric == 'output_k' else 1}f}"
        return mean if self.std is None else f"{mean} ({self.std:.1f})"

    @property
    def column(self) -> str:
        """The column that it belongs to: source, executor, and what is measured."""
        name = BENCHMARKS.get(self.benchmark, self.benchmark)
        return f"{heading(self.executor)}: {name} {METRICS.get(self.metric, self.metric)}"


_METRICS = (("alfworld", "success"), ("webshop", "score"), ("webshop", "success"))

_TABLE_1 = """
No memory             | 47.9 1.2 33.3 .7 9.8 .5     | 66.4 2.0 48.6 .3 38.4 .5    | 62.6 .3 40.9 .5 32.6 .6
ReasoningBank (Qwen)  | 55.7 3.1 35.4 1.1 11.4 .9   | 71.4 2.9 47.1 1.0 38.0 .6   | 69.8 4.0 37.4 1.8 29.5 1.0
ReasoningBank (strong)|                             | 78.6 2.9 50.8 1.5 40.2 1.3  | 77.9 4.2 43.1 1.7 33.6 1.5
MemP (Qwen)           | 49.7 .7 35.7 .9 12.0 .5     | 74.3 3.4 51.9 1.9 40.3 1.3  |
MemP (strong)         |                             | 77.1 2.1 51.3 1.2 39.8 1.0  | 72.6 1.7 40.8 1.0 34.5 1.7
SkillOS-base (Qwen)   | 53.1 2.5 38.6 .9 13.6 .8    | 70.7 3.0 52.8 1.0 39.6 .8   | 66.9 1.8 39.7 2.2 31.0 2.0
SkillOS-strong        | 50.7 3.6 38.1 1.0 13.2 .9   | 79.3 2.6 54.7 1.0 41.0 1.2  | 70.0 3.3 33.3 1.1 26.9 1.4
SkillOS (trained)     | 61.2 4.6 40.6 .7 16.5 .7    | 80.2 3.1 56.0 .7 41.3 .8    |
JitMem-base (Qwen)    | 60.5 2.6 32.5 3.2 11.7 .5   | 80.0 1.5 54.7 1.4 44.4 .6   | 79.3 3.6 49.9 1.0 39.3 .7
JitMem (trained Qwen) | 77.4 2.9 61.1 .9 32.8 1.7   | 86.2 1.9 61.0 .8 50.5 .8    | 86.7 .7 53.8 .3 45.4 .0
JitMem-strong         |                             | 81.9 2.7 72.1 1.0 61.0 .7   | 83.3 2.1 57.0 1.5 47.5 1.4
"""
_BESIDE = {
    "No memory": ("none", EXECUTORS),
    "ReasoningBank (Qwen)": ("reasoningbank", (QWEN,)),
    "ReasoningBank (strong)": ("reasoningbank", (GEMINI, GPT)),
    "MemP (Qwen)": ("memp", (QWEN,)),
    "MemP (strong)": ("memp", (GEMINI, GPT)),
    "SkillOS-base (Qwen)": ("skillos", (QWEN,)),
    "SkillOS-strong": ("skillos", (GEMINI, GPT)),
    "JitMem-base (Qwen)": ("jitmem", (QWEN,)),
    "JitMem-strong": ("jitmem", (GEMINI, GPT)),
}
"""Which rows of table 1 have the executor's own model as untrained curator, and with which executor."""


def _table_1() -> list[Published]:
    found = []
    for line in _TABLE_1.strip().splitlines():
        row, *blocks = (part.strip() for part in line.split("|"))
        memory, executors = _BESIDE.get(row, ("", ()))
        for executor, block in zip(EXECUTORS, blocks, strict=True):
            beside = memory if executor in executors else ""
            numbers = [float(word) for word in block.split()]
            found += _row("1", row, executor, numbers[::2], numbers[1::2], beside)
    return found


def _row(
    table: str,
    row: str,
    executor: str,
    means: Sequence[float],
    stds: Sequence[float | None] = (None, None, None),
    memory: str = "",
) -> list[Published]:
    """A row of ALFWorld success, WebShop score, WebShop success; no numbers give no cells."""
    return [
        Published(table, row, executor, benchmark, metric, mean, std, memory)
        for (benchmark, metric), mean, std in zip(_METRICS, means, stds, strict=False)
    ]


def _table_2() -> list[Published]:
    rows = (
        ("JitMem-gpt", 75.6, "jitmem"),
        ("ReasoningBank-gpt", 71.7, "reasoningbank"),
        ("JitMem-base (Qwen)", 68.9, ""),
        ("SkillOS-gpt", 66.4, "skillos"),
    )
    return [Published("2", row, GPT, "tau2", "success", mean, None, memory) for row, mean, memory in rows]


def _table_4() -> list[Published]:
    rows = (
        ("No memory", "none", 9.0, 1.40, 17.8),
        ("ReasoningBank", "reasoningbank", 19.7, 1.26, 16.2),
        ("SkillOS-base", "skillos", 22.4, 1.36, 16.9),
        ("JitMem-base", "jitmem", 10.9, 1.00, 13.2),
        ("JitMem (trained)", "", 9.8, 0.87, 11.6),
    )
    return [
        Published("4", row, GPT, "alfworld", metric, mean, None, memory)
        for row, memory, *numbers in rows
        for metric, mean in zip(("input_k", "output_k", "steps"), numbers, strict=True)
    ]


def _webshop(table: str, rows: dict[str, tuple[str, ...]]) -> list[Published]:
    """Rows of WebShop's score and success, `61.1/32.8` an executor."""
    return [
        Published(table, row, executor, "webshop", metric, float(number))
        for row, cells in rows.items()
        for executor, cell in zip(EXECUTORS, cells, strict=True)
        for metric, number in zip(("score", "success"), cell.split("/"), strict=True)
    ]


CELLS: tuple[Published, ...] = (
    *_table_1(),
    *_table_2(),
    Published("3", "JitMem-base (untrained)", GPT, "alfworld", "success", 79.3),
    Published("3", "trained with Qwen3-8B executor", GPT, "alfworld", "success", 86.7),
    Published("3", "trained with GPT-5.4 executor", GPT, "alfworld", "success", 88.1, 0.9),
    *_table_4(),
    *_webshop(
        "5",
        {
            "JitMem (trained)": ("61.1/32.8", "61.0/50.5", "53.8/45.4"),
            "staged refresh": ("61.7/35.6", "61.0/50.5", "53.6/46.3"),
            "warm start of 100": ("60.9/32.5", "61.7/50.9", "51.9/44.1"),
        },
    ),
    *_row("6", "No memory, not thinking", QWEN, (34.5, 36.4, 8.6)),
    *_row("6", "No memory, thinking", QWEN, (42.1, 29.0, 4.4)),
    *_row("6", "No memory", GEMINI, (63.6, 47.3, 37.5)),
    *_webshop(
        "8",
        {
            "JitMem (trained), k = 3": ("61.1/32.8", "61.0/50.5", "53.8/45.4"),
            "JitMem (trained), k = 5": ("60.5/32.8", "59.2/48.6", "53.4/45.3"),
        },
    ),
    Published("9", "all + labels, untrained", QWEN, "alfworld", "success", 59.0, 2.2),
    Published("9", "all + labels, untrained", GEMINI, "alfworld", "success", 77.1, 3.1),
    Published("9", "all + labels, untrained", GPT, "alfworld", "success", 77.6, 1.8),
    *_row("9", "trained without retrieved traces", QWEN, (62.6, 47.9, 17.6), (1.2, 1.6, 1.1)),
    *_row("9", "trained, not told the task", QWEN, (66.0, 49.6, 22.4), (4.7, 1.4, 0.4)),
)


def check_executors(executors: Sequence[str]) -> None:
    """Raise `UserError` for an executor that the paper does not have."""
    for executor in executors:
        if executor not in EXECUTORS:
            raise UserError(f"the paper has no executor {executor!r}; there are {', '.join(EXECUTORS)}")


def heading(executor: str) -> str:
    """What a column of published cells says first."""
    return f"paper, {executor} executor"


def find(table: str, executor: str | None = None, benchmark: str | None = None) -> list[Published]:
    """The cells of a table, all or some."""
    return [
        cell
        for cell in CELLS
        if cell.table == table and executor in (None, cell.executor) and benchmark in (None, cell.benchmark)
    ]


def published_frame(table: str, executors: Sequence[str] = EXECUTORS) -> pd.DataFrame:
    """A table as printed: its rows, and a column an executor, benchmark and metric."""
    import pandas as pd

    rows: dict[str, dict[str, str]] = {}
    for cell in find(table):
        if cell.executor in executors:
            rows.setdefault(cell.row, {})[cell.column] = cell.text
    return pd.DataFrame.from_dict(rows, orient="index").fillna("–").rename_axis("paper's row")
