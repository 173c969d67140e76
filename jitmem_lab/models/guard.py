"""Runs one program and sees to it that nothing of it is left: `python guard.py SECONDS PROGRAM …`.

Its parent holds the other end of its standard input. When that closes, because the parent ended or was
killed, or on SIGTERM, the program and all that it started are told to end and, after SECONDS, killed.
Standard library only, run as a file: it must start at once, whatever is installed.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

_SUBREAPER, _DEATH_SIGNAL = 36, 1  # PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG of linux/prctl.h
_stop = False


def main(patience: float, command: Sequence[str]) -> int:
    """Run `command` until it ends or has to; its exit status, 128 and the signal's number if killed."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _asked)
    _prctl(_SUBREAPER, 1)  # children of children that lose their parent become ours, and are found
    try:
        program = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            # this process has one thread; without it a kill -9 of the guard would spare the program
            preexec_fn=lambda: _prctl(_DEATH_SIGNAL, signal.SIGTERM),
        )
    except OSError as error:
        print(f"{command[0]} cannot be started ({error.strerror})", file=sys.stderr, flush=True)
        return 127
    while program.poll() is None and not _stop and not _parent_gone(0.2):
        pass
    end_all(program, patience)
    status = program.wait()
    return 128 - status if status < 0 else status


def end_all(program: "subprocess.Popen[bytes]", patience: float) -> None:
    """End the program, its process group, and every descendant, also those in sessions of their own."""
    deadline = time.monotonic() + patience
    with contextlib.suppress(OSError):
        os.killpg(program.pid, signal.SIGTERM)
    told = False
    while _reap(program):
        if time.monotonic() > deadline:
            _signal(signal.SIGKILL)
        elif not told and program.poll() is not None:  # whoever is left has nobody to tell it
            told = True
            _signal(signal.SIGTERM)
        time.sleep(0.05)


def _signal(number: int) -> None:
    for pid in descendants():
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def descendants() -> list[int]:
    """Living processes below this one."""
    found, waiting = [], [os.getpid()]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        if pid != os.getpid():
            found.append(pid)
    return found


def _reap(program: "subprocess.Popen[bytes]") -> bool:
    """Whether any descendant is left once the dead have been collected."""
    program.poll()
    for pid in descendants():
        if pid != program.pid:
            with contextlib.suppress(OSError):  # only our own children can be collected
                os.waitpid(pid, os.WNOHANG)
    return bool(descendants())


def _parent_gone(seconds: float) -> bool:
    readable, _, _ = select.select([0], [], [], seconds)
    return bool(readable) and not os.read(0, 1)


def _asked(*_: object) -> None:
    global _stop
    _stop = True


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
