"""The pocket models: their tokenizer, what they are fitted on, and the fitting itself at a tiny size."""

from __future__ import annotations

import random

import pytest

from jitmem_lab.errors import UserError
from jitmem_lab.execution import Executor, plan_payload
from jitmem_lab.models import check_spec, load_model
from jitmem_lab.models.scoring import option_tokens
from jitmem_lab.records import Message, RetrievedTrace, Sampling, Task
from jitmem_lab.training.experts import Expert, Experts
from jitmem_lab.training.fitting import FITS, experts_of, fit
from jitmem_lab.training.lessons import block, copy_lesson, curator_lesson, executor_lesson
from jitmem_lab.training.vocabulary import UNKNOWN, make_tokenizer, pieces

THINGS = ("mug", "cup", "plate", "apple")
PLACES = ("shelf", "desk", "bed", "drawer")


def episode(number: int) -> Expert:
    rng = random.Random(number)
    thing, (source, target) = rng.choice(THINGS), rng.sample(PLACES, 2)
    opened = [f"open {source} 1"] if source == "drawer" else []
    steps = [f"go to {source} 1", *opened, f"take {thing} 2 from {source} 1"]
    steps += [f"go to {target} 12", f"move {thing} 2 to {target} 12"]
    return Expert(f"game {number}", f"put a {thing} in {target}.", f"room {number % 5}", tuple(steps))


@pytest.fixture(scope="module")
def experts() -> Experts:
    return Experts([episode(number) for number in range(40)], names=["toaster"], split="train")


@pytest.fixture(scope="module")
def tokenizer(experts):
    texts = [block(one.goal, one.actions) + "\n\nTask:" for one in experts.episodes]
    return make_tokenizer([*texts, "(none)"], experts.names)


def test_texts_come_back_as_they_were(experts, tokenizer):
    rng = random.Random(0)
    for make in (executor_lesson, curator_lesson, copy_lesson):
        for _ in range(50):
            lesson = make(experts, rng)
            text = lesson.context + lesson.target
            ids = tokenizer(text)["input_ids"]
            assert tokenizer.decode(ids) == text
            assert tokenizer.unk_token_id not in ids
            both = tokenizer(lesson.context)["input_ids"] + tokenizer(lesson.target)["input_ids"]
            assert both == ids  # what is learned is what is asked


def test_the_tokenizer_survives_a_folder(tokenizer, tmp_path):
    from transformers import AutoTokenizer

    tokenizer.save_pretrained(tmp_path)
    text = "Task: put a mug in desk.\nSteps to do it:\n1. go to shelf 1\n2. take toaster 12 from shelf 1"
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again(text)["input_ids"] == tokenizer(text)["input_ids"]
    assert again.decode(again(text)["input_ids"], skip_special_tokens=True) == text
    assert (again.pad_token, again.eos_token, again.padding_side) == ("<pad>", "<end>", "left")


def test_unknown_words_and_instance_numbers(tokenizer):
    ids = tokenizer(" take zeppelin 12")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == [" take", UNKNOWN, " 12"]
    one, two = (tokenizer(f" cabinet {number}")["input_ids"][-1] for number in (1, 2))
    assert one != two
    text = "  a\t1.\n\n\n2. caf\u00e9, \u628a"
    assert "".join(pieces(text)) == text


def test_options_are_read_apart_from_the_prompt(tokenizer):
    prompt = "Task: put a mug in desk.\nSteps to do it:\n1. go to shelf 1\n2."
    options = ["take mug 2 from shelf 1", "go to desk 12"]
    for option, ids in zip(options, option_tokens(tokenizer, prompt, options), strict=True):
        assert tokenizer.decode(ids) == f" {option}"


def test_a_lesson_is_the_executors_own_prompt(experts):
    class Silent:
        name, context, takes_tools = "silent", 1024, False

        def count_tokens(self, text):
            return len(text)

    rng = random.Random(1)
    lessons = [executor_lesson(experts, rng) for _ in range(200)]
    shown = [lesson for lesson in lessons if lesson.context.count("Task:") == 2]
    assert 0.75 < len(shown) / len(lessons) < 0.95  # the rest have no payload
    payload, _, rest = shown[0].context.rpartition("\n\n")
    task = Task(benchmark="alfworld", split="train", task_id="x", description=rest[6 : rest.index("\n")])
    from jitmem_lab.benchmarks.base import Observation

    (message,) = Executor(Silent(), act="choose", history=0).messages(task, payload, [], Observation("", ()))
    assert message.content == shown[0].context


def test_names_are_shuffled_so_that_only_the_payload_tells(experts):
    rng = random.Random(2)
    seen = {lesson.target.split()[2] for lesson in (executor_lesson(experts, rng) for _ in range(300))}
    assert seen >= set(PLACES)
    goals = {executor_lesson(experts, rng).context.split("Task: ")[-1].split("\n")[0] for _ in range(300)}
    assert len(goals) > len({one.goal for one in experts.episodes})


def test_what_no_payload_tells_counts_less(experts, tokenizer):
    from jitmem_lab.training.batches import DOUBTFUL_WEIGHT, _weights

    rng = random.Random(3)
    lessons = [executor_lesson(experts, rng) for _ in range(300)]
    assert any(lesson.doubtful for lesson in lessons)
    for lesson in lessons:
        steps = [line.split(maxsplit=1)[1] for line in ("1." + lesson.target).split("\n")]
        for number in lesson.guessed:
            assert steps[number - 1].startswith("go to ")
        if lesson.context.count("Task:") == 1:  # no payload names the place
            assert lesson.guessed
        for number in lesson.doubtful:  # nothing was found at the place before
            assert steps[number - 2].split()[0] in ("go", "open")
            assert steps[number - 1].startswith("go to ")
        ids = tokenizer(lesson.target)["input_ids"]
        weights = _weights(lesson, ids, tokenizer)
        light = sum(weight == DOUBTFUL_WEIGHT for weight in weights)
        assert light == 4 * len(lesson.guessed) + len(set(lesson.doubtful) - set(lesson.guessed))
        assert set(weights) <= {1.0, DOUBTFUL_WEIGHT}


def test_a_curator_lesson_never_shows_the_games_own_trace():
    twins = [
        Expert(f"twin {n}", "put a mug in desk.", "room", (f"go to shelf {n}", "look")) for n in range(4)
    ]
    experts, rng = Experts(twins), random.Random(0)
    for index, one in enumerate(twins):
        for _ in range(20):
            found = experts.similar(index, 1.0, 3, rng)
            assert one not in found
            assert len(found) == 3


def test_only_train_games_are_fitted_on():
    for split in ("valid_train", "valid_seen", "valid_unseen", "generated_test", "generated_seen"):
        with pytest.raises(UserError, match="train"):
            experts_of(split)
    with pytest.raises(UserError, match="two"):
        Experts([episode(0)])


def test_a_tiny_fit_learns_and_repeats(experts, tmp_path):
    plan = FITS["executor"]._replace(hidden=32, layers=1, inner=64, heads=2, copying=5, steps=40, batch=8)
    losses: list[float] = []
    made = fit(plan, experts, tmp_path / "a", seed=3, on_step=lambda step, loss: losses.append(loss))
    again = fit(plan, experts, tmp_path / "b", seed=3)
    other = fit(plan._replace(copying=0, steps=2), experts, tmp_path / "c", seed=4)
    assert losses[-1] < 0.8 * losses[0]
    assert made["loss"] == again["loss"] != other["loss"]
    first, second, third = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert first == second != third
    model = load_model(f"hf:{tmp_path / 'a'}", dtype="float32")
    try:
        choice = model.choose(
            [Message(role="assistant", content="Task: put a mug in desk.\n1.")], ["go", "look"]
        )
        assert len(choice.scores) == 2
    finally:
        model.close()


def test_pocket_specs():
    assert check_spec("pocket") == ("pocket", "")
    assert check_spec("pocket:curator") == ("pocket", "curator")
    assert check_spec("pocket:writer") == ("pocket", "writer")
    with pytest.raises(UserError, match=r"did you mean curator\?.*pocket:writer"):
        check_spec("pocket:curtor")


SPECS = ("pocket", "pocket:curator", "pocket:writer", "pocket:executor2")


@pytest.mark.parametrize("spec", SPECS)
def test_the_card_tells_of_the_very_weights_that_are_shipped(spec):
    from jitmem_lab.models.pocket import about, folder

    card = (folder().parent / "MODEL_CARD.md").read_text(encoding="utf-8")
    said = about(check_spec(spec)[1])["weights"]
    assert said in card


@pytest.mark.parametrize("spec", SPECS)
def test_the_shipped_models_are_small_and_load(spec):
    from jitmem_lab.models.pocket import folder

    files = list(folder(check_spec(spec)[1]).iterdir())
    assert all(file.stat().st_size < 2_000_000 for file in files)
    model = load_model(spec)
    try:
        assert sum(weight.numel() for weight in model.model.parameters()) < 1_000_000
        assert {weight.dtype.itemsize for weight in model.model.parameters()} == {4}
        assert model.identity()["weights"]
        assert model._ranker is not None  # the fast way of choosing takes them
    finally:
        model.close()


def test_the_shipped_curator_goes_on_with_a_plan():
    from jitmem_lab.curation import Curator
    from jitmem_lab.session import Session

    model = load_model("pocket:curator")
    try:
        task = Task(benchmark="alfworld", split="x", task_id="x", description="put a clean mug in shelf.")
        plan = ["go to desk 1", "take mug 1 from desk 1", "go to sinkbasin 1", "clean mug 1 with sinkbasin 1"]
        trace = RetrievedTrace(
            trace_id=1,
            rank=1,
            score=1.0,
            task_id="y",
            description="put a clean mug in desk.",
            text=plan_payload(task, plan).split("it:\n")[1],
        )
        curator = Curator(model, form="plan", temperature=0.0, top_p=1.0, top_k=0, max_tokens=100)
        payload = curator.curate(task, (trace,), Session(0, "x")).payload
        assert payload.startswith("Task: put a clean mug in shelf.\nSteps to do it:\n1. go to ")
        assert "take mug" in payload
        assert "clean mug" in payload
        drawn = model.chat(
            [Message(role="assistant", content=payload)], Sampling(temperature=1.0, seed=1, max_tokens=5)
        )
        assert drawn.usage.completion_tokens <= 5
    finally:
        model.close()
