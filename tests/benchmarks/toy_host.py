"""A toy host for worker tests: `tests/benchmarks/test_workers.py` reaches it by module name."""

import os
import time

from jitmem_lab.errors import UserError


class Host:
    def __init__(self, offset: int = 0) -> None:
        self.offset = offset

    def open(self, spec):
        if spec == "bad":
            raise ValueError("no such toy")
        return Toy(spec + self.offset)

    def add(self, a, b):
        return a + b

    def threads(self):
        return os.environ["OMP_NUM_THREADS"]


class Toy:
    def __init__(self, value: int) -> None:
        self.value = value

    def echo(self, text):
        return text

    def bump(self, by):
        self.value += by
        return self.value

    def sleep(self, seconds):
        time.sleep(seconds)
        return "slept"

    def spin(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pass

    def refuse(self):
        raise UserError("do it differently")

    def die(self):
        os._exit(3)

    def close(self) -> None:
        self.value = 0
