"""A few invented products in WebShop's raw form, and what its other files say of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jitmem_lab.benchmarks.webshop.products import Product, admitted, from_raw


def raw(asin: str, name: str, /, **changes: Any) -> dict[str, Any]:
    record = {
        "asin": asin,
        "name": name,
        "full_description": "",
        "small_description": ["Soft to the touch ", "Machine wash cold "],
        "pricing": "$12.50",
        "customization_options": "",
        "images": ["https://example.org/a.jpg"],
        "category": "fashion",
        "query": " Socks ",
        "product_category": "Clothing › Women › Socks",
        "brand": "Invented",
    }
    return record | changes


RAW = [
    raw(
        "A000000001",
        "Woollen Socks & Stockings",
        customization_options={
            "Color": [{"value": " Red/Blue ", "image": None}, {"value": "GREEN", "image": "x"}],
            "Size": [{"value": "Small"}, {"value": "Large"}],
            "Style": None,
        },
        pricing="$7.99$14.99",
        full_description="Knitted <by hand>.",
    ),
    raw("A000000002", "Cotton Socks", small_description="One line only", pricing=None),
    raw("A000000003", "Garden Table", category="garden", query="tables", product_category="Garden › Tables"),
    raw("A000000001", "The same id again"),
    raw("nan", "No id"),
    raw("A0000000000", "Too long an id"),
]
ATTRIBUTES = {
    "A000000001": {
        "attributes": ["machine wash", "hand made"],
        "instruction": "Find me machine wash socks",
        "instruction_attributes": ["machine wash"],
    },
    "A000000003": {"attributes": ["solid wood"]},
}
HUMAN = {
    "A000000003": [
        {
            "instruction": "i want a table.",
            "instruction_attributes": ["solid wood"],
            "instruction_options": [],
        },
        {"instruction": "any table", "instruction_attributes": [], "instruction_options": []},
    ]
}


def products() -> list[Product]:
    """The products that the loading step keeps."""
    made = (from_raw(each, ATTRIBUTES.get(each["asin"]), HUMAN.get(each["asin"], ())) for each in RAW)
    return list(admitted(made))


def write_raw(folder: Path, human: bool = True, name: str = "items_shuffle.json") -> Path:
    """WebShop's raw files in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(json.dumps(RAW), encoding="utf-8")
    (folder / name.replace("shuffle", "ins_v2")).write_text(json.dumps(ATTRIBUTES), encoding="utf-8")
    if human:
        (folder / "items_human_ins.json").write_text(json.dumps(HUMAN), encoding="utf-8")
    return folder
