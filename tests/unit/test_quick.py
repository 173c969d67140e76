"""Notebooks are read without the seconds that jsonschema takes for what they don't need."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit


def test_nbformat_comes_without_a_grammar_and_still_checks() -> None:
    code = (
        "import sys\n"
        "from jitmem_lab.notebooks.quick import nbformat\n"
        "nbformat.validate(nbformat.v4.new_notebook())\n"
        "assert not {'rfc3987_syntax', 'lark'} & set(sys.modules)\n"
        "try:\n"
        "    nbformat.validate({'cells': [], 'nbformat': 4, 'nbformat_minor': 5})\n"
        "except nbformat.ValidationError:\n"
        "    print('checked')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "checked"
