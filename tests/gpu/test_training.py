"""Training on a GPU in bfloat16 beside the same on the CPU in float32: seconds by part, and what is learnt.

One script for a machine with a GPU and no network: `pytest -rP tests/gpu`. It needs torch, transformers, trl
and this checkout; the model is made on the spot and the world is the tests' own.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jitmem_lab.training import TrainRun, train
from tests.unit.panels import follow
from tests.unit.stub_server import StubServer, stub_server, thinking
from tests.unit.tiny_models import tiny_model
from tests.unit.training import small_config

pytestmark = pytest.mark.gpu
torch = pytest.importorskip("torch")
pytest.importorskip("trl")
if not torch.cuda.is_available():
    pytest.skip("there is no GPU here", allow_module_level=True)

STEPS = 40


@pytest.fixture(scope="module")
def server() -> Iterator[StubServer]:
    with stub_server(thinking(follow)) as made:
        yield made


def trained(server: StubServer, folder: Path, dtype: str, device: str) -> TrainRun:
    curator = tiny_model(folder / "curator", width=128, layers=4)
    config = small_config(
        server.url,
        curator,
        steps=STEPS,
        prompts=8,
        group=8,
        micro_batch=64,
        learning_rate=3e-3,
        dtype=dtype,
        save_every=20,
        concurrency=16,
    )
    with pytest.MonkeyPatch.context() as patch:
        if device == "cpu":
            patch.setattr(torch.cuda, "is_available", lambda: False)
        return train(config, folder / "run", progress=False)


def test_a_gpu_in_bfloat16_learns_what_the_cpu_learns(server: StubServer, tmp_path: Path) -> None:
    gpu = trained(server, tmp_path / "gpu", "bfloat16", "cuda")
    cpu = trained(server, tmp_path / "cpu", "float32", "cpu")
    last = {}
    for name, run in (("gpu", gpu), ("cpu", cpu)):
        frame = run.metrics()
        parts = frame[["seconds_generate", "seconds_play", "seconds_update"]].median().round(3).to_dict()
        last[name] = frame["reward"].tail(10).mean()
        print(f"{name}: {parts}, reward of the last 10 steps {last[name]:.3f}")
        assert frame["gradient_norm"].notna().all()
        assert last[name] > frame["reward"].head(10).mean() + 0.05
    noise = (
        2 * (0.25 / (10 * 64)) ** 0.5 + 0.15
    )  # of two shares of 640 episodes, and of two different policies
    assert abs(last["gpu"] - last["cpu"]) < noise
