"""How much of a run's prompts a server's prefix cache could reuse, as they are laid out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from .accounting import EMBEDDER, ledger
from .records import Call
from .tool_calls import message_text

if TYPE_CHECKING:
    from .runs import Run


def prompt_text(call: Call) -> str:
    """A prompt as one text, with a mark where each message begins, laid out as a server reads it."""
    offered = f"<tools {' '.join(call.tools)}>\n" if call.tools else ""
    return offered + "\n".join(f"<{m.role}>\n{message_text(m)}" for m in call.messages)


class PrefixShare(NamedTuple):
    """How much of some prompts a server's prefix cache could reuse."""

    prompts: int
    """Prompts."""
    characters: int
    """Their characters."""
    reusable: int
    """Characters of whole blocks at the beginning that an earlier prompt began with too."""

    @property
    def share(self) -> float:
        """Reusable share of the characters; 0 without any."""
        return self.reusable / self.characters if self.characters else 0.0


def prefix_share(prompts: Iterable[str], block: int = 64, seen: set[int] | None = None) -> PrefixShare:
    """The share of prompts that a prefix cache could reuse, asked for in this order.

    A server keeps keys and values of whole blocks, each known by itself and all before it. Blocks here are
    of 64 characters, about the 16 tokens of vLLM's default; its cache is taken to be large enough for
    everything. So this is what the layout of the prompts allows, not what a server did. Linear in the
    characters.

    Args:
        prompts: Prompts in order.
        block: Characters a block; 1 gives the exact longest common beginning.
        seen: Blocks known before; those of `prompts` are added.
    """
    known = set() if seen is None else seen
    count = characters = reusable = 0
    for prompt in prompts:
        count += 1
        characters += len(prompt)
        chain, fresh = 0, False
        for start in range(0, len(prompt) - block + 1, block):
            chain = hash((chain, prompt[start : start + block]))
            fresh = fresh or chain not in known
            known.add(chain)
            reusable += 0 if fresh else block
    return PrefixShare(count, characters, reusable)


def prefix_rows(run: Run, block: int = 64) -> list[dict[str, Any]]:
    """The reusable share of the prompts of each role, phase and model, and of each model's in all.

    Prompts of one model share one cache, whatever their role. Embedded texts are no prompts and left out.
    """
    groups: dict[tuple[str, str, str], PrefixShare] = {}
    caches: dict[str, set[int]] = defaultdict(set)
    for stage, call in ledger(run):
        if call.role == EMBEDDER:
            continue
        found = prefix_share([prompt_text(call)], block, caches[call.model])
        key = (call.model, call.role, "warm" if stage == "warm" else call.phase)
        for each in (key, (call.model, "all", "all")):
            before = groups.get(each, PrefixShare(0, 0, 0))
            groups[each] = PrefixShare(*(a + b for a, b in zip(before, found, strict=True)))
    return [
        {"model": model, "role": role, "phase": phase, **part._asdict(), "share": part.share}
        for (model, role, phase), part in sorted(
            groups.items(), key=lambda item: (item[0][1] == "all", item[0])
        )
    ]
