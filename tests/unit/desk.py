"""A refund desk: a small world of tools and a user played by a model, for the executor that calls tools."""

from __future__ import annotations

from typing import Any

from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.models.base import ChatModel
from jitmem_lab.records import Message, Sampling, Task, Tool, Trajectory
from jitmem_lab.session import Session
from jitmem_lab.tool_calls import parse_call

RULES = "Refund only what was found first. {braces} mean nothing."
STOP = "###STOP###"


def tool(name: str, **properties: str) -> Tool:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind} for key, kind in properties.items()},
        "required": sorted(properties),
    }
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}


TOOLS = (tool("find", user="string"), tool("refund", order="integer"), tool("dump", size="integer"))


class Desk:
    """Won when order 7 is refunded before the user leaves; without a user model, done by `done()`."""

    def __init__(self, task: Task, session: Session | None, user: ChatModel | None) -> None:
        self.task, self.session, self.user = task, session, user
        self.said: list[Message] = []
        self.refunded: list[Any] = []
        self.received: list[str] = []

    def reset(self) -> Observation:
        self.said, self.refunded = [Message(role="system", content=f"You are {self.task.task_id}.")], []
        words = self._asks("Hi, how can I help?") if self.user else "A ticket: refund order 7."
        speaker = "user" if self.user else ""
        return self._seen(words, speaker)._replace(task=words, rules=RULES, tools=TOOLS)

    def _asks(self, words: str) -> str:
        assert self.session is not None
        assert self.user is not None
        self.said.append(Message(role="user", content=words))
        sampling = Sampling(seed=self.session.seed(f"user{len(self.said)}"))
        answer = self.session.chat("user", self.user, self.said, sampling)
        self.said.append(Message(role="assistant", content=answer))
        return answer

    def _seen(self, text: str, speaker: str, done: bool = False, accepted: bool = True) -> Observation:
        won = done and self.refunded == [7]
        return Observation(
            text, (), float(won), done, won, open=True, accepted=accepted, speaker=speaker, parts={"DB": won}
        )

    def step(self, action: str) -> Observation:
        self.received.append(action)
        call = parse_call(action)
        if call is None:
            words = self._asks(action) if self.user else "Nobody listens."
            return self._seen(words, "user" if self.user else "", STOP in words)
        if call.name == "done" and not self.user:
            return self._seen("Closed.", "tool", done=True)
        known = {one["function"]["name"]: one["function"]["parameters"]["required"] for one in TOOLS}
        if call.name not in known or sorted(call.arguments) != known[call.name]:
            return self._seen(f"Error: no such call as {call.name}", "tool", accepted=False)
        if call.name == "refund":
            self.refunded.append(call.arguments["order"])
        if call.name == "dump":
            return self._seen("x" * call.arguments["size"], "tool")
        return self._seen(f'{{"{call.name}": "ok"}}', "tool")

    def close(self) -> None:
        pass


class DeskBenchmark:
    """As many customers as asked for."""

    name, version, split, max_steps = "desk", "1", "all", 8
    noop, splits, tells_at_reset = "look", ("all",), True

    def __init__(self, n: int = 4, user: ChatModel | None = None) -> None:
        self.n, self.user = n, user
        self.made: list[Desk] = []

    def tasks(self, limit: int | None = None, order: int | None = None) -> list[Task]:
        return [
            Task(benchmark=self.name, split=self.split, task_id=f"customer {i}", description="a customer")
            for i in range(limit or self.n)
        ]

    def make_env(self, task: Task, session: Session | None = None) -> Desk:
        self.made.append(Desk(task, session, self.user))
        return self.made[-1]

    def oracle(self, task: Task) -> list[str]:
        return ["refund(order=7)", "done()"]

    def demonstrations(self, limit: int, seed: int = 0) -> list[Trajectory]:
        return []

    def provenance(self) -> dict[str, Any]:
        return {"version": self.version}

    def close(self) -> None:
        pass
