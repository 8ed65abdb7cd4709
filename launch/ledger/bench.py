"""What a benchmark needs to know about the group that a cluster runs."""

from collections.abc import Callable, Sequence
from pathlib import Path

from launch.ledger.judge import rank_logs
from launch.ledger.work import api_key, work
from launch.plan.logs import lines
from launch.proof.bench.run import Subject
from recipe.config.load import venv_folder
from recipe.errors import Refused


def of_cluster(
    home: Path, name: str, model: str | None, program: str | None, data: Path | None, say: Callable[[str], None]
) -> Subject:
    """The running group of a cluster. Errors: ConfigError; Refused when nothing runs."""
    opened = work(home, name, say)
    _, past = opened.look()
    if past.running is None:
        raise Refused(f"{name} runs nothing", hint=f"`hallmark launch {name}` first")
    generation = opened.generation(past.running)
    plan = generation.plan
    # Its own vLLM sends the load where there is one on this machine: the same tokenizer, the same version.
    venv = venv_folder(opened.cluster)
    own = venv / "bin" / "vllm" if venv else None

    def head_log() -> Sequence[str]:
        return lines(rank_logs(opened.engine, generation)[0].text)

    chosen = str(own) if own is not None and own.is_file() else program
    return Subject(
        opened.engine.api_url(plan, generation.mark), api_key(plan), model or plan.model_name, chosen, data, head_log
    )
