"""A host for tests: what τ² itself would send to a user's model, and what a worker touches."""

import socket
import sys
from pathlib import Path
from typing import Any

from jitmem_lab.benchmarks.tau2.host import Host as Stock


class Host(Stock):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.contacts: list[str] = []
        refuse = self._refuse
        socket.socket.connect = lambda sock, address: refuse(address)  # type: ignore[method-assign]
        socket.getaddrinfo = lambda *names, **_: refuse(names)  # type: ignore[assignment]

    def _refuse(self, where: Any) -> None:
        self.contacts.append(str(where))
        raise OSError("no network in this test")

    def touched(self) -> dict[str, Any]:
        """Attempts at the network, files in the working directory, and large modules that were imported."""
        heavy = [name for name in ("litellm.utils", "openai", "gymnasium", "torch") if name in sys.modules]
        return {"contacts": self.contacts, "files": [str(p) for p in Path.cwd().rglob("*")], "heavy": heavy}

    def both_prompts(self, spec: dict[str, Any], says: list[Any]) -> list[list[Any]]:
        """Prompts of our asked user and of τ²'s own simulator over the same turns."""
        conversation = self.open(spec)
        from tau2.data_model.message import AssistantMessage, ToolCall
        from tau2.user import user_simulator

        sent: list[Any] = []
        answers = iter(says)

        def generate(model: Any, messages: Any, tools: Any, **_: Any) -> AssistantMessage:
            sent.append([one.model_dump(exclude={"timestamp"}) for one in messages])
            return _message(next(answers))

        def _message(said: Any) -> AssistantMessage:
            calls = None
            if not isinstance(said, str):
                calls = [ToolCall(id="c1", name=said["name"], arguments={})]
            return AssistantMessage(role="assistant", content=None if calls else said, tool_calls=calls)

        user_simulator.generate = generate
        ours: list[Any] = []
        ask = conversation.reset()
        theirs = user_simulator.UserSimulator(
            tools=[] if ask["ask"]["tools"] else None, instructions=str(conversation._task.user_scenario)
        )
        state = theirs.get_init_state()
        turns = iter(says)
        while "ask" in ask:
            ours.append(ask["ask"]["messages"])
            _, state = theirs.generate_next_message(conversation._orchestrator.message, state)
            said = next(turns)
            calls = [] if isinstance(said, str) else [{"id": "c1", **said, "arguments": {}}]
            ask = conversation.user_says(said if isinstance(said, str) else "", calls)
            if "ask" not in ask and not ask.get("done"):
                ask = conversation.step("Tell me more?")
        return [ours, sent]
