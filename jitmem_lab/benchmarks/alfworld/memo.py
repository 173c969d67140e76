"""Memoised pure functions of TextWorld's PDDL games: same texts and actions, several times faster.

Applied inside a worker process only. What is remembered: the translation of a problem (not made once more
for a planner that nobody asks, and kept on disk), parsed text templates, parsed queries,
copies of derivation contexts, which need not be deep because derivation only reads them, and the order of
facts between changes.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .translations import kept

_TASK_RULE = re.compile(r'("task": \[\s*\{\s*"rhs": )("(?:[^"\\]|\\.)*")')

PATCHES = ("pddl2sas", "text templates", "queries", "contexts", "game grammar", "fact order")
"""What `install` replaces, for provenance."""


class Memo:
    """What was installed."""

    planning = False
    """Whether the planner will be asked, so that it needs its own translation."""


def install(folder: Path | None = None) -> Memo:
    """Patch TextWorld in this process; translated games are kept in `folder`."""
    import fast_downward
    from textworld.envs.pddl import logic, textgen
    from textworld.logic import Rule

    remember = functools.lru_cache(maxsize=4096)
    translate = fast_downward.pddl2sas
    translated = kept(translate, folder)
    memo = Memo()

    def pddl2sas(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        if optimize and memo.planning:
            return translate(domain, problem, verbose=verbose, optimize=True)
        # The optimised form only serves the planner, which play never asks: the plain form stands in.
        return translated(domain, problem)

    fast_downward.pddl2sas = pddl2sas

    parse_text = remember(functools.partial(_parsed, textgen._parse_and_convert))
    textgen._parse_and_convert = lambda text, rule_name="", **_: clone(parse_text(text, rule_name))
    textgen.deepcopy = clone
    textgen.copy_context = copy_context
    Rule.parse_conjunctive_query = remember(Rule.parse_conjunctive_query)
    logic._parse_and_convert = _split_grammar(logic._parse_and_convert)
    _sort_facts_once(logic.PddlState)
    return memo


def _parsed(parse: Callable[..., Any], text: str, rule_name: str) -> Any:
    return parse(text, rule_name=rule_name)


def copy_context(context: dict[str, Any]) -> dict[str, Any]:
    """A derivation context whose own bindings can be extended; what they point at is only read."""
    return {**context, "variables": dict(context["variables"]), "mapping": dict(context["mapping"])}


def clone(value: Any) -> Any:
    """Fresh symbols (derivation writes contexts into them) that share everything else."""
    if isinstance(value, list):
        return [clone(item) for item in value]
    fresh = object.__new__(type(value))
    fresh.__dict__.update(value.__dict__)
    for name in ("symbol", "expression"):  # the symbol inside a list or a conditional
        inner = fresh.__dict__.get(name)
        if hasattr(inner, "context"):
            fresh.__dict__[name] = clone(inner)
    return fresh


def _sort_facts_once(state: type[Any]) -> None:
    """Keep each signature's facts in order between changes: a query sorts them every time."""
    add, remove = state.add_fact, state.remove_fact

    def facts_with_signature(self: Any, sig: Any) -> list[Any]:
        ordered = self.__dict__.setdefault("_ordered", {})
        if sig not in ordered:
            ordered[sig] = sorted(self._facts.get(sig, ()))
        found: list[Any] = ordered[sig]
        return found

    def add_fact(self: Any, prop: Any) -> None:
        self.__dict__.setdefault("_ordered", {}).pop(prop.signature, None)
        add(self, prop)

    def remove_fact(self: Any, prop: Any) -> None:
        self.__dict__.setdefault("_ordered", {}).pop(prop.signature, None)
        remove(self, prop)

    state.facts_with_signature = facts_with_signature
    state.add_fact = add_fact
    state.remove_fact = remove_fact


def _split_grammar(parse: Callable[..., Any]) -> Callable[..., Any]:
    """Parse a game's grammar once for all games: they differ in the task sentence only."""
    from textworld.envs.pddl.textgen import ContextSensitiveGrammar

    @functools.lru_cache(maxsize=8)
    def shared(text: str, rule_name: str) -> Any:
        return parse(text, rule_name=rule_name)

    def grammar(text: str, rule_name: str) -> Any:
        sentence = _TASK_RULE.search(text)
        if sentence is None:
            return parse(text, rule_name=rule_name)
        actions, rules = shared(_TASK_RULE.sub(r'\1"task"', text, count=1), rule_name)
        own = ContextSensitiveGrammar()
        own.update(rules)
        task = {"task": [{"rhs": json.loads(sentence[2])}]}
        own._rules["task"] = ContextSensitiveGrammar.parse(json.dumps(task))._rules["task"]
        return actions, own

    return grammar
