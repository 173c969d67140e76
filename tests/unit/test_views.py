"""What the dashboards read, and who may open them; no browser."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from jitmem_lab.bench import views as bench_views
from jitmem_lab.bench.made_runs import make_run
from jitmem_lab.cli import _run
from jitmem_lab.errors import UserError
from jitmem_lab.execution import Executor
from jitmem_lab.memories import load_memory
from jitmem_lab.records import (
    Call,
    Episode,
    Message,
    Recall,
    RetrievedTrace,
    Step,
    Task,
    ToolCall,
    Trajectory,
    Usage,
)
from jitmem_lab.runs import Run, list_runs
from jitmem_lab.serve import check_door, find_port, is_loopback, main
from jitmem_lab.stream import run_stream
from jitmem_lab.views import filters
from jitmem_lab.views.reading import EpisodeIndex, Listed, find_runs
from jitmem_lab.views.scanning import Row, parse_line, scan_line

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


def hostile_episode(text: str, **changes) -> Episode:
    """An episode with a text in every place that takes one."""
    task = Task(
        benchmark="b",
        split="s",
        task_id=text,
        description=text,
        task_type=f"t {text}",
        meta={text: {"key": text}},
    )
    trace = RetrievedTrace(trace_id=1, rank=1, score=1.5, task_id=text, description=text, text=text)
    call = Call(
        role="curator",
        model=text,
        messages=(Message(role="user", content=text),),
        text=text,
        tool_calls=(ToolCall(name="t", arguments={"usage": text, "key": text}),),
        usage=Usage(calls=1, prompt_tokens=7, completion_tokens=2),
    )
    step = Step(observation=text, admissible=(text,), raw=text, action=text)
    values = {
        "key": "k",
        "position": 4,
        "batch": 0,
        "task": task,
        "recall": Recall(
            payload=text, traces=(trace, trace), query=text, notes={text: text, "payload": text}
        ),
        "trajectory": Trajectory(task=task, steps=(step,) * 3, reward=0.25, parts={"reward": 9, text: text}),
        "outcome": "failure",
        "calls": (call,) * 5,
    }
    return Episode(**(values | changes))


LOOKALIKE = (
    '"}, "key": "x", "outcome": "success", "position": 7, "recall": {"bank_size": 1}, "usage": {"calls": 1}'
)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "",
        LOOKALIKE,
        json.dumps(LOOKALIKE),
        "\\",
        '\\\\"',
        "lone \ud83d",
        "😀 é 把",
        "\x00\u2028\n",
        '{["]}',
    ],
)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"trajectory": None, "outcome": "error", "error": LOOKALIKE, "calls": ()},
        {"recall": Recall()},
        {"later": {"key": "x"}, "seeds": {"a{": 1}},
    ],
)
def test_a_line_is_read_at_a_glance_as_if_it_were_parsed(text, changes):
    episode = hostile_episode(text, **changes)
    line = (episode.to_line() + "\n").encode("ascii")
    row = scan_line(line, 10)
    assert row == parse_line(line, 10)
    assert (row.key, row.position, row.outcome) == ("k", 4, episode.outcome)
    assert (row.description, row.task_type, row.task_id) == (text, f"t {text}", text)
    assert (row.tokens, row.traces) == (9 * len(episode.calls), len(episode.recall.traces))
    assert row.payload == bool(episode.recall.payload)
    assert (row.steps, row.reward) == ((3, 0.25) if episode.trajectory else (0, None))


def test_lines_of_other_writers_are_parsed_whole():
    episode = hostile_episode("é 😀")
    sorted_line = episode.to_line().encode()
    row = scan_line(sorted_line + b"\n", 0)
    raw = json.loads(sorted_line)
    compact = json.dumps(raw, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    unsorted = json.dumps(episode.model_dump(mode="json")).encode() + b"\n"
    inner = raw | {"calls": [{"arguments": raw}, *raw["calls"]]}
    nested = json.dumps(inner, sort_keys=True).encode() + b"\n"
    for line in (compact, unsorted, nested):
        assert scan_line(line, 0) == row._replace(length=len(line))
    for line in (b"{}\n", b"[]\n", b"null\n", b"{\n", sorted_line[:-1] + b"\n", b'{"batch": 0, "x": {}}\n'):
        with pytest.raises(ValueError, match=r"."):
            scan_line(line, 0)


def test_index_starts_over_when_the_file_is_another(run):
    file = run.path / "episodes.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    index, other = EpisodeIndex(run), EpisodeIndex(run)
    index.refresh()
    changed = [json.loads(line) | {"key": f"k{i}"} for i, line in enumerate(lines[:4])]
    text = "".join(json.dumps(line, sort_keys=True) + "\n" for line in changed) + lines[4].decode()
    file.write_text(text + "\n" * max(0, sum(map(len, lines)) + 1 - len(text)))  # no shorter than before
    with pytest.raises(UserError, match=r"replaced|cannot be read"):
        [index.load(row.position) for row in index.rows]
    other.refresh()
    assert sorted(row.key for row in other.rows)[-4:] == ["k0", "k1", "k2", "k3"]
    index.refresh()
    assert index.rows == other.rows


def test_index_is_read_in_slices(run):
    index = EpisodeIndex(run)
    index.refresh(0)
    assert not index.whole
    assert 0 < index.share < 1
    while not index.whole:
        index.refresh(0)
    assert len(index.rows) == 5
    assert index.share == 1


def test_the_verdict_that_came_later_is_shown(run):
    index = EpisodeIndex(run)
    index.refresh()
    late = {"key": index.rows[2].key, "verdict": {"success": True, "source": "judge", "rationale": "late"}}
    with (run.path / "writes.jsonl").open("a") as file:
        file.write(json.dumps(late) + "\n{torn")
    assert index.load(2).verdict.rationale == "late"
    assert [index.load(i) for i in range(5)] == run.latest()


def test_reading_writes_nothing(run):
    (run.path / "status.json").write_text(json.dumps({"state": "running", "done": 2}))
    before = {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in run.path.iterdir()}
    assert run.status()["state"] == "killed"
    assert [row["state"] for row in list_runs(run.path.parent)] == ["killed"]
    index = EpisodeIndex(run)
    index.refresh()
    index.load(0)
    assert before == {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in run.path.iterdir()}


def test_filters_read_a_line():
    line = 'outcome:failure,error -type:heat tokens>2000 mug "red  cup" -"http://x"'
    parts = filters.parse(line)
    assert [part.name for part in parts] == ["outcome", "type", "tokens", "", "", ""]
    assert [part.value for part in parts][3:] == ["mug", "red  cup", "http://x"]
    assert " ".join(map(str, parts)) == line
    assert filters.parse("") == filters.parse("  ") == ()
    assert filters.value_of(line, "outcome") == "failure,error"
    assert filters.value_of(line, "type") is None, "turned round"
    assert filters.with_value("outcome:error mug", "outcome", "success") == "outcome:success mug"
    assert filters.with_value("outcome:error mug", "outcome", "") == "mug"
    assert filters.with_value("mug", "type", "single product") == 'type:"single product" mug'


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("outcom:failure", "did you mean outcome"),
        ("http://x", "put what is no filter in quotes"),
        ("outcome:succes", None),
        ("outcome:sucess", "did you mean success"),
        ("tokens>many", "tokens takes a number"),
        ("tokens>nan", "tokens takes a number"),
        ("type>3", "type takes a text"),
        ("steps:", "say what steps must be"),
        ('mug "1', "close the quote"),
        ("-", "what must not be there"),
        ("x" * 2000, "at most 1,000"),
    ],
)
def test_filters_are_strict(line, message):
    if message is None:
        assert filters.parse(line)
        return
    with pytest.raises(UserError, match=message):
        filters.parse(line)


def test_filters_choose_tasks_and_runs():
    def row(position, outcome, kind, text, tokens=0, reward=None):
        return Row(
            position, outcome, text, 0, 1, task_type=kind, benchmark="b", reward=reward, prompt_tokens=tokens
        )

    rows = [
        row(0, "success", "pick_heat_then_place", "Heat the mug", 3000, 1.0),
        row(1, "failure", "pick_heat_then_place", "heat a cafe\u0301", 1000, 0.0),
        row(2, "failure", "look", "look at the mug 1"),
    ]

    def found(line):
        return [row.position for row in filters.choose(filters.parse(line), rows)]

    assert found("") == [0, 1, 2]
    assert found("outcome:failure type:heat") == [1]
    assert found("mug") == [0, 2]
    assert found("MUG -heat") == [2]
    assert found("caf\u00e9") == [1]
    assert found("tokens>=1000 tokens<3000") == [1]
    assert found("reward<1") == [1], "unscored is no number"
    assert found('"mug 1"') == [2]
    assert found("position:2") == [2]
    assert found("memory:jitmem") == [0, 1, 2], "that is asked of runs"
    with pytest.raises(UserError, match="did you mean heat"):
        found("type:haet")
    assert filters.choose(filters.parse("type:any"), []) == []
    runs = [Listed(name, Path(name), "", "alfworld", name) for name in ("none", "jitmem", "raw")]
    assert [run.name for run in filters.choose_runs(filters.parse("memory:jitmem,raw"), runs)] == [
        "jitmem",
        "raw",
    ]
    assert [run.name for run in filters.choose_runs(filters.parse("-memory:none"), runs)] == ["jitmem", "raw"]
    with pytest.raises(UserError, match="did you mean jitmem"):
        filters.choose_runs(filters.parse("memory:jitmen"), runs)


def test_inspector_filters_and_follows_the_list(run, tmp_path):
    pytest.importorskip("panel")
    from jitmem_lab.views import Inspector

    outcomes = {row["position"]: row["outcome"] for _, row in run.episodes().iterrows()}
    failures = [place for place, outcome in outcomes.items() if outcome == "failure"]
    inspector = Inspector(run, filter="outcome:failure")
    assert inspector.position == failures[0]
    inspector.move(1)
    assert inspector.position == failures[1]
    inspector.filter = "type:type0"
    assert inspector.position % 2 == 0
    inspector.filter = "outcom:failure"
    assert "did you mean outcome" in inspector._note.object
    inspector.filter = "nothing like it"
    assert "0 tasks fit" in inspector._count.object
    inspector.filter = ""
    assert "task 1 of 5" in inspector._count.object or inspector.position
    shutil.copytree(run.path, tmp_path / "runs" / "b")
    config = json.loads((tmp_path / "runs" / "b" / "config.json").read_text())
    config["settings"]["memory"]["name"] = "raw"
    (tmp_path / "runs" / "b" / "config.json").write_text(json.dumps(config))
    both = Inspector(tmp_path / "runs", run="a")
    both.filter = "memory:raw"
    assert both.run == "b"


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


def test_made_up_runs_are_like_real_ones(tmp_path):
    assert make_run(tmp_path / "a", 9, observation=5000) == 9
    run = Run(tmp_path / "a")
    index = EpisodeIndex(run)
    index.refresh()
    assert [index.load(i) for i in range(9)] == run.latest()
    assert all(row == parse_line(row_line(index, row), row.offset) for row in index.rows)
    assert {row.steps for row in index.rows} == {15}
    size = 200_000
    assert make_run(tmp_path / "b", size=size) > 2
    assert 0.6 * size < (tmp_path / "b" / "episodes.jsonl").stat().st_size <= size


def row_line(index, row) -> bytes:
    return index.file.read_bytes()[row.offset : row.offset + row.length]


def test_bench_says_what_is_missing(monkeypatch):
    monkeypatch.setenv("JITMEM_CHROMIUM", "no-such-browser")
    result = bench_views.run(episodes=20, gigabytes=0.001, observation=0.01, sessions=1)
    assert len(result["rows"]) == 2
    assert "in a browser" in bench_views.render(result)


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
