"""Embedders and exact cosine search."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from jitmem_lab.embedding import DenseIndex, ServedEmbedder, load_embedder, unit
from jitmem_lab.errors import InfrastructureError, UserError

pytestmark = pytest.mark.unit


def rows(*values: list[float]) -> Any:
    return unit(np.asarray(values, dtype=np.float32))


def test_the_ranking_is_that_of_a_plain_sort_at_any_size() -> None:
    rng = np.random.default_rng(0)
    vectors = unit(rng.normal(size=(300, 8)).astype(np.float32))
    vectors[200:] = vectors[:100]  # ties
    index = DenseIndex()
    for start in range(0, 300, 7):
        index.extend(vectors[start : start + 7])
    for size in (1, 2, 150, 250, 300):
        query = unit(rng.normal(size=(1, 8)).astype(np.float32))
        scores = np.round(vectors[:size] @ query[0], 6)
        expected = sorted(range(size), key=lambda i: (-scores[i], -i))[:5]
        assert [hit.id for hit in index.rank(query, 5, size)] == [i + 1 for i in expected]


def test_an_empty_index_finds_nothing() -> None:
    index = DenseIndex()
    assert index.rank(rows([1.0, 0.0]), 3) == []
    index.extend(rows([1.0, 0.0]))
    assert index.rank(rows([1.0, 0.0]), 3, size=0) == []
    assert [hit.id for hit in index.rank(rows([1.0, 0.0]), 3)] == [1]


def test_vectors_of_another_width_are_refused() -> None:
    index = DenseIndex()
    index.extend(rows([1.0, 0.0]))
    with pytest.raises(InfrastructureError, match="3 numbers, but 2 before"):
        index.extend(rows([1.0, 0.0, 0.0]))
    with pytest.raises(InfrastructureError, match="3 numbers, but 2 before"):
        index.rank(rows([1.0, 0.0, 0.0]), 1)


def test_an_unknown_embedder_is_refused() -> None:
    with pytest.raises(UserError, match="wordllama"):
        load_embedder("minilm")


def test_the_embedded_model_knows_what_is_alike() -> None:
    pytest.importorskip("wordllama", reason="the dense extra is not installed")
    model = load_embedder("wordllama")
    texts = ["heat an egg and put it in the bin", "put a hot egg in the garbage can", "buy blue men's shorts"]
    vectors = model.embed(texts).vectors
    assert vectors.shape == (3, 256)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    alike = vectors @ vectors.T
    assert alike[0, 1] > 0.5 > alike[0, 2]
    again = model.embed(list(reversed(texts))).vectors
    assert np.array_equal(again[::-1], vectors), "a vector does not depend on its neighbours"
    odd = model.embed(["", "\ud83d", "x" * 50_000, "café 土豆"])
    assert np.isfinite(odd.vectors).all()
    assert not odd.vectors[0].any()


class _Handler(BaseHTTPRequestHandler):
    plan: list[int | str]

    def do_POST(self) -> None:
        texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
        step = type(self).plan.pop(0) if type(self).plan else "ok"
        body: dict[str, Any] = {"error": {"message": "no"}}
        if isinstance(step, str):
            data = [{"index": i, "embedding": [float(len(t)), 1.0]} for i, t in enumerate(texts)]
            data = data[:-1] if step == "short" else list(reversed(data))
            body = {"data": None if step == "null" else data, "model": "m", "usage": {"prompt_tokens": 7}}
        raw = json.dumps(body).encode()
        self.send_response(step if isinstance(step, int) else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.send_header("Retry-After", "0")
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, type[_Handler]]]:
    handler = type("Handler", (_Handler,), {"plan": []})
    web = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{web.server_port}/v1#m", handler
    web.shutdown()
    web.server_close()


@pytest.mark.parametrize("faults", [[], [429], [500, "short"], ["null"]])
def test_an_endpoint_that_recovers_gives_vectors_in_order(server: Any, faults: list[Any]) -> None:
    name, handler = server
    handler.plan = list(faults)
    model = load_embedder(f"openai:{name}")
    given = model.embed(["a", "abcd"])
    assert np.allclose(given.vectors, unit(np.asarray([[1, 1], [4, 1]], np.float32)))
    assert given.usage.calls == 1
    assert given.usage.prompt_tokens == 7
    model.close()


def test_an_endpoint_that_stays_down_is_an_infrastructure_error(server: Any) -> None:
    name, handler = server
    handler.plan = [500] * 9
    model = ServedEmbedder(name, retries=1)
    with pytest.raises(InfrastructureError, match="500"):
        model.embed(["a"])
    handler.plan = [401]
    with pytest.raises(UserError, match="401"):
        model.embed(["a"])
