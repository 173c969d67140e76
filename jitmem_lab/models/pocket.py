"""The pocket models: small executors, a curator and a writer for ALFWorld, shipped with the package.

They were fitted on expert episodes of the train split (`training.fitting`, `jitmem pocket fit`). What they
can and can't do stands in `pocket_weights/MODEL_CARD.md`.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..errors import UserError, did_you_mean

NAMES = ("executor", "curator", "writer", "executor2")
"""The models: `pocket` is the executor, `pocket:curator` the untrained curator, `pocket:writer` writes what
write-time memories keep, `pocket:executor2` is another executor, to see what transfers."""


def folder(name: str = "") -> Path:
    """The folder of a shipped model, as `save_pretrained` wrote it.

    Raises:
        UserError: There is none of that name.
    """
    if (name or "executor") not in NAMES:
        raise UserError(
            f"there is no pocket model {name!r}; {did_you_mean(name, NAMES)} there are pocket (executor), "
            f"{', '.join(f'pocket:{one}' for one in NAMES[1:-1])} and pocket:{NAMES[-1]}"
        )
    return Path(__file__).parent / "pocket_weights" / (name or "executor")


def about(name: str = "") -> dict[str, str]:
    """What identifies a shipped model: the digest of its weights."""
    weights = (folder(name) / "model.safetensors").read_bytes()
    digest = hashlib.sha256(weights).hexdigest()[:16]
    return {"model": f"pocket-{name or 'executor'}", "weights": digest}
