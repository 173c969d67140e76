"""What the lines of `metrics.jsonl` hold, by name: of a step, and of a held-out evaluation."""

from __future__ import annotations

STEP_METRICS = {
    "step": "Step, from 1.",
    "time": "When it ended, in seconds since 1970.",
    "reward": "Mean reward of the batch's payloads, those without one left out; 0 to 1 where the benchmark's "
    "metric is success.",
    "reward_std": "Standard deviation (n - 1, as TRL has it) of the same rewards over the whole batch.",
    "zero_variance_share": "Share of the groups whose payloads all got the same reward; nothing is learnt "
    "from them.",
    "unscored": "Payloads without reward: an infrastructure error ended their episode. They weigh nothing.",
    "turns": "Mean turns of the batch's episodes.",
    "episodes": "Episodes played. Fewer than payloads where the executor is deterministic: equal payloads of "
    "a task share one.",
    "cut_share": "Share of the payloads that reached `max_completion` tokens, and so may have been cut off.",
    "distinct_share": "Different payloads of each task over all payloads; low where the curator repeats "
    "itself.",
    "executor_tokens": "Tokens that the executor read and wrote in the episodes played.",
    "loss": "The loss, as TRL logs it: near 0 whatever is learnt, and no sign of progress.",
    "gradient_norm": "Norm of the gradient before clipping at 1; 0 where no group differs.",
    "learning_rate": "Learning rate of the step's last update. Over the first `warmup` updates it rises from "
    "0, so that the very first update of a training with warm-up changes nothing.",
    "kl": "KL divergence from the curator before training, in nats a token. Only there if `beta` is above 0: "
    "else it is not computed.",
    "entropy": "Mean entropy of the curator's choice of a token, in nats.",
    "clip_share": "Share of the tokens whose importance ratio was clipped; 0 with one update a step.",
    "tokens": "Mean tokens of a payload.",
    "ratio": "Importance ratio of a token before clipping, its mean; 1 with one update a step.",
    "ratio_max": "The largest of them.",
    "vllm_ratio": "Mean ratio of a token's probability in training to that in vLLM; only with vLLM.",
    "vllm_logp_difference": "Mean distance of the same two in nats; only with vLLM.",
    "seconds_generate": "Seconds of writing payloads.",
    "seconds_play": "Seconds of playing them.",
    "seconds_update": "Seconds of the rest of the step, most of it the update.",
}
"""Figures of a step's line. Shares are from 0 to 1."""

HELDOUT_METRICS = {
    "step": "Step after which it was played; 0 before training.",
    "won": "Held-out tasks won.",
    "games": "Held-out tasks played to their end.",
    "errors": "Held-out tasks that could not be played.",
    "success_rate": "Share won of those played, 0 to 1.",
    "seconds": "Seconds that it took.",
    "run": "Its run directory, below the training's.",
}
"""Figures of a held-out evaluation's line."""
