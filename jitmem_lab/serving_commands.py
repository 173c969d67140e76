"""`jitmem serve-model`: a vLLM server with what our roles need, ended without leftovers."""

from __future__ import annotations

import json
import shlex
import signal
import time
from pathlib import Path

import click

from .terminal import Seconds, note


@click.command("serve-model", context_settings={"ignore_unknown_options": False})
@click.argument("model")
@click.argument("extra", nargs=-1, type=click.UNPROCESSED)
@click.option("--name", default="", help="The model's name on the server; by default MODEL or its last part.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="0: a free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Another one needs VLLM_API_KEY.")
@click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto", show_default=True)
@click.option("--max-model-len", type=click.IntRange(min=1), help="Longest prompt and answer in tokens.")
@click.option("--gpu-memory", default=0.9, show_default=True, help="Share of the GPU's memory.")
@click.option("--cpu-memory", default=2, show_default=True, type=click.IntRange(min=1), help="GiB of cache.")
@click.option("--tool-parser", default="hermes", show_default=True, help="none for a model without tools.")
@click.option("--program", metavar="PATH", help="vLLM's program, or PYTHON -m MODULE.")
@click.option("--log", type=click.Path(path_type=Path, dir_okay=False), help="File of what the server says.")
@click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    default=900.0,
    show_default=True,
    help="Seconds that loading may take.",
)
@click.option("--dry-run", is_flag=True, help="Print the command and start nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object once the server answers.")
def serve_model_command(
    model: str,
    extra: tuple[str, ...],
    name: str,
    port: int,
    host: str,
    device: str,
    max_model_len: int | None,
    gpu_memory: float,
    cpu_memory: int,
    tool_parser: str,
    program: str | None,
    log: Path | None,
    timeout: float,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Serve MODEL (a path, a hub id, or smol) with vLLM until Ctrl-C.

    Once it answers, what to give a run as model is printed. Arguments after -- go to vLLM as they are:

        jitmem serve-model Qwen/Qwen3-8B --max-model-len 40960 -- --data-parallel-size 4
    """
    from .models.serving import ModelServer, Serving, command_line, environment, find_program

    if model == "smol":
        from .models import smol

        model, name = str(smol.model_dir() if dry_run else smol.ensure()), name or "smol"
    serving = Serving(
        model, name, port, host, device, max_model_len or 0, gpu_memory, cpu_memory,
        "" if tool_parser == "none" else tool_parser, extra,
    )  # fmt: skip
    if dry_run:
        words = find_program(program) if program else ["vllm"]
        variables = [f"{key}={value}" for key, value in environment(serving).items()]
        print(" ".join([*variables, shlex.join(command_line(serving, words))]))
        return 0
    ready = False
    before = {number: signal.signal(number, _interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with ModelServer(serving, program, log) as server:
            note(f"loading {server.serving.served}; the log is {server.log}")
            server.wait_ready(timeout, note)
            ready = True
            about = {"model": server.spec, "url": f"{server.url}/v1", "log": str(server.log)}
            print(json.dumps({**about, "command": server.command}) if as_json else server.spec, flush=True)
            note("Ctrl-C ends it")
            while True:
                server.check_alive()
                time.sleep(0.5)
    except KeyboardInterrupt:
        if not ready:
            raise
        note("ended")
        return 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt("ended by a signal before the model was loaded")
