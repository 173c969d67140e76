"""Fast exact ranking with a float32 Llama: prefix reuse, a tree of options, several requests in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .prefixes import Prefix, PrefixCache
from .trie import Trie

KV_BYTES = 400_000_000
"""Memory for the keys and values of earlier prompts."""
BLOCK = 16
"""Widths of matrix products are multiples of it."""
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
        self._cos = angles.cos().repeat(1, 2)
        self._sin = angles.sin().repeat(1, 2)
        shape = (len(self._layers), self._groups, self._dim)
        per_token = shape[0] * shape[1] * shape[2] * 2 * 4
        self._cache = PrefixCache(*shape, self._device, max(1024, KV_BYTES // per_token))

    def rank(self, requests: Sequence[Ranking]) -> list[list[float]]:
        """Mean log-probability per token of every option of every request."""
        import torch

        with torch.inference_mode():
            return self._rank(requests)

    def _rank(self, requests: Sequence[Ranking]) -> list[list[float]]:

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
        hidden = self._forward(_padded(tokens), _padded(positions), segments)
        edges, first = [], 0
        for trie in tries:
            edges += [(first + row, token) for row, token in trie.edges]
            first += len(trie.tokens) + 1
        logprobs = self._logprobs(hidden, wanted, edges)
        results, first = [], 0
        for request, trie, segment in zip(requests, tries, segments, strict=True):
            means = trie.means(logprobs[first : first + len(trie.edges)])
            first += len(trie.edges)
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

    def _forward(self, tokens: list[int], positions: list[int], segments: Sequence[_Segment]) -> Any:
        """The last hidden states, one column a token.

        Activations stand as (features, tokens): products with the weights on the left split better over
        threads in MKL than `F.linear` does (a quarter faster on two threads, 30 to 130 tokens).
        """
        import torch
        import torch.nn.functional as F

        x = self._embed[torch.tensor(tokens, device=self._device)].t().contiguous()
        cos, sin = self._cos[positions].t().contiguous(), self._sin[positions].t().contiguous()
        rotated, half, count = self._heads + self._groups, self._dim // 2, x.shape[1]
        seen = x.new_zeros(self._heads, self._dim, count)
        for index, (norm_in, qkv, out, norm_mlp, gate_up, down) in enumerate(self._layers):
            mixed = torch.mm(qkv, self._normed(x, norm_in)).view(-1, self._dim, count)
            turned, values = mixed[:rotated], mixed[rotated:]
            turned = turned * cos + torch.cat([-turned[:, half:], turned[:, :half]], 1) * sin
            for part in segments:
                columns = slice(part.start, part.start + part.count)
                known, end = part.known, part.known + part.count
                keys_all, values_all = part.prefix.keys[index], part.prefix.values[index]
                keys_all[:, known:end] = turned[self._heads :, :, columns].transpose(1, 2)
                values_all[:, known:end] = values[:, :, columns].transpose(1, 2)
                attended = F.scaled_dot_product_attention(
                    turned[None, : self._heads, :, columns].transpose(2, 3).contiguous(),
                    keys_all[None, :, :end],
                    values_all[None, :, :end],
                    attn_mask=part.bias,
                    enable_gqa=True,
                )
                seen[:, :, columns] = attended[0].transpose(1, 2)
            x += torch.mm(out, seen.view(-1, count))
            gate, up = torch.mm(gate_up, self._normed(x, norm_mlp)).chunk(2)
            x += torch.mm(down, F.silu(gate, inplace=True).mul_(up))
        return self._normed(x, self._norm)

    def _normed(self, x: Any, weight: Any) -> Any:
        """Root-mean-square normalisation of each column."""
        scale = x.square().mean(0, keepdim=True).add_(self._eps).rsqrt_()
        return (x * scale).mul_(weight[:, None])

    def _logprobs(self, hidden: Any, columns: list[int], edges: Sequence[tuple[int, int]]) -> list[float]:
        """Log-probability of each edge's token, given the hidden state at `columns[row]` for its row."""
        import torch

        found = [0.0] * len(edges)
        for start in range(0, len(columns), HEAD_ROWS):
            taken = _padded(columns[start : start + HEAD_ROWS])
            logits = torch.mm(self._head, hidden[:, taken])
            totals = logits.logsumexp(0)
            inside = [(at, row - start, token) for at, (row, token) in enumerate(edges)]
            inside = [item for item in inside if 0 <= item[1] < HEAD_ROWS]
            places, rows, tokens = map(list, zip(*inside, strict=True))
            rows_at = torch.tensor(rows, device=self._device)
            picked = logits[torch.tensor(tokens, device=self._device), rows_at] - totals[rows_at]
            for place, value in zip(places, picked.double().tolist(), strict=True):
                found[place] = value
        return found


def _padded(values: list[int]) -> list[int]:
    """`values` and zeros up to a whole number of blocks: products of other widths are up to 40 % slower."""
    return values + [0] * (-len(values) % BLOCK)


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
