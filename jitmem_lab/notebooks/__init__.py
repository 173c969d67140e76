"""Notebooks run through papermill: parameters checked first, a true status, output in one piece."""

from .parameters import parse_pairs, read_parameters
from .runner import NotebookError, find_notebook, read_status, run_notebook, status_path

__all__ = [
    "NotebookError",
    "find_notebook",
    "parse_pairs",
    "read_parameters",
    "read_status",
    "run_notebook",
    "status_path",
]
