"""Fast exact ranking with a float32 Llama: prefix reuse, a tree of options, several requests in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .prefixes import Prefix, PrefixCache
from .trie import Trie

KV_BYTES = 400_000_000
"""Memory for the keys and values of earlier prompts."""
HEAD_ROWS = 256
"""Rows of logits over the vocabulary held at a time."""


class Ranking(NamedTuple):
    """One request: rank `options` (token ids) as continuations of `prompt` (token ids)."""

    prompt: list[int]
    options: list[list[int]]


@dataclass(frozen=True)
class _Segment:
    """One request's part of a packed pass: its rows, and what they see."""

    prefix: Prefix
    start: int
    count: int
    known: int
    bias: Any


def supports(model: Any) -> bool:
    """Whether `model` is a plain float32 Llama that `LlamaRanker` computes exactly."""
    import torch

    config = model.config
    if config.model_type != "llama" or next(model.parameters()).dtype != torch.float32:
        return False
    rope = getattr(config, "rope_parameters", None) or {}
    return bool(
        config.hidden_act == "silu"
        and not config.attention_bias
        and not config.mlp_bias
        and rope.get("rope_type", "default") == "default"
    )


class LlamaRanker:
    """Mean log-probabilities of options under a Llama of transformers, the same as by the plain way.

    Only what is new is computed: the tokens of the prompt that no earlier prompt of the episode had, and
    the interior nodes of the tree of options, all in one pass whose attention mask is that tree. Requests
    given together share that pass. Scores differ from the plain computation, and from one batch or cache
    state to another, by float noise (below 1e-4, typically 1e-6), because a matrix product's rounding
    depends on its number of rows.

    Args:
        model: A model for which `supports` holds; its projections are fused in place (views of the fused
            weights stay in the model, which goes on working).
    """

    def __init__(self, model: Any) -> None:
        import torch

        config = model.config
        self._heads, self._groups = config.num_attention_heads, config.num_key_value_heads
        self._dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        self._eps = config.rms_norm_eps
        self._embed, self._head = model.model.embed_tokens.weight, model.lm_head.weight
        self._norm = model.model.norm.weight
        self._device = self._embed.device
        self._layers = [
            (
                layer.input_layernorm.weight,
                _fuse([layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj]),
                layer.self_attn.o_proj.weight,
                layer.post_attention_layernorm.weight,
                _fuse([layer.mlp.gate_proj, layer.mlp.up_proj]),
                layer.mlp.down_proj.weight,
            )
            for layer in model.model.layers
        ]
        inverse = model.model.rotary_emb.inv_freq.float()
        angles = torch.arange(config.max_position_embeddings, device=self._device)[:, None] * inverse
        self._cos = angles.cos().repeat(1, 2)[:, None]
        self._sin = angles.sin().repeat(1, 2)[:, None]
        shape = (len(self._layers), self._groups, self._dim)
        per_token = shape[0] * shape[1] * shape[2] * 2 * 4
        self._cache = PrefixCache(*shape, self._device, max(1024, KV_BYTES // per_token))

    def rank(self, requests: Sequence[Ranking]) -> list[list[float]]:
        """Mean log-probability per token of every option of every request."""
        import torch

        with torch.inference_mode():
            return self._rank(requests)

    def _rank(self, requests: Sequence[Ranking]) -> list[list[float]]:
        import torch

        tries = [Trie.build(request.options) for request in requests]
        tokens: list[int] = []
        positions: list[int] = []
        wanted: list[int] = []
        segments: list[_Segment] = []
        for request, trie in zip(requests, tries, strict=True):
            prefix = self._cache.take(request.prompt)
            known, length = len(prefix.tokens), len(request.prompt)
            count = length - known + len(trie.tokens)
            prefix.reserve(known + count)
            segments.append(_Segment(prefix, len(tokens), count, known, self._bias(known, length, trie)))
            wanted += range(len(tokens) + length - known - 1, len(tokens) + count)
            tokens += [*request.prompt[known:], *trie.tokens]
            positions += [*range(known, length), *(length - 1 + depth for depth in trie.depths)]
        hidden = self._forward(
            torch.tensor(tokens, device=self._device), torch.tensor(positions, device=self._device), segments
        )[wanted]
        results, first = [], 0
        for request, trie, segment in zip(requests, tries, segments, strict=True):
            rows = hidden[first : first + len(trie.tokens) + 1]
            first += len(rows)
            means = trie.means(self._logprobs(rows, trie.edges))
            results.append(means)
            self._remember(request, trie, segment, means)
        return results

    def _remember(self, request: Ranking, trie: Trie, segment: _Segment, means: list[float]) -> None:
        """Keep the prompt, and behind it the likeliest option: an episode goes on with that one."""
        best = max(range(len(means)), key=means.__getitem__)
        length, path = len(request.prompt), trie.interior(best)
        segment.prefix.keep(length, [length + node for node in path])
        segment.prefix.tokens = [*request.prompt, *(trie.tokens[node] for node in path)]
        self._cache.give(segment.prefix)

    def _bias(self, known: int, length: int, trie: Trie) -> Any:
        """What is added to attention scores: 0 where a row may look, minus infinity elsewhere."""
        import torch

        fresh, nodes = length - known, len(trie.tokens)
        bias = torch.full((fresh + nodes, length + nodes), float("-inf"), device=self._device)
        bias[:fresh, :length] = torch.triu(bias[:fresh, :length], diagonal=known + 1).nan_to_num(nan=0.0)
        bias[fresh:, :length] = 0
        seen = trie.ancestors()
        rows = [fresh + node for node, ancestors in enumerate(seen) for _ in ancestors]
        bias[rows, [length + ancestor for ancestors in seen for ancestor in ancestors]] = 0
        return bias

    def _forward(self, tokens: Any, positions: Any, segments: Sequence[_Segment]) -> Any:
        import torch
        import torch.nn.functional as F

        x = self._embed[tokens]
        cos, sin = self._cos[positions], self._sin[positions]
        queries, keyed = self._heads * self._dim, (self._heads + self._groups) * self._dim
        width, half = (x.shape[-1],), self._dim // 2
        for index, (norm_in, qkv, out, norm_mlp, gate_up, down) in enumerate(self._layers):
            mixed = F.linear(F.rms_norm(x, width, norm_in, self._eps), qkv)
            turned = mixed[:, :keyed].view(len(x), -1, self._dim)
            turned = turned * cos + torch.cat([-turned[..., half:], turned[..., :half]], -1) * sin
            values = mixed[:, keyed:].view(len(x), self._groups, self._dim)
            seen = torch.empty(len(x), queries, device=self._device)
            for part in segments:
                rows = slice(part.start, part.start + part.count)
                known, end = part.known, part.known + part.count
                keys_all, values_all = part.prefix.keys[index], part.prefix.values[index]
                keys_all[:, known:end] = turned[rows, self._heads :].transpose(0, 1)
                values_all[:, known:end] = values[rows].transpose(0, 1)
                attended = F.scaled_dot_product_attention(
                    turned[rows, : self._heads].transpose(0, 1)[None],
                    keys_all[None, :, :end],
                    values_all[None, :, :end],
                    attn_mask=part.bias,
                    enable_gqa=True,
                )
                seen[rows] = attended[0].transpose(0, 1).reshape(part.count, queries)
            x = x + F.linear(seen, out)
            gate, up = F.linear(F.rms_norm(x, width, norm_mlp, self._eps), gate_up).chunk(2, -1)
            x = x + F.linear(F.silu(gate) * up, down)
        return F.rms_norm(x, width, self._norm, self._eps)

    def _logprobs(self, hidden: Any, edges: Sequence[tuple[int, int]]) -> list[float]:
        """Log-probability of each (row, token) pair; `hidden` holds the rows."""
        import torch
        import torch.nn.functional as F

        found = [0.0] * len(edges)
        for start in range(0, len(hidden), HEAD_ROWS):
            logits = F.linear(hidden[start : start + HEAD_ROWS], self._head)
            totals = logits.logsumexp(-1)
            inside = [(at, row - start, token) for at, (row, token) in enumerate(edges)]
            inside = [item for item in inside if 0 <= item[1] < len(logits)]
            places, rows, tokens = map(list, zip(*inside, strict=True))
            rows_at = torch.tensor(rows, device=self._device)
            picked = logits[rows_at, torch.tensor(tokens, device=self._device)] - totals[rows_at]
            for place, value in zip(places, picked.double().tolist(), strict=True):
                found[place] = value
        return found


def _fuse(projections: Sequence[Any]) -> Any:
    """One weight for several projections of the same input; the projections become views of it."""
    import torch

    fused = torch.cat([projection.weight.data for projection in projections])
    start = 0
    for projection in projections:
        size = projection.weight.shape[0]
        projection.weight.data = fused[start : start + size]
        start += size
    return fused
