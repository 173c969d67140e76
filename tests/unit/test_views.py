"""What the dashboards read, and who may open them; no browser."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jitmem_lab.cli import _run
from jitmem_lab.errors import UserError
from jitmem_lab.execution import Executor
from jitmem_lab.memories import load_memory
from jitmem_lab.runs import Run
from jitmem_lab.serve import check_door, find_port, is_loopback, main
from jitmem_lab.stream import run_stream
from jitmem_lab.views.reading import EpisodeIndex, find_runs

from .doubles import ButtonBenchmark, RuleModel

pytestmark = pytest.mark.unit


@pytest.fixture
def run(tmp_path) -> Run:
    return run_stream(
        ButtonBenchmark(5),
        load_memory("none"),
        Executor(RuleModel(), temperature=1.0),
        out=tmp_path / "runs" / "a",
        progress=False,
    )


def test_index_agrees_with_the_run(run):
    index = EpisodeIndex(run)
    index.refresh()
    assert [row.position for row in index.rows] == list(range(5))
    assert [index.load(i) for i in range(5)] == run.latest()
    assert index.count("success") == sum(episode.outcome == "success" for episode in run.latest())


def test_index_follows_a_growing_file(run):
    whole = (run.path / "episodes.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (run.path / "episodes.jsonl").write_bytes(lines[0] + lines[1][:50])
    index = EpisodeIndex(run)
    index.refresh()
    assert len(index.rows) == 1
    with (run.path / "episodes.jsonl").open("ab") as file:
        file.write(lines[1][50:] + b"{}\n[]\nno json\n" + b"".join(lines[2:]))
    index.refresh()
    assert len(index.rows) == 5
    assert index.unreadable == 3
    assert [index.load(i).position for i in range(5)] == list(range(5))
    (run.path / "episodes.jsonl").write_bytes(lines[2])
    index.refresh()
    assert [row.position for row in index.rows] == [json.loads(lines[2])["position"]]
    assert index.unreadable == 0


def test_index_takes_the_result_over_the_error(run):
    lines = [json.loads(line) for line in (run.path / "episodes.jsonl").read_text().splitlines()]
    owed = lines[0] | {"outcome": "error", "error": "the server died"}
    texts = [json.dumps(line) + "\n" for line in (owed, *lines, owed)]
    (run.path / "episodes.jsonl").write_text("".join(texts))
    index = EpisodeIndex(run)
    index.refresh()
    assert [index.load(row.position) for row in index.rows] == run.latest()
    assert index.count("error") == 0


def test_index_says_what_is_wrong(run):
    index = EpisodeIndex(run)
    index.refresh()
    with pytest.raises(UserError, match="no finished episode at position 9"):
        index.load(9)
    line = json.loads((run.path / "episodes.jsonl").read_text().splitlines()[0])
    for change, message in (({"schema_version": 99}, "upgrade"), ({"calls": 3}, "cannot be read")):
        (run.path / "episodes.jsonl").write_text(json.dumps(line | change) + "\n")
        fresh = EpisodeIndex(run)
        fresh.refresh()
        with pytest.raises(UserError, match=message):
            fresh.load(line["position"])
    shutil.rmtree(run.path)
    with pytest.raises(UserError, match="no longer there"):
        index.refresh()


def test_runs_are_found_once_and_by_a_name_of_their_own(run, tmp_path):
    other = tmp_path / "other" / "a"
    shutil.copytree(run.path, other)
    found = find_runs([run, tmp_path / "runs", other])
    assert sorted(listed.path for listed in found.values()) == sorted([run.path, other])
    assert all(name == listed.name for name, listed in found.items())
    assert find_runs([tmp_path / "nowhere"]) == {}


def test_inspector_without_a_browser(run, tmp_path):
    pytest.importorskip("panel")
    from jitmem_lab.views import Inspector

    one, two = Inspector(run), Inspector(tmp_path / "runs", run="a", position=3)
    assert (one.run, one.position) == ("a", 0)
    one.move(1)
    assert (one.position, two.position) == (1, 3)
    two.move(1)
    two.move(1)
    assert two.position == 4, "there is no task after the last"
    assert "room 4." in two._body.object
    with pytest.raises(UserError, match="there is no run 'b'"):
        Inspector(run, run="b")
    empty = Inspector(tmp_path / "nowhere")
    assert "jitmem demo" in empty._body.object
    shutil.copytree(run.path, tmp_path / "nowhere" / "late")
    empty.reload()
    assert (empty.run, empty.position) == ("late", 0)


def test_long_texts_are_cut_until_asked_for(run):
    pytest.importorskip("panel")
    from jitmem_lab.views import Inspector

    line = json.loads((run.path / "episodes.jsonl").read_text().splitlines()[0])
    line["recall"]["payload"] = "x" * 200_000
    (run.path / "episodes.jsonl").write_text(json.dumps(line) + "\n")
    inspector = Inspector(run)
    assert "192,000 more characters" in inspector._body.object
    inspector.full = True
    assert "x" * 200_000 in inspector._body.object


def test_views_load_no_model_code():
    code = (
        "import sys, jitmem_lab.views.inspect, jitmem_lab.serve\n"
        "models = ('torch', 'transformers', 'openai', 'jitmem_lab.models')\n"
        "print([name for name in sys.modules if name.startswith(models)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_entry_files_are_short():
    for file in (Path(__file__).parents[2] / "dashboards").glob("*.py"):
        assert len(file.read_text().splitlines()) <= 15


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.5", "lab.example.org", ""])
def test_others_are_let_in_with_a_token_only(address):
    assert not is_loopback(address)
    with pytest.raises(UserError):
        check_door(address, None)
    with pytest.raises(UserError, match=r"too short|give an address"):
        check_door(address, "1234567")
    if address:
        check_door(address, "12345678")


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "127.8.8.8"])
def test_loopback_needs_no_token(address):
    check_door(address, None)


def test_numeric_ipv6_is_refused_with_a_reason():
    with pytest.raises(UserError, match="host name"):
        check_door("::1", None)


def test_wrong_input_ends_before_serving(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("JITMEM_TOKEN", raising=False)
    assert _run(["serve", "--address", "0.0.0.0", "--port", "0"]) == 2
    assert "token" in capsys.readouterr().err
    assert _run(["serve", str(tmp_path / "nowhere")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert _run(["serve", str(tmp_path / "file")]) == 2
    assert "there is no folder" in capsys.readouterr().err
    assert _run(["serve", "--port", "70000"]) == 2
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} .* choose another"):
            main([], port=port)
    assert find_port("127.0.0.1", 0) > 0
