"""Runs `vllm bench serve`: with a vLLM of this machine, or with the one in the head's own container."""

import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from launch.nodes import reach, ssh
from launch.plan.place import Place
from recipe.errors import HallmarkError, Refused

_KEY = "OPENAI_API_KEY"
_REPORT = "report.json"
# The data comes through standard input and the report goes out the same way, so that nothing is left in the container.
INSIDE = """
folder=$(mktemp -d) || exit
trap 'rm -rf "$folder"' EXIT
cat > "$folder/data.json" || exit
"$@" --dataset-path "$folder/data.json" --result-dir "$folder" --result-filename report.json >&2 || exit
cat "$folder/report.json"
"""


class Program(Protocol):
    """A vLLM program that can send a load."""

    def serve(self, words: Sequence[str], data: Path, api_key: str | None, deadline: float) -> str:
        """Run `vllm bench serve` with these words and this ShareGPT file; gives its report, as text.

        Errors: Refused when it fails or does not end within `deadline` seconds, with its last lines; HallmarkError when
        there is no such program; Unreachable.
        """


@dataclass(frozen=True)
class LocalProgram:
    """A vLLM program of this machine, by its path."""

    path: str

    def serve(self, words: Sequence[str], data: Path, api_key: str | None, deadline: float) -> str:
        with tempfile.TemporaryDirectory(prefix="hallmark-bench-") as folder:
            argv = [
                *(self.path, "bench", "serve", *words),
                *("--dataset-path", str(data), "--result-dir", folder, "--result-filename", _REPORT),
            ]
            environment = {**os.environ, "HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "1")}
            if api_key:
                environment[_KEY] = api_key
            try:
                done = subprocess.run(
                    argv,
                    env=environment,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=deadline,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise _late(deadline) from None
            except OSError as error:
                raise HallmarkError(
                    f"{self.path} cannot be run: {error.strerror}", hint="name a vLLM program with --vllm"
                ) from None
            if done.returncode:
                raise _failed(done)
            try:
                return (Path(folder) / _REPORT).read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise HallmarkError(f"`vllm bench serve` left no report that can be read: {error}") from None


@dataclass(frozen=True)
class ContainerProgram:
    """The vLLM of the image, run beside the server in its container: the same version, tokenizer and files."""

    place: Place
    container: str

    def serve(self, words: Sequence[str], data: Path, api_key: str | None, deadline: float) -> str:
        variables = {_KEY: api_key} if api_key else {}
        passed = [word for name in variables for word in ("--env", name)]
        argv = reach.command(
            self.place,
            *("exec", "--interactive", *passed, self.container, "sh", "-c", INSIDE, "sh"),
            *("vllm", "bench", "serve", *words),
        )
        given = data.read_text(encoding="utf-8")
        try:
            done = reach.run(self.place, argv, variables=variables, given=given, seconds=deadline, once=True)
        except ssh.Late:
            raise _late(deadline) from None
        if done.returncode:
            raise _failed(done)
        return done.stdout


def _late(deadline: float) -> Refused:
    return Refused(f"`vllm bench serve` did not finish within {deadline:g} s", hint="raise `deadline` in the preset")


def _failed(done: "subprocess.CompletedProcess[str]") -> Refused:
    return Refused(f"`vllm bench serve` failed with exit {done.returncode}: {done.stderr.strip()[-600:]}")
