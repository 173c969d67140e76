"""Memoised pure functions of TextWorld's PDDL games: same texts and actions, several times faster.

Applied inside a worker process only. What is remembered: the translation of a problem (once instead of
twice per start, and not once more for a planner that nobody asks), parsed text templates, parsed queries,
and copies of derivation contexts, which need not be deep because derivation only reads them.
"""

from __future__ import annotations

import copy
import functools
import json
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

_TASK_RULE = re.compile(r'("task": \[\s*\{\s*"rhs": )("(?:[^"\\]|\\.)*")')

PATCHES = ("pddl2sas", "text templates", "queries", "contexts", "game grammar")
"""What `install` replaces, for provenance."""


def remember(function: Callable[..., Any], size: int) -> Callable[..., Any]:
    """`function` of hashable positional arguments with its `size` latest answers kept."""
    return functools.lru_cache(maxsize=size)(function)


def install(sas_games: int = 16) -> None:
    """Patch TextWorld in this process; `sas_games` is how many translated problems are kept."""
    import fast_downward
    from textworld.envs.pddl import logic, textgen
    from textworld.logic import Rule

    translate = fast_downward.pddl2sas
    translations: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def pddl2sas(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        # The optimised form only serves the planner, which play never asks: the plain form stands in.
        key = (domain, problem)
        if key in translations:
            translations.move_to_end(key)
        else:
            translations[key] = translate(domain, problem, verbose=verbose)
            if len(translations) > sas_games:
                translations.popitem(last=False)
        return translations[key]

    fast_downward.pddl2sas = pddl2sas

    parse_text = remember(lambda text, rule: textgen_parse(text, rule_name=rule), 4096)
    textgen_parse = textgen._parse_and_convert

    def text_template(text: str, rule_name: str = "", **_: Any) -> Any:
        return copy.deepcopy(parse_text(text, rule_name))  # derivation writes contexts into the symbols

    textgen._parse_and_convert = text_template

    Rule.parse_conjunctive_query = remember(Rule.parse_conjunctive_query, 4096)

    def copy_context(context: dict[str, Any]) -> dict[str, Any]:
        return {**context, "variables": dict(context["variables"]), "mapping": dict(context["mapping"])}

    textgen.copy_context = copy_context

    logic._parse_and_convert = _split_grammar(logic._parse_and_convert)


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
