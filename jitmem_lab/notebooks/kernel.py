"""The kernel of a notebook run: which one, started, watched, interrupted and never left behind."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from jupyter_client.manager import AsyncKernelManager
from nbformat.v4 import new_output
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines

from .installed import Specs, last_line
from .outputs import OUTPUT_LIMIT, BoundedStream, shorten

ENGINE = "jitmem"
"""Name of our engine in papermill's registry."""
INTERRUPT_SECONDS = 20.0
"""How long an interrupted cell may take to end before its kernel is killed."""
_log = logging.getLogger("jitmem_lab.notebooks")
_log.addHandler(logging.NullHandler())


class Watch:
    """What goes on in a notebook run, shared by the client, the status file and the signal handler.

    Args:
        on_cell: Told of the index of each cell as it starts.
        deadline: Value of `time.monotonic` at which the run has taken too long.
    """

    def __init__(self, on_cell: Callable[[int], None], deadline: float | None = None) -> None:
        self.on_cell = on_cell
        self.deadline = deadline
        self.cell = -1
        self.interrupted = False
        self.group: int | None = None
        self.kernel_log = tempfile.TemporaryFile()  # noqa: SIM115

    def cell_start(self, index: int) -> None:
        """A cell starts; raises KeyboardInterrupt if the run was interrupted meanwhile."""
        if self.interrupted:
            raise KeyboardInterrupt
        self.cell = index
        self.on_cell(index)

    def last_words(self) -> str:
        """Last line that the kernel process itself wrote to its standard error."""
        return last_line(self.kernel_log)

    def signal_kernel(self, number: int) -> None:
        """Send a signal to the kernel and all that it started."""
        if self.group:
            with contextlib.suppress(OSError):
                os.killpg(self.group, number)

    def interrupt(self) -> None:
        """Interrupt the running cell; a second time, or after `INTERRUPT_SECONDS`, kill the kernel."""
        if self.group is None:
            self.interrupted = True
            raise KeyboardInterrupt
        if self.interrupted:
            self.signal_kernel(signal.SIGKILL)
            return
        self.interrupted = True
        self.signal_kernel(signal.SIGINT)
        timer = threading.Timer(INTERRUPT_SECONDS, self.signal_kernel, [signal.SIGKILL])
        timer.daemon = True
        timer.start()

    @contextlib.contextmanager
    def signals(self) -> Iterator[None]:
        """Ctrl-C and a polite kill interrupt the notebook instead of leaving its kernel behind."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
        before = {n: signal.getsignal(n) for n in numbers if signal.getsignal(n) != signal.SIG_IGN}
        for number in before:
            signal.signal(number, lambda *_: self.interrupt())
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def sweep(self) -> None:
        """End what the kernel left running in its process group; a detached job is not in it."""
        group, self.group = self.group, None
        if not group or group == os.getpgrp():
            return
        for number, patience in ((signal.SIGTERM, 2.0), (signal.SIGKILL, 0.0)):
            with contextlib.suppress(OSError):
                os.killpg(group, number)
                end = time.monotonic() + patience
                while time.monotonic() < end:
                    os.killpg(group, 0)
                    time.sleep(0.05)


class Client(PapermillNotebookClient):
    """Papermill's client with bounded outputs, our kernel and no process left behind."""

    def __init__(self, nb_man: Any, watch: Watch, echo: bool = False, **settings: Any) -> None:
        self.watch = watch
        self.echo = echo
        self._streams: dict[str, tuple[Any, BoundedStream]] = {}
        self._note: tuple[Any, int] = (None, 0)
        super().__init__(nb_man, raise_on_iopub_timeout=False, iopub_timeout=120, **settings)
        self.on_cell_start = lambda cell, cell_index: watch.cell_start(cell_index)
        self.timeout_func = self._seconds_left

    def _seconds_left(self, cell: Any) -> int | None:
        deadline = self.watch.deadline
        return None if deadline is None else max(1, round(deadline - time.monotonic()))

    def create_kernel_manager(self) -> Any:
        """A manager of the chosen kernel."""
        self.km = AsyncKernelManager(kernel_name=self.kernel_name, kernel_spec_manager=Specs())
        self.km.shutdown_wait_time = 10.0
        return self.km

    @contextlib.contextmanager
    def setup_kernel(self, **kwargs: Any) -> Iterator[None]:
        """Start the kernel, and end it and its children whatever happens."""
        manager: Any = self.create_kernel_manager()
        streams = {"stdout": self.watch.kernel_log, "stderr": self.watch.kernel_log}
        try:
            with super().setup_kernel(cleanup_kc=True, **streams, **kwargs):
                self.watch.group = getattr(manager.provisioner, "pgid", None)
                yield
        finally:
            self.watch.group = getattr(manager.provisioner, "pgid", None)
            if self.km is not None and self.km.has_kernel:
                self._cleanup_kernel()
            self.watch.sweep()

    def output(self, outs: list[Any], msg: dict[str, Any], display_id: str | None, cell_index: int) -> Any:
        """Append an output; streams are merged and bounded, and of a flood the middle is left out."""
        if self.output_hook_stack[msg["parent_header"].get("msg_id")]:
            return super().output(outs, msg, display_id, cell_index)
        content = msg["content"]
        if msg["msg_type"] == "stream":
            if self.echo:
                print(content["text"], end="", file=sys.stderr, flush=True)
            if not self.clear_before_next_output and self._merge(outs, content):
                return None
        out = super().output(outs, msg, display_id, cell_index)
        if out is not None and out.output_type == "stream":
            stream = BoundedStream()
            stream.feed(out.text)
            out.text = stream.text()
            self._streams[out.name] = (out, stream)
        elif out is not None:
            shorten(out)
        if len(outs) > OUTPUT_LIMIT:
            self._thin(outs, cell_index)
        return out

    def _merge(self, outs: list[Any], content: dict[str, Any]) -> bool:
        """Feed a message into the same stream's output, if only streams were written since."""
        out, stream = self._streams.get(content["name"], (None, None))
        for last in reversed(outs):
            if last is out and stream is not None:
                stream.feed(content["text"])
                out.text = stream.text()
                return True
            if last.output_type != "stream":
                break
        return False

    def _thin(self, outs: list[Any], cell_index: int) -> None:
        """Take the oldest output of the second half out, and count it in a note between the halves."""
        middle = OUTPUT_LIMIT // 2
        note, count = self._note
        if not any(out is note for out in outs):
            note, count = new_output("stream", name="stderr", text=""), 1
            outs[middle] = note
            self._forget(cell_index, middle, shift=0)
        else:
            del outs[middle + 1]
            self._forget(cell_index, middle + 1, shift=1)
            count += 1
        note.text = f"… {count:,} outputs left out …\n"
        self._note = (note, count)

    def _forget(self, cell_index: int, gone: int, shift: int) -> None:
        """Keep the places of displays that may be updated right after an output was taken out."""
        for places in self._display_id_map.values():
            old = places.get(cell_index, [])
            places[cell_index] = [index - shift * (index > gone) for index in old if index != gone]


class Engine(NBClientEngine):
    """Papermill's engine with our client."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **kwargs: Any) -> Any:
        """Run all cells of the managed notebook."""
        return Client(
            nb_man,
            kwargs["watch"],
            echo=kwargs["echo"],
            kernel_name=kernel_name,
            startup_timeout=kwargs.get("start_timeout", 60),
            log=_log,
        ).execute()


papermill_engines.register(ENGINE, Engine)
