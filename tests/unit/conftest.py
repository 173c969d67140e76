"""What several tests of training share: a tiny curator and an executor behind a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.panels import follow
from tests.unit.stub_server import StubServer, stub_server, thinking
from tests.unit.tiny_models import tiny_model


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model that can be trained, in a folder."""
    return tiny_model(tmp_path_factory.mktemp("tiny") / "curator")


@pytest.fixture(scope="module")
def server() -> Iterator[StubServer]:
    """Plays the world of panels by the advice that it is given."""
    with stub_server(thinking(follow)) as made:
        yield made
