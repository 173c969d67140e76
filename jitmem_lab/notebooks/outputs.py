"""Outputs of a notebook kept short and valid, while it runs and once it has ended."""

from __future__ import annotations

import json
import math
import re
from typing import Any

STREAM_LIMIT = 20_000
"""Characters of one stream of a cell that are kept: its beginning and its end."""
TEXT_LIMIT = 20_000
"""Characters kept of a plain-text result, or of one frame of a traceback."""
OUTPUT_LIMIT = 100
"""Outputs kept of one cell."""
WIDGET_LIMIT = 2_000_000
"""Bytes of widget state above which the state is left out, and the views with it."""
_VIEW = "application/vnd.jupyter.widget-view+json"
_STATE = "application/vnd.jupyter.widget-state+json"
_ROWS = 40
_NOTE = 100  # room for the note of a cut, so that what was cut once is not cut again
_MOVES = re.compile(r"(\r|\n|\x1b\[A)")


class BoundedStream:
    """What a terminal would show of a stream, in bounded memory: `\\r` and cursor-up rewrite lines.

    Args:
        limit: Characters kept, half from the beginning and half from the end.
    """

    def __init__(self, limit: int = STREAM_LIMIT) -> None:
        self.half = limit // 2
        self.head = ""
        self.tail = ""
        self.dropped = 0
        self.rows = [""]  # lines that the cursor can still reach
        self.row = 0
        self.rewrite = False

    def feed(self, text: str) -> None:
        """Take in what was written."""
        for piece in _MOVES.split(text.replace("\r\n", "\n")):
            if piece in ("\r", "\n", "\x1b[A"):
                self._move(piece)
            else:
                self._write(piece)

    def _move(self, how: str) -> None:
        if how == "\r":
            self.rewrite = True
        elif how == "\x1b[A":
            self.row = max(0, self.row - 1)
            self.rewrite = True
        else:
            self.rewrite = self.row + 1 < len(self.rows)
            self.row += 1
            if self.row == len(self.rows):
                self.rows.append("")
            if len(self.rows) > _ROWS:
                self._keep(self.rows.pop(0) + "\n")
                self.row -= 1

    def _write(self, text: str) -> None:
        if not text:
            return
        line = text if self.rewrite else self.rows[self.row] + text
        self.rewrite = False
        if len(line) > 4 * self.half:
            if self.row == 0 and len(self.rows) == 1:
                self._keep(line)
                line = ""
            else:
                self.dropped += len(line) - 2 * self.half
                line = line[: self.half] + line[-self.half :]
        self.rows[self.row] = line

    def _keep(self, text: str) -> None:
        room = self.half - len(self.head)
        if room > 0:
            self.head, text = self.head + text[:room], text[room:]
        self.tail += text
        if len(self.tail) > 4 * self.half:
            self.dropped += len(self.tail) - self.half
            self.tail = self.tail[-self.half :]

    def text(self) -> str:
        """What is left of the stream, with a note of what was dropped."""
        tail, dropped = self.tail + "\n".join(self.rows), self.dropped
        if not dropped and len(self.head) + len(tail) <= 2 * self.half:
            return self.head + tail
        head = self.head
        if len(head) < self.half:
            room = self.half - len(head)
            head, tail = head + tail[:room], tail[room:]
        over = max(0, len(tail) - self.half)
        if not dropped + over:
            return head + tail
        return f"{head}\n… {dropped + over:,} characters left out …\n{tail[over:]}"


def cut(text: str, limit: int = TEXT_LIMIT) -> str:
    """`text` with its middle left out if it is longer than `limit`."""
    if len(text) <= limit + _NOTE:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"


def shorten(output: Any) -> None:
    """Cut the plain text of one output in place; HTML and images stay whole, for half of them is none."""
    if output.output_type == "stream":
        if len(output.text) <= STREAM_LIMIT + _NOTE and "\r" not in output.text:
            return
        stream = BoundedStream()
        stream.feed(output.text)
        output.text = stream.text()
    elif output.output_type == "error":
        output.evalue = cut(output.evalue, 2000)
        output.traceback = [cut(frame) for frame in output.traceback]
    elif "text/plain" in output.get("data", {}):
        output.data["text/plain"] = cut(output.data["text/plain"])


def last_printed(notebook: Any, limit: int = 4000) -> str:
    """What the last code cell of an executed notebook printed, such as where its files are."""
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    outputs = code[-1].get("outputs", []) if code else []
    text = "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")
    return cut(text.strip(), limit)


def tidy(notebook: Any) -> None:
    """Make an executed notebook valid in place: texts cut, widgets with state or absent, strict JSON.

    Raises:
        nbformat.ValidationError: The notebook breaks the format in a way that this does not know.
    """
    from .quick import nbformat
    from .wire import visible

    kept = _widget_state(notebook)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            shorten(output)
            view = output.get("data", {}).get(_VIEW)
            if view is not None and view.get("model_id") not in kept:
                del output.data[_VIEW]
                output.data.setdefault("text/plain", "(a widget whose state was not kept)")
    plain = nbformat.from_dict(json_safe(visible(notebook)))
    notebook.clear()
    notebook.update(plain)
    nbformat.validate(notebook)


def _widget_state(notebook: Any) -> set[str]:
    """Ids of the widgets whose state the notebook keeps; drops what has none or is too large."""
    widgets = notebook.metadata.get("widgets")
    state = widgets.get(_STATE, {}).get("state") if isinstance(widgets, dict) else None
    if state and len(json.dumps(state, default=str)) <= WIDGET_LIMIT:
        return set(state)
    notebook.metadata.pop("widgets", None)
    return set()


def json_safe(value: Any) -> Any:
    """`value` in strict JSON: NaN and infinities, which strict readers refuse, as texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): json_safe(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set):
        return [json_safe(item) for item in value]
    return value
