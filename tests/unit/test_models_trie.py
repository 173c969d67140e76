"""Ranking by a tree of options and reused prefixes, on a tiny random Llama against the plain computation."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitmem_lab.models.prefixes import PrefixCache, common_length
from jitmem_lab.models.trie import Trie

pytestmark = pytest.mark.unit

options_of_tokens = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5), min_size=1, max_size=8)


@given(options_of_tokens)
def test_a_trie_sums_what_each_option_would(options: list[list[int]]) -> None:
    trie = Trie.build(options)
    prefixes = {tuple(option[:n]) for option in options for n in range(1, len(option))}
    assert len(trie.tokens) == len(prefixes)

    def spelled(node: int) -> tuple[int, ...]:
        return tuple(trie.tokens[n] for n in trie.ancestors()[node])

    assert {spelled(node) for node in range(len(trie.tokens))} == prefixes
    assert [len(spelled(node)) for node in range(len(trie.tokens))] == trie.depths
    value = {
        edge: -float(hash(((spelled(edge[0] - 1) if edge[0] else ()), edge[1])) % 97) for edge in trie.edges
    }
    means = trie.means([value[edge] for edge in trie.edges])
    for at, (option, mean) in enumerate(zip(options, means, strict=True)):
        wanted = [-float(hash((tuple(option[:n]), token)) % 97) for n, token in enumerate(option)]
        assert mean == pytest.approx(sum(wanted) / len(option))
        assert [trie.tokens[node] for node in trie.interior(at)] == option[:-1]


@given(st.lists(st.integers(0, 2)), st.lists(st.integers(0, 2)))
def test_common_length_is_that_of_the_common_beginning(left: list[int], right: list[int]) -> None:
    wanted = 0
    while wanted < min(len(left), len(right)) and left[wanted] == right[wanted]:
        wanted += 1
    assert common_length(left, right) == wanted


def test_prefixes_are_extended_copied_and_dropped() -> None:
    pytest.importorskip("torch")
    cache = PrefixCache(1, 1, 2, "cpu", budget=600)
    entry = cache.take(list(range(100)))
    assert entry.tokens == []
    entry.reserve(100)
    entry.keys[:] = 7
    entry.tokens = list(range(100))
    cache.give(entry)
    copy = cache.take([*range(30), 500])
    assert copy is not entry
    assert copy.tokens == list(range(30))
    assert float(copy.keys[0, 0, 29, 0]) == 7
    whole = cache.take(list(range(100)))
    assert whole is entry
    assert len(whole.tokens) == 99  # the last token's logits are always needed
    for start in (1000, 2000, 3000):
        fresh = cache.take(list(range(start, start + 9)))
        fresh.reserve(9)
        fresh.tokens = list(range(start, start + 9))
        cache.give(fresh)
    assert cache.take(list(range(1000, 1020))).tokens == []


@settings(deadline=None)  # the first one loads torch
@given(st.lists(st.lists(st.integers(0, 2), max_size=6), max_size=12))
def test_the_longest_known_beginning_is_found(prompts: list[list[int]]) -> None:
    pytest.importorskip("torch")
    cache = PrefixCache(1, 1, 2, "cpu", budget=10**6)
    for prompt in prompts:
        known = [entry.tokens[:] for entry in cache._entries]
        wanted = max((common_length(tokens, prompt) for tokens in known), default=0)
        found = cache.take(prompt)
        assert found.tokens == prompt[: max(0, min(wanted, len(prompt) - 1))]
        found.reserve(len(prompt))
        found.tokens = prompt
        cache.give(found)
        assert cache._room == sum(entry.capacity for entry in cache._entries)


@pytest.fixture(scope="module")
def tiny() -> Any:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=256,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
    )
    model = transformers.LlamaForCausalLM(config).eval()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def test_ranking_equals_the_plain_computation_whatever_came_before(tiny: Any) -> None:
    from jitmem_lab.models.llama import LlamaRanker, Ranking, supports
    from jitmem_lab.models.scoring import score_plain

    assert supports(tiny)
    ranker, rng = LlamaRanker(tiny), random.Random(1)
    episodes = [[rng.randrange(50) for _ in range(rng.randint(1, 20))] for _ in range(4)]
    for _ in range(12):
        requests = []
        for number in rng.sample(range(4), rng.randint(1, 4)):
            options = [[rng.randrange(4) for _ in range(rng.randint(1, 5))] for _ in range(rng.randint(1, 9))]
            requests.append(Ranking(list(episodes[number]), options))
            kind = rng.random()
            if kind < 0.7:  # the episode goes on with one of its options
                episodes[number] += [*rng.choice(options), rng.randrange(50)]
            elif kind < 0.9:  # its window moves
                episodes[number] = [*episodes[number][: rng.randint(1, len(episodes[number]))], 7, 8]
        for request, means in zip(requests, ranker.rank(requests), strict=True):
            assert means == pytest.approx(score_plain(tiny, request.prompt, request.options), abs=1e-4)
            naive = [_one_by_one(tiny, request.prompt, option) for option in request.options]
            assert means == pytest.approx(naive, abs=1e-4)


def _one_by_one(model: Any, prompt: list[int], option: list[int]) -> float:
    import torch

    with torch.inference_mode():
        logits = model(torch.tensor([prompt + option])).logits[0].log_softmax(-1)
    at = len(prompt) - 1
    return sum(float(logits[at + n, token]) for n, token in enumerate(option)) / len(option)


def test_models_it_would_not_compute_exactly_are_left_to_the_plain_way(tiny: Any) -> None:
    import torch

    from jitmem_lab.models.llama import supports

    config = tiny.config.__class__.from_dict({**tiny.config.to_dict(), "attention_bias": True})
    assert not supports(type(tiny)(config))
    assert not supports(type(tiny)(tiny.config).to(torch.bfloat16))
