"""`jitmem bench retrieval`: our bank against rank-bm25 on the same texts, in one process, turn by turn.

The texts are those of `texts.py`; both sides get the same tokens. What each column compares:

- `query_ratio_cpu`: CPU seconds of all top-3 queries, rank-bm25's over ours (ours with its read of SQLite).
- `insert_ratio`: wall seconds of building rank-bm25 anew from tokens, which is what an insert takes
  there, over those of one of our inserts, durable on disk and in the index. The fastest of several on
  both sides: on a busy machine waiting for the disk takes up to a scheduler's tick longer.
- `agreement`: share of queries whose top 3 have rank-bm25's scores within 1e-9, whatever the order of ties.
- `open_s`: wall seconds from opening the bank in a fresh process to its first answer, with its saved
  index and the compiled search in numba's cache; importing numba (0.3 to 0.5 s) is in it. Best of three.
- `rss_ratio`: growth of a process's resident memory by the index we open, over that by rank-bm25 built
  from a stream of tokens.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..bank import MemoryBank
from ..errors import InfrastructureError, UserError
from ..records import Task, Trajectory
from ..retrieval import BM25Index, words
from .texts import texts

K = 3
_BATCH = 5_000
_INSERTS = 50
_REBUILD_SECONDS = 5.0
_QUERY_SECONDS = 25.0
"""About so long the queries of one row may take; between 10 and 100 of them are made."""


def run(
    corpora: Sequence[str] = ("alfworld", "webshop", "long"),
    sizes: Sequence[int] = (1_000, 100_000),
    *,
    seed: int = 0,
    folder: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Measure every corpus at every size.

    Args:
        corpora: Names for `texts`.
        sizes: Traces in the bank.
        seed: Seed of the texts.
        folder: Where the banks are made, and removed again; the system's temporary folder by default.
            Durable inserts are only as slow as this folder's disk.
        progress: Called with a line before each row.

    Returns:
        `{"rows": [{"corpus", "n", "query_ratio_cpu", "insert_ratio", "agreement", "open_s", "rss_ratio",
        "query_ms_p50", "reference_query_ms_p50"}]}`.

    Raises:
        UserError: For an unknown corpus or a size below 1.
    """
    for corpus in corpora:
        texts(corpus, 0)
    if any(size < 1 for size in sizes):
        raise UserError("sizes are numbers of traces, 1 or more")
    rows = []
    for corpus in corpora:
        for size in sizes:
            if progress:
                progress(f"{corpus}, {size:,} traces")
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                rows.append(_row(corpus, size, seed, Path(scratch) / "bank.sqlite"))
    return {"rows": rows}


def _row(corpus: str, size: int, seed: int, path: Path) -> dict[str, Any]:
    from rank_bm25 import BM25Okapi

    _fill(path, corpus, size, seed)
    with MemoryBank(path) as bank:
        bank.save_index()
        opened = min(_child("open", path, corpus, size, seed) for _ in range(3))
        ours, theirs = (_child(what, path, corpus, size, seed) for what in ("memory", "reference"))

        tokens = [words(text) for text in texts(corpus, size, seed)]
        rebuilds: list[float] = []
        while len(rebuilds) < 3 and sum(rebuilds) < _REBUILD_SECONDS:
            started = time.perf_counter()
            reference = BM25Okapi(tokens)
            rebuilds.append(time.perf_counter() - started)
        del tokens

        mine, its, same = _queries(bank, reference, corpus, seed)
        inserts: list[float] = []
        for number, text in enumerate(texts(corpus, _INSERTS, seed + 2)):
            item = (f"insert-{number}", _trajectory(number, text), {"success": True})
            started = time.perf_counter()
            bank.append([item])
            inserts.append(time.perf_counter() - started)
    return {
        "corpus": corpus,
        "n": size,
        "query_ratio_cpu": sum(its) / sum(mine),
        "insert_ratio": min(rebuilds) / min(inserts),
        "agreement": sum(same) / len(same),
        "open_s": opened,
        "rss_ratio": ours / theirs if theirs > 0 else None,
        "query_ms_p50": 1000 * statistics.median(mine),
        "reference_query_ms_p50": 1000 * statistics.median(its),
    }


def _queries(bank: MemoryBank, reference: Any, corpus: str, seed: int) -> tuple[list[float], ...]:
    """CPU seconds of our queries and of the reference's, in turn, and whether they agreed."""
    mine: list[float] = []
    its: list[float] = []
    same: list[float] = []
    bank.search(next(texts(corpus, 1, seed)), K)
    deadline = time.perf_counter() + _QUERY_SECONDS
    for query in texts(corpus, 100, seed + 1):
        if len(its) >= 10 and time.perf_counter() > deadline:
            break
        started = time.process_time()
        hits = bank.search(query, K).hits
        between = time.process_time()
        scores = reference.get_scores(words(query))
        best = np.argsort(scores)[::-1][:K]
        ended = time.process_time()
        mine.append(between - started)
        its.append(ended - between)
        found = [hit.score for hit in hits]
        there = [scores[hit.id - 1] for hit in hits]
        same.append(np.allclose([found, there], scores[best], rtol=0, atol=1e-9))
    return mine, its, same


def _trajectory(number: int, text: str) -> Trajectory:
    task = Task(benchmark="bench", split="made", task_id=f"task-{number}", description=text)
    return Trajectory(task=task, outcome="success", reward=1.0)


def _fill(path: Path, corpus: str, size: int, seed: int) -> None:
    with MemoryBank(path) as bank:
        batch = []
        for number, text in enumerate(texts(corpus, size, seed), 1):
            batch.append((f"trace-{number}", _trajectory(number, text), {"success": True}))
            if len(batch) == _BATCH or number == size:
                bank.append(batch)
                batch = []


def _child(what: str, path: Path, corpus: str, size: int, seed: int) -> float:
    """One number measured in a fresh process: seconds to open, or bytes of memory."""
    call = json.dumps([what, str(path), corpus, size, seed])
    code = "import sys; from jitmem_lab.bench.retrieval import _measure; _measure(sys.argv[1])"
    here = str(Path(__file__).resolve().parents[2])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *(p for p in sys.path if p)])}
    done = subprocess.run([sys.executable, "-c", code, call], capture_output=True, text=True, env=env)
    if done.returncode:
        raise InfrastructureError(f"measuring {what} failed: {done.stderr.strip().splitlines()[-1:]}")
    return float(done.stdout)


def _measure(call: str) -> None:
    what, path, corpus, size, seed = json.loads(call)
    query = next(texts(corpus, 1, seed + 1))
    if what == "open":
        started = time.perf_counter()
        bank = MemoryBank(path, read_only=True)
        bank.search(query, K)
        print(time.perf_counter() - started)
    elif what == "memory":
        # The compiler's own memory is no part of the index: load it first, on texts of the same kind.
        index = BM25Index()
        index.extend(texts(corpus, 3_000, seed))
        index.rank(query, K)
        before = _resident()
        bank = MemoryBank(path, read_only=True)
        bank.search(query, K)
        print(_resident() - before)
    else:
        from rank_bm25 import BM25Okapi

        before = _resident()
        reference = BM25Okapi(words(text) for text in texts(corpus, size, seed))
        reference.get_scores(words(query))
        print(_resident() - before)


def _resident() -> int:
    """Bytes of memory that this process holds now (its peak, where the system doesn't tell)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return pages * os.sysconf("SC_PAGE_SIZE")


def render(result: dict[str, Any]) -> str:
    """The result as a table for people."""
    head = ("corpus", "traces", "query ×", "insert ×", "same top-3", "open s", "memory", "ms", "rank-bm25 ms")
    lines = [head]
    for row in result["rows"]:
        memory = row["rss_ratio"]
        lines.append(
            (
                row["corpus"],
                f"{row['n']:,}",
                f"{row['query_ratio_cpu']:.0f}",
                f"{row['insert_ratio']:.0f}",
                f"{row['agreement']:.3f}",
                f"{row['open_s']:.2f}",
                "–" if memory is None else f"1/{1 / memory:.1f}" if memory > 0 else "0",
                f"{row['query_ms_p50']:.3f}",
                f"{row['reference_query_ms_p50']:.1f}",
            )
        )
    wide = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(line, wide, strict=True)) for line in lines)
