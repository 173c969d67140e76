import json
import lzma
from pathlib import Path

import pytest

from jitmem_lab import data
from jitmem_lab.benchmarks.alfworld.games import Store, read_games, real_store
from jitmem_lab.errors import UserError

pytestmark = pytest.mark.unit

GRAMMAR = """grammar :: \"\"\"
    {
        "task": [
            {
                "rhs": "@@TASK@@"
            }
        ]
    }
\"\"\";
"""
GAMES = [
    ("look_at_obj_in_light-Book-None-DeskLamp-1", "trial_B", "look_at_obj_in_light", "look at book."),
    ("pick_and_place_simple-Mug-None-Desk-2", "trial_A", "pick_and_place_simple", "put a mug in desk."),
]


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home" / ".cache"))
    monkeypatch.delenv("JITMEM_DATA", raising=False)
    monkeypatch.delenv("ALFWORLD_DATA", raising=False)
    return tmp_path


def packed(root: Path, split: str = "valid_seen") -> Path:
    folder = root / "alfworld"
    folder.mkdir(parents=True)
    (folder / "alfred.domain.pddl").write_text("(domain)")
    (folder / "alfred.grammar.twl2").write_text(GRAMMAR)
    rows = [
        {
            "split": split,
            "task": task,
            "trial": trial,
            "task_type": kind,
            "scene_num": int(task.rsplit("-", 1)[1]),
            "goal": f"Your task is to: {goal}",
            "walkthrough": ["look"],
            "solvable": True,
            "pddl_problem": f"(problem {trial})",
        }
        for task, trial, kind, goal in GAMES
    ]
    with lzma.open(folder / f"{split}.jsonl.xz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return root


def downloaded(root: Path, split: str = "valid_seen") -> Path:
    for task, trial, kind, goal in GAMES:
        folder = root / "json_2.1.1" / split / task / trial
        folder.mkdir(parents=True)
        game = {
            "pddl_domain": "(domain)",
            "grammar": GRAMMAR.replace("@@TASK@@", f"Your task is to: {goal}"),
            "pddl_problem": f"(problem {trial})",
            "walkthrough": ["look"],
            "solvable": True,
        }
        (folder / "game.tw-pddl").write_text(json.dumps(game))
        (folder / "traj_data.json").write_text(json.dumps({"task_type": kind}))
    return root


def test_without_any_data_the_package_generates(home):
    assert data.find("alfworld") == ("alfworld", "generated", "package", None)
    rows = {row["split"]: row for row in data.report() if row["benchmark"] == "alfworld"}
    assert not rows["valid_seen"]["found"]
    assert "JITMEM_DATA" in rows["valid_seen"]["note"]
    assert rows["generated_test"]["found"]
    assert rows["generated_test"]["games"] == 60


def test_jitmem_data_comes_first_then_the_cache_then_the_download(home, monkeypatch):
    downloaded(home / "home" / ".cache" / "alfworld")
    assert data.find("alfworld").origin == "alfworld-download"
    packed(data.cache_dir() / "data")
    assert data.find("alfworld").origin == "cache"
    monkeypatch.setenv("JITMEM_DATA", str(packed(home / "given")))
    assert data.find("alfworld") == ("alfworld", "packed", "JITMEM_DATA", home / "given" / "alfworld")


def test_alfworld_data_variable_is_followed(home, monkeypatch):
    monkeypatch.setenv("ALFWORLD_DATA", str(downloaded(home / "elsewhere")))
    assert data.find("alfworld").path == home / "elsewhere"


@pytest.mark.parametrize("where", ["missing", "empty", "file"])
def test_jitmem_data_that_leads_nowhere_is_refused(home, monkeypatch, where):
    (home / "empty").mkdir()
    (home / "file").write_text("")
    monkeypatch.setenv("JITMEM_DATA", str(home / where))
    with pytest.raises(UserError, match="JITMEM_DATA"):
        data.find("alfworld")
    row = next(row for row in data.report() if row["split"] == "valid_seen")
    assert not row["found"]
    assert "JITMEM_DATA" in row["note"]


def test_unknown_benchmark_is_refused():
    with pytest.raises(UserError, match="known are alfworld"):
        data.find("alfword")


def test_report_counts_the_games_found(home, monkeypatch):
    monkeypatch.setenv("JITMEM_DATA", str(packed(home / "given")))
    rows = {row["split"]: row for row in data.report() if row["benchmark"] == "alfworld"}
    assert (rows["valid_seen"]["found"], rows["valid_seen"]["games"]) == (True, 2)
    assert (rows["train"]["found"], rows["train"]["games"]) == (False, None)
    assert rows["train"]["note"]


def test_both_layouts_give_the_same_games(home, monkeypatch):
    monkeypatch.setenv("JITMEM_DATA", str(packed(home / "given")))
    ours = list(read_games(data.find("alfworld"), "valid_seen"))
    monkeypatch.delenv("JITMEM_DATA")
    monkeypatch.setenv("ALFWORLD_DATA", str(downloaded(home / "official")))
    theirs = list(read_games(data.find("alfworld"), "valid_seen"))
    assert ours == theirs
    assert ours[0].goal == "look at book."
    assert ours[0].game_id == "look_at_obj_in_light-Book-None-DeskLamp-1/trial_B"


def test_store_is_built_once_and_rebuilt_when_the_data_change(home, monkeypatch):
    root = packed(home / "given")
    monkeypatch.setenv("JITMEM_DATA", str(root))
    source = data.find("alfworld")
    first = real_store(source, "valid_seen")
    game = first.game("pick_and_place_simple-Mug-None-Desk-2/trial_A")
    assert game == list(read_games(source, "valid_seen"))[1]
    files = list((data.cache_dir() / "alfworld").iterdir())
    assert len(files) == 1
    real_store(source, "valid_seen")
    assert list((data.cache_dir() / "alfworld").iterdir()) == files
    (root / "alfworld" / "alfred.domain.pddl").write_text("(other domain)")
    second = real_store(source, "valid_seen")
    assert second.content_hash != first.content_hash
    assert len(list((data.cache_dir() / "alfworld").iterdir())) == 2


def test_a_torn_cache_file_is_built_anew(home, monkeypatch):
    monkeypatch.setenv("JITMEM_DATA", str(packed(home / "given")))
    source = data.find("alfworld")
    real_store(source, "valid_seen").close()
    (path,) = (data.cache_dir() / "alfworld").iterdir()
    path.write_bytes(path.read_bytes()[:300])
    assert len(real_store(source, "valid_seen").entries) == 2


def test_a_cache_that_cannot_be_written_is_done_without(home, monkeypatch):
    monkeypatch.setenv("JITMEM_DATA", str(packed(home / "given")))
    (home / "home").mkdir()
    (home / "home" / ".cache").write_text("not a folder")
    store = Store("x", read_games(data.find("alfworld"), "valid_seen"))
    assert [entry.goal for entry in store.entries] == ["look at book.", "put a mug in desk."]


def test_damaged_data_are_named(home, monkeypatch):
    root = packed(home / "given")
    path = root / "alfworld" / "valid_seen.jsonl.xz"
    path.write_bytes(path.read_bytes()[:-20])
    monkeypatch.setenv("JITMEM_DATA", str(root))
    with pytest.raises(UserError, match=r"valid_seen\.jsonl\.xz can't be read"):
        real_store(data.find("alfworld"), "valid_seen")
    assert not list((data.cache_dir() / "alfworld").glob("*"))
