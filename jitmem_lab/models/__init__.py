"""Language models behind one protocol (`base.ChatModel`): `load_model` and the forms it understands."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from ..errors import UserError
from .base import ChatModel, Choice, Reply

__all__ = ["FORMS", "ChatModel", "Choice", "Reply", "check_spec", "load_model"]

FORMS = (
    "smol (the embedded SmolLM2-135M-Instruct)",
    "pocket, pocket:curator, pocket:writer, pocket:executor2 (the miniature for ALFWorld)",
    "openai:BASE_URL#MODEL (any OpenAI-compatible server)",
    "hf:PATH_OR_ID (transformers in process)",
    "replay:RUN_DIRECTORY (answers from an earlier run)",
)
"""The forms of a model's name, for help texts and errors."""


def load_model(
    spec: str,
    *,
    cache: Path | None = None,
    concurrency: int = 8,
    timeout: float = 120.0,
    retries: int = 5,
    **options: Any,
) -> ChatModel:
    """The model that `spec` names, ready to answer.

    Args:
        spec: One of `FORMS`.
        cache: SQLite file that answers every repeated call without the model; None for no cache.
        concurrency: Most calls at a time (served models; in process, the longest batch).
        timeout: Seconds one request may take (served models).
        retries: Most further tries after a failed request (served models).
        **options: The backend's own settings, see `hf.HfModel` and `served.ServedModel`.

    Raises:
        UserError: Unknown form or setting, missing package or key, or a model that isn't there.
        InfrastructureError: The embedded model can't be fetched.
    """
    kind, rest = check_spec(spec)
    model: ChatModel
    if kind == "smol":
        from . import smol
        from .hf import HfModel

        about = {"model": "SmolLM2-135M-Instruct", "weights": smol.GGUF_SHA256[:16]}
        fixed = {"name": "smol", "about": about, "max_batch": concurrency, "dtype": "float32"}
        settings = _known(HfModel, {**fixed, **options})
        model = HfModel(str(smol.ensure()), **settings)
    elif kind == "pocket":
        from . import pocket
        from .hf import HfModel

        place = pocket.folder(rest)
        fixed = {"name": spec.strip(), "about": pocket.about(rest), "max_batch": concurrency}
        model = HfModel(str(place), **_known(HfModel, {**fixed, "dtype": "float32", **options}))
    elif kind == "hf":
        from .hf import HfModel

        model = HfModel(rest, **_known(HfModel, {"max_batch": concurrency, **options}))
    elif kind == "openai":
        from .served import ServedModel

        limits = {"concurrency": concurrency, "timeout": timeout, "retries": retries}
        model = ServedModel(rest, **_known(ServedModel, {**limits, **options}))
    else:
        from .replay import ReplayModel

        model = ReplayModel(rest, **_known(ReplayModel, options))
    if cache is None:
        return model
    from .cache import cached

    try:
        return cached(model, cache)
    except UserError:
        model.close()
        raise


def check_spec(spec: str) -> tuple[str, str]:
    """Kind and rest of a model's name; nothing is loaded.

    Raises:
        UserError: It has none of `FORMS`.
    """
    kind, _, rest = spec.strip().partition(":")
    if kind == "pocket":
        from .pocket import folder

        folder(rest)
        return kind, rest
    if (kind == "smol" and not rest) or (kind in ("openai", "hf", "replay") and rest):
        return kind, rest
    raise UserError(f"unknown model {_hide(spec)!r}; use one of: {'; '.join(FORMS)}")


def _known(backend: type, settings: dict[str, Any]) -> dict[str, Any]:
    """`settings`, once each is known to be one of the backend's."""
    names = list(inspect.signature(backend).parameters)[1:]
    for setting in settings:
        if setting not in names:
            raise UserError(
                f"a model has no such setting as {setting!r} here; it may have {', '.join(names)}"
            )
    return settings


def _hide(spec: str) -> str:
    """`spec` without a user, password or query in it."""
    return re.sub(r"//[^/@#]*@", "//…@", spec).partition("?")[0]
