"""Write-time memories whose writer may also be a small model: it continues a text instead of being asked."""

from __future__ import annotations

from typing import Any, Literal, get_args

from ..errors import UserError
from ..prompts import load_prompt
from ..session import Session
from .written import Attempted, WrittenMemory

Form = Literal["ask", "continue"]
"""`ask`: in chat. `continue`: a worked example and the record, whose last line the model goes on with up to a
blank line; a model of a few hundred million parameters follows nothing else."""

SMALL: dict[str, Any] = {
    "form": "continue",
    "trace_format": "actions",
    "temperature": 0.0,
    "max_tokens": 160,
}
"""The variant for small models. A system's prompts of this form are named as the others, with `_continue`."""


class ContinuingMemory(WrittenMemory):
    """A write-time memory with both forms.

    Args:
        form: How the writer is asked.
        options: As for `WrittenMemory`.

    Raises:
        UserError: Unknown form.
    """

    ASKED: tuple[str, ...] = ()
    """Its prompts, by their names in chat."""

    def __init__(self, *, form: Form = "ask", **options: Any) -> None:
        super().__init__(**options)
        if form not in get_args(Form):
            raise UserError(f"form must be one of {', '.join(get_args(Form))}, not {form!r}")
        self.form = form
        if form == "continue":
            self.sampling = self.sampling.model_copy(update={"stop": ("\n\n",)})

    def settings(self) -> dict[str, Any]:
        """Everything that changes what it recalls or remembers, the form included."""
        return super().settings() | {"form": self.form}

    def prompts(self) -> tuple[str, ...]:
        """The prompts of the form."""
        return tuple(map(self._named, self.ASKED))

    def _named(self, prompt: str) -> str:
        return prompt if self.form == "ask" else f"{prompt}_continue"

    def ask(self, prompt: str, session: Session, attempted: Attempted, **fields: str) -> str:
        """The writer's answer; what was continued has the prompt's last line before it."""
        answer = super().ask(self._named(prompt), session, attempted, **fields)
        if self.form == "ask":
            return answer
        return f"{load_prompt(self._named(prompt)).text.splitlines()[-1]} {answer}"

    def is_copied(self, text: str, prompt: str) -> bool:
        """Whether a text repeats the prompt: it ends a line there, or its first eight words stand in one.

        Below four words only the end of a line counts.
        """
        words = text.casefold().split()
        wanted = f" {' '.join(words[:8])}"
        lines = [
            f" {' '.join(line.split())}"
            for line in load_prompt(self._named(prompt)).text.casefold().splitlines()
        ]
        return any(line.endswith(wanted) or (len(words) > 3 and wanted in line) for line in lines)
