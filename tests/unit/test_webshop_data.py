"""Where WebShop's data is looked for, and what is said where there is none."""

from __future__ import annotations

import pytest

from jitmem_lab import data
from jitmem_lab.benchmarks.webshop.catalogue import locate
from jitmem_lab.errors import UserError

from .webshop_goods import write_raw

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JITMEM_DATA", raising=False)
    return tmp_path


def rows() -> dict[str, dict]:
    return {row["split"]: row for row in data.report() if row["benchmark"] == "webshop"}


def test_without_any_data_the_package_generates():
    assert data.find("webshop") == ("webshop", "generated", "package", None)
    assert rows()["generated_test"]["found"]
    assert rows()["generated_train"]["games"] == 300
    assert not rows()["small_test"]["found"]
    assert "items_shuffle.json" in rows()["full_test"]["note"]
    with pytest.raises(UserError, match=r"small products were not found.*without data use generated_train"):
        locate("small")
    assert locate("generated") == ("generated", "")


def test_the_named_folder_comes_before_the_cache(home, monkeypatch):
    write_raw(data.cache_dir() / "data" / "webshop")
    assert data.find("webshop")[1:3] == ("download", "cache")
    assert rows()["full_train"]["found"]
    assert not rows()["small_train"]["found"]
    write_raw(home / "named" / "webshop", name="items_shuffle_1000.json")
    monkeypatch.setenv("JITMEM_DATA", str(home / "named"))
    assert data.find("webshop").origin == "JITMEM_DATA"
    assert rows()["small_train"]["path"] == str(home / "named" / "webshop")
    assert locate("small") == ("small", str(home / "named" / "webshop"))
    with pytest.raises(UserError, match="full products were not found in"):
        locate("full")
    (home / "named" / "webshop" / "products_1k.jsonl.xz").write_bytes(b"")
    assert data.find("webshop").kind == "packed"


def test_a_named_folder_without_webshop_is_refused(home, monkeypatch):
    (home / "webshop").mkdir()
    monkeypatch.setenv("JITMEM_DATA", str(home))
    with pytest.raises(UserError, match="holds no webshop data"):
        data.find("webshop")
    assert "holds no webshop data" in rows()["small_test"]["note"]
    assert rows()["generated_test"]["found"]
