"""The reward of an ended conversation, by τ²'s own evaluator, with every part shown."""

from __future__ import annotations

import math
from typing import Any

from tau2.data_model.simulation import SimulationRun, TerminationReason
from tau2.evaluator.evaluator import EvaluationType, evaluate_simulation
from tau2.utils.utils import get_now

_PREMATURE = frozenset(TerminationReason) - {TerminationReason.AGENT_STOP, TerminationReason.USER_STOP}


def premature(reason: Any) -> bool:
    """Whether an end of that kind gives no reward whatever was done."""
    return reason in _PREMATURE


def grade(domain: str, solo: bool, task: Any, messages: list[Any], reason: Any) -> dict[str, Any]:
    """Reward, success and parts of a conversation.

    Returns:
        `reward` (0 to 1), `success` (reward 1), and `parts`: `termination`, `basis` (the parts that count;
        the reward is their product), each part's value that τ² computed (DB, ENV_ASSERTION, ACTION,
        COMMUNICATE), and under `checks` how many of each kind were met, as [met, all].
    """
    for turn, message in enumerate(messages):
        message.turn_idx = turn
    run = SimulationRun(
        id="run",
        task_id=task.id,
        start_time=get_now(),
        end_time=get_now(),
        duration=0.0,
        termination_reason=reason,
        messages=messages,
    )
    info = evaluate_simulation(
        simulation=run, task=task, evaluation_type=EvaluationType.ALL, solo_mode=solo, domain=domain
    )
    criteria = task.evaluation_criteria
    parts: dict[str, Any] = {
        "termination": str(reason.value),
        "basis": [part.value for part in criteria.reward_basis] if criteria is not None else [],
    }
    if not premature(reason):
        parts |= _values(info)
    return {
        "reward": float(info.reward),
        "success": math.isclose(info.reward, 1.0, abs_tol=1e-6),
        "parts": parts,
    }


def _values(info: Any) -> dict[str, Any]:
    values: dict[str, Any] = {}
    checks: dict[str, list[int]] = {}
    if info.db_check is not None:
        values["DB"] = float(info.db_check.db_reward)
    kinds = {
        "ENV_ASSERTION": [check.met for check in info.env_assertions or ()],
        "ACTION": [check.action_match for check in info.action_checks or ()],
        "COMMUNICATE": [check.met for check in info.communicate_checks or ()],
    }
    for name, met in kinds.items():
        if met:
            values[name] = float(all(met))
            checks[name] = [sum(met), len(met)]
    for part, value in (info.reward_breakdown or {}).items():
        values[part.value] = float(value)
    return values | {"checks": checks}
