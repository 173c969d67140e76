"""transformers in process: batches, seeds, stop texts, failures of the worker; on a tiny random model."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.models.rendering import clean_text, render, separator
from jitmem_lab.records import Message, Sampling

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.unit

USER = Message(role="user", content="hello there")
BEGUN = Message(role="assistant", content="I think")
TEMPLATE = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% if enable_thinking is defined %}[{{ enable_thinking }}]"
    "{% endif %}{% endif %}"
)


def write_model(folder: Path, template: str | None = TEMPLATE) -> Path:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {symbol: at for at, symbol in enumerate(["</s>", *alphabet])}
    core = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=core, eos_token="</s>")
    tokenizer.chat_template = template
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(vocab),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=200,
        initializer_range=0.6,
        eos_token_id=0,
        bos_token_id=None,
    )
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "tiny")


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    from jitmem_lab.models import load_model

    loaded = load_model(f"hf:{folder}", dtype="float32", device="cpu")
    yield loaded
    loaded.close()


def test_a_prompt_is_rendered_by_what_its_messages_are(model: Any) -> None:
    tokenizer = model.tokenizer
    assert render(tokenizer, [USER]) == "<user>hello there</s><assistant>"
    assert render(tokenizer, [USER, BEGUN]) == "<user>hello there</s><assistant>I think"
    assert render(tokenizer, [BEGUN]) == "I think"
    assert render(tokenizer, [USER], thinking=False) == "<user>hello there</s><assistant>[False]"
    with pytest.raises(UserError):
        render(tokenizer, [])
    assert clean_text("a\ud83d\x00b") == "a�\x00b"
    assert (separator("x."), separator("x\n"), separator("")) == (" ", "", "")


def test_a_tokenizer_without_template_gets_a_plain_one(tmp_path: Path) -> None:
    tokenizer = transformers.AutoTokenizer.from_pretrained(write_model(tmp_path / "m", template=None))
    assert render(tokenizer, [USER]) == "User: hello there\n\nAssistant:"
    assert render(tokenizer, [USER, BEGUN]) == "User: hello there\n\nAssistant: I think"


def test_a_template_that_refuses_is_told(model: Any) -> None:
    class Refusing:
        chat_template = "x"

        def apply_chat_template(self, *_: Any, **__: Any) -> str:
            raise ValueError("no system role")

    with pytest.raises(UserError, match="no system role"):
        render(Refusing(), [Message(role="system", content="s"), USER])


def test_a_sampled_answer_depends_on_its_own_seed_and_not_on_its_batch(model: Any) -> None:
    from jitmem_lab.models.decoding import Row, generate

    def row(seed: int, prompt: str = "hello", sample: int = 0) -> Row:
        sampling = Sampling(temperature=1.0, top_k=40, top_p=0.95, max_tokens=12, seed=seed)
        return Row(model.tokenizer(prompt)["input_ids"], sampling, sample)

    alone = row(1)
    generate(model.model, model.tokenizer, [alone], frozenset({0}))
    batch = [row(2, "a much longer prompt"), row(1), row(3, "x"), row(1, sample=1), row(1)]
    generate(model.model, model.tokenizer, batch, frozenset({0}))
    assert alone.tokens == batch[1].tokens == batch[4].tokens
    assert batch[3].tokens != alone.tokens
    assert all(r.finish for r in batch)


def test_answers_end_at_the_limit_the_end_token_or_a_stop_text(model: Any) -> None:
    from jitmem_lab.models.decoding import Row, generate

    long = model.chat([USER], Sampling(max_tokens=20))
    assert (long.finish, long.usage.completion_tokens, long.usage.calls) == ("length", 20, 1)
    assert long.usage.prompt_tokens == len(render(model.tokenizer, [USER])) - len("</s>") + 1
    assert model.chat([USER], Sampling(max_tokens=20)).text == long.text
    row = Row(model.tokenizer("hi")["input_ids"], Sampling(max_tokens=30))
    generate(model.model, model.tokenizer, [row], frozenset())
    free = row.tokens
    row = Row(model.tokenizer("hi")["input_ids"], Sampling(max_tokens=30))
    generate(model.model, model.tokenizer, [row], frozenset({free[5]}))
    assert row.finish == "stop"
    assert len(row.tokens) == free.index(free[5]) + 1
    stop = next(char for char in long.text if char.isascii())
    cut = model.chat([USER], Sampling(max_tokens=20, stop=(stop,)))
    assert cut.finish == "stop"
    assert cut.text == long.text[: long.text.index(stop)]


def test_concurrent_calls_get_their_own_answers(model: Any) -> None:
    words = [f"word {n}" for n in range(12)]
    want_text = {w: model.chat([Message(role="user", content=w)], Sampling(max_tokens=6)).text for w in words}
    options = ["go to a 1", "go to a 2", "look"]
    want = {w: model.choose([Message(role="assistant", content=w)], options).scores for w in words}
    got_text: dict[str, str] = {}
    got: dict[str, Any] = {}

    def ask(word: str) -> None:
        got[word] = model.choose([Message(role="assistant", content=word)], options).scores
        got_text[word] = model.chat([Message(role="user", content=word)], Sampling(max_tokens=6)).text

    threads = [threading.Thread(target=ask, args=(word,)) for word in words]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert got_text == want_text
    for word in words:
        assert got[word] == pytest.approx(want[word], abs=1e-4)


def test_choices_equal_the_plain_way_and_count_their_tokens(model: Any, folder: Path) -> None:
    from jitmem_lab.models import load_model

    plain = load_model(f"hf:{folder}", dtype="float32", device="cpu", fast=False)
    for prompt in ([Message(role="assistant", content="1. go\n2.")], [USER, BEGUN], [USER]):
        options = ["go to desk 1", "go to desk 12", "take a", "go to desk 1", "\ud83d odd"]
        quick, full = model.choose(prompt, options), plain.choose(prompt, options)
        assert quick.scores == pytest.approx(full.scores, abs=1e-4)
        assert quick.index == full.index
        assert quick.scores[0] == quick.scores[3]
        assert quick.usage.completion_tokens >= sum(map(len, options))
    plain.close()


def test_what_does_not_fit_is_refused_with_its_lengths(model: Any) -> None:
    with pytest.raises(InfrastructureError, match=r"190.*200"):
        model.chat([Message(role="assistant", content="x" * 30)], Sampling(max_tokens=190))
    with pytest.raises(InfrastructureError, match="200"):
        model.choose([Message(role="assistant", content="x" * 199)], ["ab"])
    with pytest.raises(UserError):
        model.chat([USER], Sampling(max_tokens=0))
    for options in ([], [""], ["a", ""]):
        with pytest.raises(UserError, match="option"):
            model.choose([USER], options)
    with pytest.raises(UserError, match="empty"):
        model.chat([Message(role="assistant", content="")], Sampling())
    with pytest.raises(UserError, match='act="write"'):
        model.chat([USER], Sampling(), 0, [{"type": "function", "function": {"name": "look"}}])


def test_a_failure_in_the_worker_reaches_every_caller(folder: Path) -> None:
    from jitmem_lab.models import load_model

    model: Any = load_model(f"hf:{folder}", dtype="float32", device="cpu")

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("out of memory, say")

    whole, model.model = model.model, broken
    model.model.device = "cpu"  # type: ignore[attr-defined]
    caught: list[str] = []

    def ask() -> None:
        try:
            model.chat([USER], Sampling(max_tokens=3))
        except InfrastructureError as error:
            caught.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(caught) == 5
    assert all("out of memory, say" in words for words in caught)
    model.model = whole
    assert model.chat([USER], Sampling(max_tokens=3)).usage.calls == 1
    model.close()
    model.close()
    with pytest.raises(InfrastructureError, match="closed"):
        model.chat([USER], Sampling(max_tokens=3))
    assert not model._worker.is_alive()


def test_a_caller_does_not_wait_for_ever(folder: Path) -> None:
    from jitmem_lab.models import load_model

    slow: Any = load_model(f"hf:{folder}", dtype="float32", device="cpu", patience=0.2)
    gate = threading.Event()
    slow._attempt = lambda asks: gate.wait(30)
    with pytest.raises(InfrastructureError, match="no answer"):
        slow.chat([USER], Sampling(max_tokens=3))
    gate.set()
    slow.close()


def test_a_model_that_is_not_there_is_told(tmp_path: Path) -> None:
    from jitmem_lab.models import load_model

    with pytest.raises(UserError, match="cannot load"):
        load_model(f"hf:{tmp_path / 'none'}")
    with pytest.raises(UserError, match="threads"):
        load_model(f"hf:{tmp_path}", threads=-1)
    with pytest.raises(UserError, match="dtype"):
        load_model(f"hf:{tmp_path}", dtype="float99")


def test_the_identity_follows_the_weights(folder: Path, model: Any, tmp_path: Path) -> None:
    from jitmem_lab.models import load_model

    same = load_model(f"hf:{folder}", dtype="float32", device="cpu")
    assert same.identity() == model.identity()
    same.close()
    other = write_model(tmp_path / "tiny")
    config = other / "generation_config.json"
    config.write_text(config.read_text().replace("{", '{"temperature": 0.5,', 1))
    changed = load_model(f"hf:{other}", dtype="float32", device="cpu")
    assert changed.identity() != model.identity()
    changed.close()
