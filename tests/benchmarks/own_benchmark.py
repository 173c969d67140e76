# fmt: off
from jitmem_lab.benchmarks.pooled import PooledBenchmark


class Doors(PooledBenchmark):
    name, version, splits, noop = "doors", "1", ("train", "test"), "wait"
    def load(self, split): return [self.task(split, f"{split}-{n}", f"Open door {n}.") for n in range(9)]
    def oracle(self, task): return ["open " + task.task_id[-1]]
    def open(self, spec): return Door("open " + spec["task_id"][-1])  # in a worker process


class Door:
    def __init__(self, key): self.key = key
    def reset(self): return ("You see nine doors.", ["wait", *(f"open {n}" for n in range(9))])
    def step(self, action): return (*self.reset(), *3 * [action == self.key])  # then reward, done, success
