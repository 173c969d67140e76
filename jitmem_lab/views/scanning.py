"""What an episode's line says at a glance, without reading it whole.

Lines are JSON with sorted keys, as `records.to_json` writes them: the model calls come first, then key,
outcome, position, what memory gave, the task, and the trajectory. A quote inside a text is always
escaped, so bytes such as `, "key": "` are part of the structure wherever they stand. A line that looks
otherwise is parsed whole.
"""

from __future__ import annotations

import json
import re
from sys import intern
from typing import NamedTuple


class Row(NamedTuple):
    """One episode in the index."""

    position: int
    """Place in the stream."""
    outcome: str
    """success, failure or error."""
    description: str
    """The task's sentence."""
    offset: int
    """Where its line starts, in bytes."""
    length: int
    """Length of its line in bytes."""
    key: str = ""
    """What resume matches: hash of task and trial."""
    benchmark: str = ""
    """The task's benchmark."""
    task_type: str = ""
    """The benchmark's own type of task."""
    task_id: str = ""
    """The task's id."""
    reward: float | None = None
    """The environment's own metric; None when unscored."""
    traces: int = 0
    """Traces that were retrieved."""
    payload: bool = False
    """Whether memory gave a payload."""
    steps: int = 0
    """Turns taken."""
    prompt_tokens: int = 0
    """Tokens read, by all roles."""
    completion_tokens: int = 0
    """Tokens written, by all roles."""

    @property
    def tokens(self) -> int:
        """Tokens read and written."""
        return self.prompt_tokens + self.completion_tokens


_TEXT = rb'"((?:[^"\\]|\\.)*)"'
_NUMBER = rb"-?[0-9][0-9.eE+-]*"
_KEY = rb', "key": "'
_HEAD = re.compile(
    rb', "key": ' + _TEXT + rb', "outcome": "(success|failure|error)", "position": ([0-9]{1,9}), "recall": \{'
)
_RECALL = re.compile(
    rb'"query": ' + _TEXT + rb', "self_excluded": [0-9]+, "traces": (\[\]|\[\{)',
)
_TASK = re.compile(
    rb', "snapshot": (?:null|[0-9]+), "started": '
    + _NUMBER
    + rb', "task": \{"benchmark": '
    + _TEXT
    + rb', "description": '
    + _TEXT
    + rb', "key": "'
)
_TYPE = re.compile(
    rb', "split": '
    + _TEXT
    + rb', "task_id": '
    + _TEXT
    + rb', "task_type": '
    + _TEXT
    + rb'\}, "trajectory": (null|\{)'
)
_REWARD = re.compile(rb', "reward": (null|' + _NUMBER + rb'), "source": "[^"\\]*", "steps": \[')
_USAGE = re.compile(
    rb'"usage": \{"cached_calls": [0-9]+, "calls": [0-9]+, "completion_tokens": ([0-9]+), '
    rb'"prompt_tokens": ([0-9]+), '
)


def scan_line(line: bytes, offset: int) -> Row:
    """The row of a line that starts at `offset` of its file.

    Raises:
        ValueError: The line is no episode.
    """
    return _glance(line, offset) or parse_line(line, offset)


def _glance(line: bytes, offset: int) -> Row | None:
    """The row by the order in which our lines are written; None where a line looks otherwise."""
    if not line.startswith(b'{"batch": ') or not line.endswith(b"}}\n"):
        return None
    head = _search(_HEAD, _KEY, line, 0)
    # The same fields in the same order once more: one of the two belongs to something inside.
    if head is None or _search(_HEAD, _KEY, line, head.end()) is not None:
        return None
    task = _search(_TASK, b', "snapshot": ', line, head.end())
    if task is None:
        return None
    recall = _RECALL.search(line, head.end(), task.start())
    kind = _TYPE.search(line, task.end())
    if recall is None or kind is None:
        return None
    played = _REWARD.search(line, kind.end()) if kind[4] != b"null" else None
    used = _sum_usage(line, head.start())
    if used is None or (kind[4] != b"null" and played is None):
        return None
    return Row(
        position=int(head[3]),
        outcome=intern(head[2].decode("ascii")),
        description=_text(task[2]),
        offset=offset,
        length=len(line),
        key=_text(head[1]),
        benchmark=intern(_text(task[1])),
        task_type=intern(_text(kind[3])),
        task_id=_text(kind[2]),
        reward=None if played is None or played[1] == b"null" else float(played[1]),
        traces=line.count(b'{"cut_chars": ', recall.end() - 1, task.start()),
        payload=line.find(b', "payload": "", "query": ', head.end(), task.start()) < 0,
        steps=0
        if played is None
        else line.count(b'"admissible": [', played.end(), line.rfind(b'], "task": {"benchmark": ')),
        prompt_tokens=used[0],
        completion_tokens=used[1],
    )


def _search(pattern: re.Pattern[bytes], start: bytes, line: bytes, at: int) -> re.Match[bytes] | None:
    """The first match of a pattern that begins with `start`: `find` is faster than `search`."""
    while (at := line.find(start, at)) >= 0:
        match = pattern.match(line, at)
        if match is not None:
            return match
        at += len(start)
    return None


def _text(raw: bytes) -> str:
    """The text that stands between two quotes."""
    if b"\\" in raw:
        return str(json.loads(b'"' + raw + b'"'))
    return raw.decode("utf-8", "surrogatepass")


def parse_line(line: bytes, offset: int) -> Row:
    """The same by reading the line whole."""
    try:
        raw = json.loads(line)
        task, recall = raw["task"], raw.get("recall") or {}
        position, outcome = raw["position"], str(raw["outcome"])
        trajectory = raw.get("trajectory") or {}
        used = [call.get("usage") or {} for call in raw.get("calls") or ()]
        reward = trajectory.get("reward")
        if type(position) is not int or position < 0:
            raise ValueError(position)
        return Row(
            position=position,
            outcome=outcome,
            description=str(task["description"]),
            offset=offset,
            length=len(line),
            key=str(raw["key"]),
            benchmark=str(task.get("benchmark", "")),
            task_type=str(task.get("task_type", "")),
            task_id=str(task.get("task_id", "")),
            reward=float(reward) if isinstance(reward, int | float) else None,
            traces=len(recall.get("traces") or ()),
            payload=bool(recall.get("payload")),
            steps=len(trajectory.get("steps") or ()),
            prompt_tokens=sum(usage.get("prompt_tokens", 0) for usage in used),
            completion_tokens=sum(usage.get("completion_tokens", 0) for usage in used),
        )
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no episode: {error!r}") from None


def _sum_usage(line: bytes, end: int) -> tuple[int, int] | None:
    """Tokens read and written in the calls before `end`; None where one looks otherwise."""
    read = written = 0
    at = line.find(b'"usage": {', 0, end)
    while at >= 0:
        match = _USAGE.match(line, at)
        if match is None:
            return None
        written += int(match[1])
        read += int(match[2])
        at = line.find(b'"usage": {', match.end(), end)
    return read, written
