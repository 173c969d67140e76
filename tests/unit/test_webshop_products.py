"""Products from WebShop's raw files, and what is said of files that are torn or foreign."""

from __future__ import annotations

import gzip
import json
import lzma

import pytest

from jitmem_lab.benchmarks.webshop.files import find_sets
from jitmem_lab.benchmarks.webshop.products import from_loaded, from_raw
from jitmem_lab.benchmarks.webshop.reading import read_products, read_records
from jitmem_lab.errors import UserError

from .webshop_goods import ATTRIBUTES, RAW, products, raw, write_raw

pytestmark = pytest.mark.unit


def test_a_raw_product_becomes_what_the_original_makes_of_it():
    socks, cotton, table = products()
    assert socks.query == "socks"
    assert socks.options == {"color": ["red | blue", "green"], "size": ["small", "large"]}
    assert (socks.pricing, socks.price_text) == ((7.99, 14.99), "$7.99 to $14.99")
    assert socks.attributes == ("machine wash", "hand made")
    assert socks.text() == (
        "woollen socks & stockings knitted <by hand>. soft to the touch  color: red | blue, green, and "
        "size: small, large"
    )
    assert cotton.bullets == ("One line only",)
    assert (cotton.pricing, cotton.price_text, cotton.attributes) == ((100.0,), "$100.0", ("DUMMY_ATTR",))
    assert table.instruction is None
    assert len(table.instructions) == 2


def test_ids_that_are_none_and_repeated_ones_are_left_out():
    assert [product.asin for product in products()] == ["A000000001", "A000000002", "A000000003"]
    assert products()[0].name == "Woollen Socks & Stockings"


def test_a_price_within_a_range_is_fixed_by_its_seed():
    socks, cotton, table = products()
    assert 7.99 <= socks.price(0) <= 14.99
    assert socks.price(0) == products()[0].price(0) != socks.price(1)
    assert (cotton.price(0), table.price(3)) == (100.0, 12.5)


@pytest.mark.parametrize(
    ("text", "pricing", "shown"),
    [
        ("$1,234.50", (1234.5,), "$1234.5"),
        ("$5$6$7", (5.0, 6.0), "$5.0 to $6.0"),
        ("", (100.0,), "$100.0"),
        ("$9.99 - $19.99", (9.99, 19.99), "$9.99 to $19.99"),
    ],
)
def test_prices(text, pricing, shown):
    product = from_raw(raw("A1", "x", pricing=text))
    assert (product.pricing, product.price_text) == (pricing, shown)


@pytest.mark.parametrize(
    "change",
    [
        {"name": None},
        {"pricing": "12.50"},
        {"pricing": "$abc"},
        {"customization_options": ["red"]},
        {"small_description": [1]},
    ],
)
def test_a_foreign_record_is_named(change):
    with pytest.raises(UserError, match="'A1' is not in WebShop's form"):
        from_raw(raw("A1", "x", **change))
    with pytest.raises(UserError, match="A1"):
        from_loaded(raw("A1", "x"))


@pytest.mark.parametrize("opener", [None, gzip.open, lzma.open])
def test_the_same_products_from_an_array_and_from_lines_packed_or_not(tmp_path, opener):
    folder = write_raw(tmp_path / "array")
    lines = tmp_path / "lines"
    lines.mkdir()
    (lines / "items_ins_v2.json").write_text((folder / "items_ins_v2.json").read_text())
    (lines / "items_human_ins.json").write_text((folder / "items_human_ins.json").read_text())
    ending = {None: "", gzip.open: ".gz", lzma.open: ".xz"}[opener]
    with (opener or open)(lines / f"items_shuffle.json{ending}", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in RAW)
    for place in (folder, lines):
        assert list(read_products(find_sets(place)["full"])) == products()


def test_records_after_the_loading_step_are_read_as_they_are(tmp_path):
    loaded = {
        "asin": "A1", "name": "x", "Title": "x", "query": "q", "category": "c", "product_category": "p",
        "Description": "d", "BulletPoints": ["b"], "Attributes": ["a"], "options": {"color": ["red"]},
        "pricing": [1.0], "Price": "$1.0",
    }  # fmt: skip
    (tmp_path / "products_1k.jsonl").write_text(json.dumps({"id": "A1", "product": loaded}) + "\n")
    (tmp_path / "items_ins_v2_1000.json").write_text(json.dumps({"A1": ATTRIBUTES["A000000001"]}))
    (product,) = read_products(find_sets(tmp_path)["small"])
    assert product.instruction == "Find me machine wash socks"
    assert product.attributes == ("machine wash", "hand made")
    assert product.options == {"color": ["red"]}


@pytest.mark.parametrize(
    "text", ['[{"asin": "A1"}, {"as', '{"asin": "A1"}\n{"as', "[1, 2", '"[', "\x00", "["]
)
def test_a_torn_file_says_so(tmp_path, text):
    path = tmp_path / "items_shuffle.json"
    path.write_text(text)
    with pytest.raises(UserError, match=r"items_shuffle\.json cannot be read.*download it again"):
        list(read_records(path))


def test_torn_packed_files_say_so(tmp_path):
    path = write_raw(tmp_path) / "items_shuffle.json"
    for ending, pack in ((".gz", gzip.compress), (".xz", lzma.compress)):
        packed = path.with_name(path.name + ending)
        packed.write_bytes(pack(path.read_bytes())[:-20])
        with pytest.raises(UserError, match="download it again"):
            list(read_records(packed))


@pytest.mark.parametrize("text", ["[1]", '["x"]', "[[]]", "null"])
def test_a_file_of_other_things_says_so(tmp_path, text):
    folder = write_raw(tmp_path)
    (folder / "items_shuffle.json").write_text(text)
    with pytest.raises(UserError, match="is no product"):
        list(read_products(find_sets(folder)["full"]))
    (folder / "items_ins_v2.json").write_text("[]")
    with pytest.raises(UserError, match="should hold a JSON object"):
        list(read_products(find_sets(folder)["full"]))
