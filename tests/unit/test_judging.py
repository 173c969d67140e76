"""The gate: only a clear verdict counts, and a verdict is asked for within the context."""

from __future__ import annotations

from typing import Any

import pytest

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.judging import Judge, environment_verdict
from jitmem_lab.records import Step, Task, Trajectory
from jitmem_lab.session import Session

from .doubles import RuleModel

pytestmark = pytest.mark.unit


def trajectory(steps: int = 2, outcome: str = "success") -> Trajectory:
    task = Task(benchmark="b", split="s", task_id="t", description="cool the lettuce")
    step = Step(observation="A fridge.", admissible=("look",), raw="<think>secret</think>look", action="look")
    return Trajectory(task=task, steps=(step,) * steps, final_observation="It is cool.", outcome=outcome)


def verdict(answer: str, **options: Any) -> Any:
    return Judge(RuleModel("judge", rule=lambda text, s: answer), **options).verdict(trajectory(), Session())


@pytest.mark.parametrize(
    ("answer", "success"),
    [
        ('{"success": true, "rationale": "r", "evidence_step": 1}', True),
        ('{"success": false, "rationale": "r"}', False),
        ('<think>{"success": false, "rationale": "x"}</think>{"success": true, "rationale": "r"}', True),
        ('```json\n{"success": true, "rationale": "r"}\n```', True),
    ],
)
def test_a_clear_answer_is_a_verdict(answer: str, success: bool) -> None:
    found = verdict(answer)
    assert (found.success, found.source, found.rationale) == (success, "judge", "r")


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "YES, but…",
        "I can't judge that.",
        '{"success": "true"}',
        '{"success": 1}',
        '{"success": null}',
        '{"sucess": true}',
        "{}",
        '{"success": true',
        '{"steps": {"success": true}, "success": fal',
        '<think>\n{"success": true}',
        '{"a":' * 3000,
        "true",
        "[true]",
        "bad \ud83d\x00",
    ],
)
def test_any_other_answer_is_unknown_and_kept_in_words(answer: str) -> None:
    found = verdict(answer)
    assert (found.success, found.source) == (None, "judge")
    assert found.rationale.startswith("unusable answer: ")
    assert answer[:400] in found.rationale


def test_the_likelier_of_yes_and_no() -> None:
    model, session = RuleModel("judge"), Session()
    found = Judge(model, form="choose").verdict(trajectory(), session)
    (call,) = session.calls
    assert call.role == "judge"
    assert call.options == ("yes", "no")
    assert found.success is (call.text == "yes")
    assert call.text == call.options[call.scores.index(max(call.scores))]


@pytest.mark.parametrize("form", ["json", "choose"])
def test_the_prompt_holds_task_and_trace_without_thinking_and_fits_the_context(form: str) -> None:
    model = RuleModel("judge", rule=lambda text, s: '{"success": true}')
    judge = Judge(model, form=form)
    judge.verdict(trajectory(), Session())
    assert "cool the lettuce" in model.prompts[0]
    assert "It is cool." in model.prompts[0]
    assert "secret" not in model.prompts[0]
    judge.verdict(trajectory(steps=20_000), Session())
    assert model.count_tokens(model.prompts[1]) + 512 <= model.context
    assert "characters cut" in model.prompts[1]
    assert "It is cool." in model.prompts[1], "the end decides, so it stays"


def test_a_server_that_fails_is_no_verdict() -> None:
    def down(text: str, sampling: Any) -> str:
        raise InfrastructureError("timeout")

    session = Session()
    with pytest.raises(InfrastructureError):
        Judge(RuleModel("judge", rule=down)).verdict(trajectory(), session)
    assert session.calls[0].error == "timeout"


def test_the_environment_as_judge() -> None:
    assert environment_verdict(trajectory()).success is True
    assert environment_verdict(trajectory(outcome="failure")).success is False


def test_a_sampled_verdict_has_a_seed() -> None:
    session = Session()
    Judge(RuleModel("judge"), temperature=1.0).verdict(trajectory(), session)
    assert session.calls[0].sampling.seed == session.seeds["judge"]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(UserError, match="json, choose"):
        Judge(RuleModel(), form="yes/no")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="uses"):
        Judge(RuleModel(), prompt="curator")
