"""What of a study can be kept beside a text: its tables, one picture and one table in Markdown."""

from __future__ import annotations

import csv
import errno
import io
import tempfile
from pathlib import Path

from ..browser import take_pictures
from ..errors import InfrastructureError, UserError
from ..files import make_folder, write_atomic
from ..report import PAPER
from .figures import rates_figure
from .plan import Plan, Planned
from .reporting import write_study
from .tables import compared, played

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
    """Write the report, and into a folder its tables as CSV, table 1 as Markdown and as a picture.

    Table 1 is that of the first benchmark that has a result.

    Returns:
        What was written, as paths; a sentence where no picture could be taken, or an older one stays.

    Raises:
        UserError: Nothing was run yet, table 1 is not among what was asked, or the folder cannot be written.
        InfrastructureError: The disk is full.
    """
    every = [planned for planned in plan.parts if planned.part.name == "table_1"]
    if not every:
        raise UserError("this study has no table 1, which is what is published; run it with that part")
    main = next((planned for planned in every if played(plan, planned)), every[0])
    tables = {file.name: file for file in write_study(plan, draws) if file.suffix == ".csv"}
    root = make_folder(folder)
    try:
        contents = {name: file.read_bytes() for name, file in tables.items()}
        table_1 = contents[f"table_1_{main.benchmark}_{main.split}.csv"].decode("utf-8")
        contents[TABLE] = markdown(table_1).encode("utf-8")
        for name, content in contents.items():
            write_atomic(root / name, content)
        return [*(str(root / name) for name in contents), *_picture(plan, main, root, draws)]
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            why = f"{root} cannot be written to ({error.strerror}); make room and publish again"
            raise InfrastructureError(why) from None
        raise UserError(f"{root} cannot be written to ({error.strerror}); choose another") from None


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
            older = f"{root / PICTURE} is an older picture, which may not show this table"
            return [*said, older] if (root / PICTURE).exists() else said
        write_atomic(root / PICTURE, picture.read_bytes())
    return [str(root / PICTURE)]
