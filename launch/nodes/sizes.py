"""Asks the vLLM of a rank's image or environment, on the rank's own node, what it would hold in memory.

The model is only read, no GPU is touched, and what runs there goes on.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launch.nodes import reach, ssh
from launch.plan.group import RankPlan
from recipe.config import paths
from recipe.errors import HallmarkError, Refused, Unreachable
from recipe.image import pyz

_SECONDS = 900.0
# Nothing is looked up, and vLLM's log is not the answer.
_QUIET = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "CUDA_VISIBLE_DEVICES": "",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_FIND_PYTHON = paths.CHECKOUT / "dockerfiles" / "find-python.sh"


def ask(rank: RankPlan, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of recipe.image.inside.sizes; the rank has its home folder written out.

    Errors: Refused with what vLLM says against it; Unreachable.
    """
    question = base64.b64encode(json.dumps(request).encode()).decode()
    done = _here(rank, question) if rank.container is None else _in_image(rank, question)
    lines = done.stdout.strip().splitlines()
    try:
        found: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        told = done.stderr.strip().splitlines()
        raise Refused(
            f"node {rank.name}: the sizes were not told: {told[-1] if told else f'it ended with {done.returncode}'}"
        ) from None
    if "error" in found:
        message = f"this vLLM cannot be asked, or refuses: {found['error']} (at {found['where']})"
        raise Refused(message, where=f"node {rank.name}", hint="correct the profile when it is about a setting")
    return found


def _here(rank: RankPlan, question: str) -> "subprocess.CompletedProcess[str]":
    program = shutil.which(rank.argv[0], path=rank.env.get("PATH"))
    if program is None:
        raise HallmarkError(f"there is no program {rank.argv[0]!r}", where=rank.env.get("PATH"), hint="install vLLM")
    with tempfile.NamedTemporaryFile(suffix=f"-{pyz.SIZES}") as file:
        file.write(pyz.pack_sizes())
        file.flush()
        kept = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        try:
            return subprocess.run(
                [str(Path(program).with_name("python")), file.name, question],
                env={**kept, **rank.env, **_QUIET},
                check=False,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired:
            raise Unreachable(f"node {rank.name}: the sizes were not told within {_SECONDS:g} s") from None


def _in_image(rank: RankPlan, question: str) -> "subprocess.CompletedProcess[str]":
    box = rank.container
    assert box is not None
    script = f'base64 -d >/tmp/sizes.pyz\n{_FIND_PYTHON.read_text(encoding="utf-8")}\nexec $python /tmp/sizes.pyz "$1"'
    words = ["run", "--rm", "--interactive", "--pull", "never", "--network", "none", "--entrypoint", "sh"]
    for name, value in {**rank.env, **_QUIET}.items():
        words += ["--env", f"{name}={value}"]
    for mount in box.mounts:
        if mount.read_only:
            words += ["--mount", mount.option]
    words += [box.image, "-c", script, "sh", question]
    given = base64.encodebytes(pyz.pack_sizes()).decode()
    done = ssh.run(rank.place, reach.command(rank.place, *words), given=given, seconds=_SECONDS)
    if done.returncode in (125, 126, 127):
        raise reach.refused(rank.place, done, f"the image cannot be asked on {rank.name}")
    return done
