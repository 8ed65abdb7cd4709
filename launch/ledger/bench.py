"""What a benchmark needs to know about the group that a cluster runs."""

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from launch.engines.containers import DockerEngine
from launch.group.transition import Generation
from launch.ledger.judge import rank_logs
from launch.ledger.work import Work, api_key, work
from launch.plan.logs import lines
from launch.plan.served import serve_flags
from launch.proof.bench.program import ContainerProgram, LocalProgram, Program
from launch.proof.bench.run import Subject
from recipe.config.load import venv_folder
from recipe.errors import Refused


def of_cluster(
    home: Path, name: str, model: str | None, program: str | None, data: Path | None, say: Callable[[str], None]
) -> Subject:
    """The running group of a cluster. `program` is the vLLM program to take instead of the group's own.

    Errors: ConfigError; Refused when nothing runs.
    """
    opened = work(home, name, say)
    _, past = opened.look()
    if past.running is None:
        raise Refused(f"{name} runs nothing", hint=f"`hallmark launch {name}` first")
    generation = opened.generation(past.running)
    plan = generation.plan

    def head_log() -> Sequence[str]:
        return lines(rank_logs(opened.engine, generation)[0].text)

    found, inside = (LocalProgram(program), None) if program else _own(opened, generation)
    url = opened.engine.api_url(plan, generation.mark)
    return Subject(url, api_key(plan), model or plan.model_name, found, data, head_log, inside)


def on_path() -> Program | None:
    """The vLLM program on PATH, if there is one."""
    found = shutil.which("vllm")
    return LocalProgram(found) if found else None


def _own(opened: Work, generation: Generation) -> tuple[Program | None, str | None]:
    """The vLLM that serves, which has the same version and tokenizer: in the head's container, else in the environment
    that the cluster names, else whatever is on PATH; with the API's address there when it is another than here."""
    plan = generation.plan
    head = plan.ranks[0]
    if isinstance(opened.engine, DockerEngine) and head.container is not None:
        container = opened.engine.container(head, generation.mark)
        if container is not None:
            port = serve_flags(head.argv).get("port", "8000")
            inside = None if head.container.network == "host" else f"http://127.0.0.1:{port}"
            return ContainerProgram(head.place, container), inside
    venv = venv_folder(opened.cluster)
    own = venv / "bin" / "vllm" if venv else None
    return (LocalProgram(str(own)) if own is not None and own.is_file() else on_path()), None
