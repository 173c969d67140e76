"""memharness: at each step the agent asks its memory, weighs what comes and writes it anew for that step.

Stores: short memories, each a situation and what to do then (1,200 characters each at most), with how many
    episodes were shown it and how many of those succeeded. With `stores="trajectories"`, successful
    trajectories instead, cut to as many characters.
Written: after every episode by one model call, at most two memories from success or failure alike; one
    whose cosine with a kept one is 0.85 or more isn't inserted. The memories that the episode was shown are
    counted; one below a utility of 0.35, (successes + 1) / (uses + 2), after 3 uses is pruned.
Found: before an action the model writes a query between tags, or none: then there is no memory at this
    step. The 3 memories nearest to it by cosine, near-duplicates of a better one left out.
Shown: by a second call the model weighs them and rebuilds a few sentences for this step alone, which are
    its payload; where it finds that nothing fits, there is none.
Costs: Up to two calls at every step, and one after each episode; queries and memories are embedded.
Source: arXiv 2607.28272; github.com/KnowledgeXLab/MemHarness, whose one model (Qwen2.5-7B) is trained to do
    all this; here it is prompted. As there: top 3 of 24, 1,200 characters, 0.85, 2 turns of history, 512
    tokens at 0.7. The variant `alfworld` is that of its ALFWorld run: no check for near-duplicates, since
    details matter there, and pruning below 0.3. The JitMem authors have no port of it. The variant `small`,
    for models of a few hundred million parameters, keeps trajectories and continues texts every 5 turns.
Chosen here: a success is what the judge says (`gate="environment"` is as published, whose utilities and
    rewards come from the environment). The query is a call of its own and costs no turn (there it takes the
    place of an action); both calls are recorded as `curator`, made while acting, so that the executor's own
    figures stay comparable. One call rebuilds all three memories (there one call each). With nothing in
    memory nothing is asked. An answer that rejects all gives no payload (there a sentence that says so).
    Pruned at each write (there every 20 training steps), and an episode counts one use of a memory, however
    often it showed it. With BM25 only equal texts are duplicates.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

from ..embedding import Embedder
from ..errors import UserError
from ..models.base import ChatModel
from ..parsing import parse_json_object
from ..records import Recall, Task
from ..session import Session
from ..traces import cut_middle, trace_text
from .asking import LONGEST, Asking, folded
from .base import Companion
from .continuing import SMALL, Form
from .finding import How
from .items import Change, Item
from .written import Attempted, Written, WrittenMemory

Stores = Literal["memories", "trajectories"]
"""`memories`: what a model draws from an episode (published). `trajectories`: successes as they are."""

MOST_MEMORIES = 2
"""Memories drawn from one episode (published)."""
FETCHED = 24
"""Memories looked at before near-duplicates are left out (published)."""


class MemHarness(WrittenMemory):
    """MemHarness, prompted: the executor's model asks for memory step by step and rebuilds it.

    Args:
        model: The model that asks, rebuilds and writes: the executor's.
        k: Memories found for a query.
        retrieval, embedder: How they are found.
        stores: What is kept of an episode.
        form: How the model is asked. When it continues a text, it always queries, and rebuilds a plan.
        every: Turns from one look into memory to the next; what the last one gave stands until then.
        history: Last turns told in the prompts.
        duplicate: Cosine from which a text counts as known; None keeps and shows all.
        prune_below: Utility below which a memory goes; None keeps all.
        prune_after: Uses before it may go.
        step_tokens: Longest query and longest rebuilt memory; None takes `max_tokens`.
        options: As for `WrittenMemory`.

    Raises:
        UserError: A value out of its range, or dense retrieval without an embedder.
    """

    name = "memharness"
    VARIANTS: ClassVar[dict[str, dict[str, Any]]] = {
        "alfworld": {"duplicate": None, "prune_below": 0.3},
        "small": SMALL | {"stores": "trajectories", "every": 5, "step_tokens": 60},
    }

    def __init__(
        self,
        *,
        model: ChatModel,
        k: int = 3,
        retrieval: How = "dense",
        embedder: Embedder | None = None,
        max_tokens: int = 512,
        stores: Stores = "memories",
        form: Form = "ask",
        every: int = 1,
        history: int = 2,
        duplicate: float | None = 0.85,
        prune_below: float | None = 0.35,
        prune_after: int = 3,
        step_tokens: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            model=model, k=k, retrieval=retrieval, embedder=embedder, max_tokens=max_tokens, **options
        )
        for option, value, known in (("stores", stores, Stores), ("form", form, Form)):
            if value not in get_args(known):
                raise UserError(f"{option} must be one of {', '.join(get_args(known))}, not {value!r}")
        longest = self.sampling.max_tokens if step_tokens is None else step_tokens
        if min(every, prune_after, longest) < 1 or history < 0:
            raise UserError("every, prune_after and step_tokens must be 1 or more, and history 0 or more")
        self.stores = stores
        self.form = form
        self.every = every
        self.history = history
        self.duplicate = duplicate
        self.prune_below = prune_below
        self.prune_after = prune_after
        longest = min(longest, self.sampling.max_tokens)
        self.step_sampling = self.sampling.model_copy(update={"max_tokens": longest})

    def prompts(self) -> tuple[str, ...]:
        """For the query, the rebuilding and, where memories are drawn, that."""
        learn = ("memharness_learn",) if self.stores == "memories" else ()
        form = "" if self.form == "ask" else "_continue"
        return (f"memharness_query{form}", f"memharness_rebuild{form}", *learn)

    def parameters(self) -> dict[str, Any]:
        """What is kept, when memory is asked, and what goes again."""
        return {
            "stores": self.stores,
            "form": self.form,
            "every": self.every,
            "history": self.history,
            "duplicate": self.duplicate,
            "prune_below": self.prune_below,
            "prune_after": self.prune_after,
            "step_tokens": self.step_sampling.max_tokens,
        }

    def found_by(self, data: dict[str, Any]) -> str:
        """The memory itself."""
        return str(data.get("text", ""))

    def show(self, task: Task, items: list[Item], session: Session) -> Recall:
        """Nothing yet: it is given step by step."""
        return Recall()

    def companion(self, task: Task, snapshot: int, recall: Recall) -> Companion:
        """What asks this memory during one episode."""
        items = self.store.items(at=snapshot)
        return Asking(self, task, [one for one in items if not (self.exclude_own and self.is_own(one, task))])

    def digest(self, attempted: Attempted, items: list[Item], session: Session) -> Written:
        """Uses counted and memories pruned, then what the episode adds."""
        drawn, refused = self._drawn(attempted, session)
        changes = self._counted(attempted, items)
        gone = {change.item for change in changes if change.op == "delete"}
        texts = [item.data["text"] for item in items if item.id not in gone]
        for data in drawn:
            alike = 0.0
            if self.duplicate is not None:
                alike = self.finder.likeness(data["text"], texts, session)
            if self.duplicate is not None and alike >= self.duplicate:
                refused.append(f"near-duplicate ({alike:.2f}): {data['text'][:200]}")
            else:
                changes.append(Change("insert", "memory", data))
                texts.append(data["text"])
        return Written(changes, {"refused": refused} if refused else {})

    def _counted(self, attempted: Attempted, items: list[Item]) -> list[Change]:
        """One use more for each memory that the episode was shown, and one success if it was one."""
        shown = {number for step in attempted.recall.notes.get("steps", []) for number in step["shown"]}
        changes = []
        for item in items:
            if item.id in shown:
                uses, wins = item.data["uses"] + 1, item.data["successes"] + attempted.success
                below = self.prune_below is not None and (wins + 1) / (uses + 2) < self.prune_below
                if below and uses >= self.prune_after:
                    changes.append(Change("delete", "memory", item=item.id))
                else:
                    data = item.data | {"uses": uses, "successes": wins}
                    changes.append(Change("update", "memory", data, item.id))
        return changes

    def _drawn(self, attempted: Attempted, session: Session) -> tuple[list[dict[str, Any]], list[str]]:
        """New memories from an episode, and what of the answer can't be used."""
        task = attempted.trajectory.task
        base = {"task_id": task.task_id, "success": attempted.success, "uses": 0, "successes": 0}
        if self.stores == "trajectories":
            trace = cut_middle(trace_text(attempted.trajectory, self.trace_format), LONGEST).text
            situation = cut_middle(task.description, LONGEST).text
            return ([base | {"situation": situation, "text": trace}] if attempted.success else []), []
        answer = self.ask("memharness_learn", session, attempted)
        given = (parse_json_object(answer) or {}).get("memories")
        if not isinstance(given, list):
            return [], [f"no list of memories in the answer: {answer[:200]}"]
        drawn: list[dict[str, Any]] = []
        refused: list[str] = []
        for one in given:
            text = folded(one.get("memory")) if isinstance(one, dict) else ""
            if not text:
                refused.append(f"no memory: {str(one)[:200]}")
            elif len(drawn) == MOST_MEMORIES:
                refused.append(f"more than {MOST_MEMORIES} memories: {text[:200]}")
            else:
                drawn.append(base | {"situation": folded(one.get("situation")), "text": text})
        return drawn, refused[:20]

    def near(self, query: str, items: list[Item], session: Session) -> list[Item]:
        """The memories nearest to a query, near-duplicates of a better one left out."""
        texts = [item.data["text"] for item in items]
        found: list[int] = []
        for hit in self.finder.find(query, texts, self.k if self.duplicate is None else FETCHED, session):
            ahead = [texts[place] for place in found]
            if (
                self.duplicate is None
                or self.finder.likeness(texts[hit.place], ahead, session) < self.duplicate
            ):
                found.append(hit.place)
            if len(found) == self.k:
                break
        return [items[place] for place in found]
