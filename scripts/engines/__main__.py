"""`python -m scripts.engines COUNT COMMAND…`: runs a command beside nodes of its own, and ends them after it.

The command finds engine 1 in DOCKER_HOST, and the ssh configuration of all nodes in HALLMARK_SSH_CONFIG.
`python -m scripts.engines slurm COMMAND…`: the same beside a Slurm of two nodes, which it finds in SLURM_CONF.
"""

import os
import subprocess
import sys

from recipe.errors import HallmarkError
from scripts.engines import slurm
from scripts.engines.group import running
from scripts.engines.process import end_in_order


def main(words: list[str]) -> int:
    """Run the command; returns its exit status."""
    if len(words) < 2 or not (words[0].isdigit() or words[0] == "slurm"):
        print("engines: write COUNT COMMAND…, or slurm COMMAND…", file=sys.stderr)
        return 1
    end_in_order()
    try:
        if words[0] == "slurm":
            with slurm.running() as found:
                env = {**os.environ, "SLURM_CONF": str(found.config)}
                return subprocess.run(words[1:], check=False, env=env).returncode
        with running(int(words[0])) as group:
            names = {"DOCKER_HOST": group.engines[0].host, "HALLMARK_SSH_CONFIG": str(group.config)}
            return subprocess.run(words[1:], check=False, env={**os.environ, **names}).returncode
    except HallmarkError as error:
        print(f"engines: {error}", file=sys.stderr)
        return int(error.exit)
    except KeyboardInterrupt:
        return 130


raise SystemExit(main(sys.argv[1:]))
