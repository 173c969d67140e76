"""Several processes that train together, as `accelerate launch` starts them: who writes, what all agree."""

from __future__ import annotations

import os
from typing import Any


def rank() -> int:
    """This process's number; 0 writes the run directory."""
    return int(os.environ.get("RANK", "0"))


def world() -> int:
    """Number of processes."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def any_of(flag: bool) -> bool:
    """Whether the flag is set in any process; all must ask."""
    import torch

    if world() == 1 or not torch.distributed.is_initialized():
        return flag
    told = torch.tensor([int(flag)])
    if torch.distributed.get_backend() == "nccl":
        told = told.cuda()
    torch.distributed.all_reduce(told, torch.distributed.ReduceOp.MAX)
    return bool(told.item())


def gathered(values: list[Any]) -> list[Any]:
    """Every process's values, one process's after another's; all must ask."""
    import torch

    if world() == 1 or not torch.distributed.is_initialized():
        return values
    found: list[list[Any]] = [[] for _ in range(world())]
    torch.distributed.all_gather_object(found, values)
    return [value for part in found for value in part]


def wait_for_all() -> None:
    """Wait until every process is here."""
    import torch

    if world() > 1 and torch.distributed.is_initialized():
        torch.distributed.barrier()
