"""`make bases`: makes the base images that no registry has, and gives them to the engine that docker talks to."""

import sys

from recipe.errors import HallmarkError
from recipe.image import client, engine
from scripts.bases import archive, vllm

_BASES = {"cpu": vllm.cpu, "released": vllm.released, "arm64": vllm.arm64}


def main(names: list[str]) -> int:
    """Make and load the bases of these names; returns the exit status."""
    if not names or any(name not in _BASES for name in names):
        print(f"bases: name some of {', '.join(_BASES)}", file=sys.stderr)
        return 1
    try:
        docker = client.find()
        engine.check(docker)
        for name in names:
            made = _BASES[name]()
            archive.load(made, docker.program)
            print(f"{made.reference} {made.digest}")
    except HallmarkError as error:
        print(f"bases: {error}", file=sys.stderr)
        return int(error.exit)
    return 0


raise SystemExit(main(sys.argv[1:]))
