"""pip users, conda users and `make setup` get the same set of packages."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def environment() -> dict:
    return yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))


def pip_part(environment: dict) -> list[str]:
    (part,) = (entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict))
    return part


def requirements(extras: list[str]) -> dict[str, SpecifierSet]:
    lines = [
        *PROJECT["dependencies"],
        *(line for extra in extras for line in PROJECT["optional-dependencies"][extra]),
    ]
    return {Requirement(line).name.lower(): Requirement(line).specifier for line in lines}


def test_environment_file_and_make_install_the_same_extras(environment: dict) -> None:
    make = re.search(r"^EXTRAS := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M)
    assert make
    own = [re.fullmatch(r"-e \.\[(.*)\]", line) for line in pip_part(environment)]
    (extras,) = (found[1].split(",") for found in own if found)
    assert sorted(extras) == sorted(make[1].strip().split(","))
    assert set(extras) <= set(PROJECT["optional-dependencies"])


def test_what_conda_installs_itself_fits_the_project(environment: dict) -> None:
    entries = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    names = {re.split(r"[=<> ]", entry)[0]: entry for entry in entries}
    assert {"python", "pip"} <= set(names)
    version = re.fullmatch(r"python=+(\d+\.\d+)", names["python"])
    assert version
    assert f"{version[1]}.1" in SpecifierSet(PROJECT["requires-python"])
    asked = requirements(list(PROJECT["optional-dependencies"]))
    extra = [line for line in pip_part(environment) if not line.startswith("-e ")]
    for name, entry in names.items():
        if name not in ("python", "pip"):
            extra.append(re.sub(r"(?<![=<>~!])=(?!=)", "==", entry))
    for line in extra:
        wanted = Requirement(line)
        assert wanted.name.lower() in asked, f"{line} is in environment.yml only"
        assert wanted.specifier == asked[wanted.name.lower()], f"{line} differs from pyproject.toml"


def test_no_package_is_asked_for_twice_with_different_versions() -> None:
    seen: dict[str, str] = {}
    for lines in (PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()):
        for line in lines:
            wanted = Requirement(line)
            spec = str(wanted.specifier)
            assert seen.setdefault(wanted.name.lower(), spec) == spec, f"{wanted.name} is asked for twice"
