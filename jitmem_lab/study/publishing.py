"""What of a study can be kept beside a text: its tables, one picture and one table in Markdown."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path

from ..browser import take_pictures
from ..errors import UserError
from ..files import make_folder, write_atomic
from ..report import PAPER
from .figures import rates_figure
from .plan import Plan, Planned
from .reporting import write_study
from .tables import compared

PICTURE, TABLE = "rates.png", "table.md"
"""Names of the picture and of the table in Markdown."""
_COLUMNS = {
    "row": "memory",
    "SR": "success rate (std over orders)",
    "SR 95 %": "95 %",
    "SR difference": "against `none`",
    "SR difference 95 %": "95 %",
    "p SR": "p",
    "p SR Holm": "p (Holm)",
}
_WIDTH = 900


def publish(plan: Plan, folder: str | Path, draws: int = 10_000) -> list[str]:
    """Write the report, and into a folder its tables as CSV, the first table 1 as Markdown and as a picture.

    Returns:
        What was written, as paths; a sentence where no picture could be taken.

    Raises:
        UserError: Nothing was run yet, table 1 is not among what was asked, or the folder cannot be written.
    """
    main = plan.main
    if main is None:
        raise UserError("this study has no table 1, which is what is published; run it with that part")
    tables = [file for file in write_study(plan, draws) if file.suffix == ".csv"]
    root = make_folder(folder)
    try:
        for file in tables:
            write_atomic(root / file.name, file.read_bytes())
        table_1 = (root / f"table_1_{main.benchmark}_{main.split}.csv").read_text(encoding="utf-8")
        write_atomic(root / TABLE, markdown(table_1))
    except OSError as error:
        raise UserError(f"{root} cannot be written to ({error.strerror}); choose another") from None
    return [
        *(str(root / file.name) for file in tables),
        str(root / TABLE),
        *_picture(plan, main, root, draws),
    ]


def markdown(table: str) -> str:
    """Table 1 as Markdown, from its CSV: rates, differences from no memory, and the paper's cells last."""
    rows = list(csv.DictReader(io.StringIO(table)))
    theirs = [name for name in (rows[0] if rows else ()) if name.startswith(PAPER)]
    columns = {name: told for name, told in _COLUMNS.items() if rows and name in rows[0]}
    columns |= {name: name for name in theirs if not name.endswith(": row")}
    lines = [_line(list(columns.values())), _line(["---"] * len(columns))]
    lines += [_line([row[name] for name in columns]) for row in rows]
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _picture(plan: Plan, main: Planned, root: Path, draws: int) -> list[str]:
    """Take table 1's picture with a browser."""
    figure = rates_figure(compared(plan, main), list(main.rows), draws)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / Path(PICTURE).with_suffix(".html")
        html = figure.update_layout(width=_WIDTH - 20).to_html(config={"displayModeBar": False})
        page.write_text(html, encoding="utf-8")
        said = take_pictures([page], _WIDTH, figure.layout.height, scripts=True)
        picture = page.with_suffix(".png")
        if not picture.is_file():
            return said
        write_atomic(root / PICTURE, picture.read_bytes())
    return [str(root / PICTURE)]
