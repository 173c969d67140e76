"""Served models against a real HTTP server that misbehaves: bounded tries, no key in any text."""

from __future__ import annotations

import email.utils
import json
import threading
import time
from typing import Any

import pytest

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.models import load_model
from jitmem_lab.models.endpoint import Endpoint
from jitmem_lab.models.rendering import estimate_tokens
from jitmem_lab.models.retrying import Again, retry_after, retrying
from jitmem_lab.models.served import ServedModel
from jitmem_lab.records import Message, Sampling

from .stub_server import EMPTY_CHOICE, NO_CONTENT, TRUNCATED, Say, StubServer, stub_server

pytestmark = pytest.mark.unit

ASK = [Message(role="user", content="hello")]
BEGUN = [*ASK, Message(role="assistant", content="I say")]
RAW = [Message(role="assistant", content="Once upon a")]


def model_at(server: StubServer, **options: Any) -> ServedModel:
    settings = {"backoff": 0.01, "context": 1000, "timeout": 5.0, **options}
    model = load_model(f"openai:{server.url}#stub", **settings)
    assert isinstance(model, ServedModel)
    return model


@pytest.mark.parametrize(
    "bad",
    [
        Say(status=429, text="slow down"),
        Say(status=429, headers={"Retry-After": "0"}),
        Say(status=500),
        Say(status=408),
        Say(status=409),
        Say(drop=True),
        Say(seconds=1.0),
        Say(raw=b""),
        Say(raw=b'{"error": {"code": 502, "message": "upstream"}}'),
        EMPTY_CHOICE,
        NO_CONTENT,
        TRUNCATED,
    ],
)
def test_what_may_pass_is_tried_again_and_then_given_up(bad: Say) -> None:
    with stub_server([bad, Say("fine")]) as server:
        model = model_at(server, timeout=0.3)
        reply = model.chat(ASK, Sampling())
        assert (reply.text, reply.usage.calls, reply.usage.prompt_tokens) == ("fine", 1, 7)
        assert reply.usage.completion_tokens == 3
        model.close()
    with stub_server([bad]) as server:
        model = model_at(server, timeout=0.3, retries=2)
        with pytest.raises(InfrastructureError, match=f"{server.port}.*3 tries"):
            model.chat(ASK, Sampling())
        assert len(server.requests) == 3
        model.close()


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf")])
def test_a_timeout_that_is_no_time_is_refused(timeout: float) -> None:
    with stub_server(Say()) as server, pytest.raises(UserError, match="timeout above 0"):
        model_at(server, timeout=timeout)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_what_will_not_pass_is_told_at_once_in_the_servers_words(status: int) -> None:
    with stub_server(Say("the reason", status=status)) as server:
        model = model_at(server)
        with pytest.raises(UserError, match="the reason") as caught:
            model.chat(ASK, Sampling())
        assert len(server.requests) == 1
        assert ("JITMEM_API_KEY_127_0_0_1" in str(caught.value)) == (status == 401)
        model.close()


def test_retry_after_is_honoured_and_bounded() -> None:
    with stub_server([Say(status=429, headers={"Retry-After": "0.4"}), Say()]) as server:
        model = model_at(server)
        began = time.monotonic()
        model.chat(ASK, Sampling())
        assert time.monotonic() - began >= 0.4
        model.close()
    with stub_server(Say(status=429, headers={"Retry-After": "4000"})) as server:
        model = model_at(server)
        began = time.monotonic()
        with pytest.raises(InfrastructureError, match="429"):
            model.chat(ASK, Sampling())
        assert time.monotonic() - began < 5
        model.close()


def test_retry_after_is_read_as_seconds_milliseconds_or_date() -> None:
    assert retry_after({"retry-after": "2.5"}) == 2.5
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    date = email.utils.formatdate(time.time() + 60, usegmt=True)
    assert 57 < (retry_after({"retry-after": date}) or 0) <= 60
    assert retry_after({"retry-after": email.utils.formatdate(time.time() - 60)}) == 0
    for nothing in ({}, {"retry-after": "soon"}, {"retry-after": "nan"}):
        assert retry_after(nothing) is None


def test_waits_have_jitter_and_end_when_closed() -> None:
    waits: list[float] = []

    class Clock(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waits.append(timeout or 0)
            return False

    def fail() -> None:
        raise Again("no")

    for _ in range(20):
        with pytest.raises(InfrastructureError):
            retrying(fail, server="s", retries=3, backoff=1.0, stop=Clock())
    firsts, thirds = waits[0::3], waits[2::3]
    assert len(set(firsts)) > 10
    assert max(firsts) <= 1.0
    assert 1.0 < max(thirds) <= 4.0


def test_closing_ends_a_wait() -> None:
    with stub_server(Say(status=429, headers={"Retry-After": "60"})) as server:
        model = model_at(server)
        caught: list[BaseException] = []

        def ask() -> None:
            try:
                model.chat(ASK, Sampling())
            except InfrastructureError as error:
                caught.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        while not server.requests:
            time.sleep(0.01)
        time.sleep(0.1)
        model.close()
        model.close()
        thread.join(3)
        assert not thread.is_alive()
        assert "closed" in str(caught[0])


def test_one_bad_call_does_not_hold_up_others_and_concurrency_is_bounded() -> None:
    def script(_path: str, body: dict[str, Any], _n: int) -> Say:
        asked = body["messages"][0]["content"]
        return Say(status=500) if asked == "bad" else Say(f"re {asked}", seconds=0.02)

    with stub_server(script) as server:
        model = model_at(server, concurrency=3, retries=2)
        results: dict[str, str] = {}

        def ask(word: str) -> None:
            try:
                results[word] = model.chat([Message(role="user", content=word)], Sampling()).text
            except InfrastructureError:
                results[word] = "error"

        threads = [threading.Thread(target=ask, args=(word,)) for word in ["bad", *map(str, range(12))]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        model.close()
        assert results.pop("bad") == "error"
        assert results == {str(n): f"re {n}" for n in range(12)}
        assert server.peak <= 3


def test_no_secret_reaches_a_name_an_identity_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-verysecret123")

    def script(_path: str, _body: dict[str, Any], n: int) -> Say:
        return Say("bad key sk-proj-verysecret123, user pass:word9 query9", status=401 if n else 503)

    with stub_server(script) as server:
        spec = f"openai:http://user:pass%3Aword9@127.0.0.1:{server.port}/v1?api_key=query9#stub"
        model = load_model(spec, context=9, retries=0)
        shown = [model.name, json.dumps(model.identity()), repr(model)]
        with pytest.raises(InfrastructureError) as first:
            model.chat(ASK, Sampling())
        with pytest.raises(UserError) as second:
            model.chat(ASK, Sampling())
        shown += [str(first.value), str(second.value)]
        assert server.requests[0][2]["authorization"].startswith("Basic ")
        assert server.requests[0][0].endswith("?api_key=query9")
        model.close()
        dead = load_model(spec.replace(str(server.port), "9"), context=9, retries=0)
        with pytest.raises(InfrastructureError) as third:
            dead.chat(ASK, Sampling())
        shown.append(str(third.value))
        for text in shown:
            assert not any(secret in text for secret in ("verysecret", "word9", "query9", "user:"))


def test_the_key_comes_from_the_hosts_own_variable_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "general")
    assert Endpoint.parse("http://a-b.example/v1#m").key == "general"
    monkeypatch.setenv("JITMEM_API_KEY_A_B_EXAMPLE", "own")
    assert Endpoint.parse("http://a-b.example/v1#m").key == "own"


@pytest.mark.parametrize(
    "rest", ["", "#", "http://x/v1", "ftp://x#m", "nowhere#m", "http://x:port/v1#m", "http://#m"]
)
def test_an_unusable_address_is_refused(rest: str) -> None:
    with pytest.raises(UserError, match=r"openai:BASE_URL#MODEL|unknown model"):
        load_model(f"openai:{rest}")


def test_refused_settings_are_left_out_once_and_for_all() -> None:
    def script(_path: str, body: dict[str, Any], _n: int) -> Say:
        if "max_tokens" in body:
            return Say("'max_tokens' is not supported; use 'max_completion_tokens' instead.", status=400)
        if "temperature" in body:
            return Say("Unsupported value: 'temperature' does not support 0.7 with this model.", status=400)
        return Say("fine")

    with stub_server(script) as server:
        model = model_at(server)
        assert model.chat(ASK, Sampling(temperature=0.7, max_tokens=55)).text == "fine"
        assert len(server.requests) == 3
        model.chat(ASK, Sampling(temperature=0.7, max_tokens=55))
        assert len(server.requests) == 4
        assert server.requests[-1][1]["max_completion_tokens"] == 55
        model.close()
    with stub_server(Say("temperature must be below 2", status=400)) as server:
        model = model_at(server)
        with pytest.raises(UserError):
            model.chat(ASK, Sampling(temperature=3))
        model.close()


def test_every_sampling_setting_reaches_the_server() -> None:
    sampling = Sampling(
        temperature=0.6, top_p=0.9, top_k=20, max_tokens=9, stop=("END",), seed=5, thinking=False
    )
    with stub_server(Say("one END two")) as server:
        model = model_at(server)
        assert model.chat(ASK, sampling).text == "one "
        model.chat(ASK, sampling, sample=1)
        first, second = (request[1] for request in server.requests)
        wanted = {"temperature": 0.6, "top_p": 0.9, "top_k": 20, "max_tokens": 9, "stop": ["END"], "seed": 5}
        assert wanted.items() <= first.items()
        assert first["chat_template_kwargs"] == {"enable_thinking": False}
        assert second["seed"] != first["seed"]
        assert model.chat(BEGUN, sampling)
        assert server.requests[-1][1]["continue_final_message"] is True
        assert server.requests[-1][1]["add_generation_prompt"] is False
        assert model.chat(RAW, sampling)
        assert server.requests[-1][0] == "/v1/completions"
        assert server.requests[-1][1]["prompt"] == "Once upon a"
        model.close()


def test_answers_in_other_shapes_are_read() -> None:
    says = [
        Say(message={"content": "so", "reasoning_content": "well"}),
        Say(text=None, finish="length"),
        Say(message={"content": None, "refusal": "I won't"}),
        Say(message={"content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]}),
        Say(""),
    ]
    with stub_server(says) as server:
        model = model_at(server)
        replies = [model.chat(ASK, Sampling()) for _ in says]
        assert [reply.text for reply in replies] == [
            "<think>\nwell\n</think>\n\nso",
            "",
            "I won't",
            "in parts",
            "",
        ]
        assert replies[1].finish == "length"
        model.close()


def test_any_text_can_be_sent() -> None:
    with stub_server(Say()) as server:
        model = model_at(server)
        model.chat([Message(role="user", content="bad \ud83d \x00 \u2028 ok")], Sampling())
        assert server.requests[0][1]["messages"][0]["content"] == "bad � \x00 \u2028 ok"
        model.close()


def test_options_are_ranked_by_the_servers_log_probabilities() -> None:
    with stub_server(Say()) as server:
        model = model_at(server)
        choice = model.choose(RAW, ["zz", "ab", "ab"])
        # A space counts 0, z 26, a 1, b 2 on this server; the mean is over the option and its space.
        assert choice.scores == (round(-52 / 3, 6), -1.0, -1.0)
        assert choice.index == 1
        assert choice.usage.calls == 1
        assert len(server.requests) == 1
        model.close()


def test_a_server_without_prompt_log_probabilities_says_so() -> None:
    def script(_path: str, body: dict[str, Any], _n: int) -> Say:
        choices = [{"index": n, "text": "x", "logprobs": None} for n in range(len(body["prompt"]))]
        return Say(raw=json.dumps({"choices": choices}).encode())

    with stub_server(script) as server:
        model = model_at(server)
        with pytest.raises(UserError, match='act="write"'):
            model.choose(RAW, ["a", "b"])
        with pytest.raises(UserError, match='act="write"'):
            model.choose(ASK, ["a", "b"])
        for options in ([], ["a", ""]):
            with pytest.raises(UserError, match="option"):
                model.choose(RAW, options)
        model.close()


def test_context_is_asked_of_the_server() -> None:
    with stub_server(Say(), models=[{"id": "stub", "max_model_len": 4321}]) as server:
        assert model_at(server, context=0).context == 4321
    with stub_server(Say()) as server:
        assert model_at(server, context=0).context == 32768


def test_the_estimate_of_tokens_is_an_upper_one() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("go to cabinet 12") >= 6
    assert estimate_tokens("把土豆加热") >= 5
