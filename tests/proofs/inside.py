"""Runs inside a proof's interpreter: takes paths of proofs, one a line, and answers each with one line of JSON.

Started with the interpreter that has vLLM's dependencies and with one source tree first on its path. Whatever takes
long to import is imported once; every proof then runs in a fork of its own, so that none sees what another left.
"""

import importlib.util
import json
import os
import sys
import traceback
from pathlib import Path


def main() -> None:
    tree, checkout = Path(sys.argv[1]), Path(sys.argv[2])
    # Behind everything else: only the proofs' own helpers come from there.
    sys.path.append(str(checkout))
    answers = os.fdopen(os.dup(1), "w")
    # vLLM logs to standard output.
    os.dup2(2, 1)
    import vllm
    import vllm.config
    import vllm.engine.arg_utils

    assert Path(str(vllm.__file__)).is_relative_to(tree), f"{vllm.__file__} is not of {tree}"
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            with os.fdopen(writing, "w") as pipe:
                pipe.write(observation(Path(line.strip())))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            answer = pipe.read()
        _, status = os.waitpid(child, 0)
        answers.write((answer or json.dumps({"error": f"ended with status {status}"})) + "\n")
        answers.flush()


def observation(path: Path) -> str:
    """`{"saw": what observe() returned}`, or `{"error": traceback}`, as JSON."""
    try:
        import torch

        # The threads of the process that was forked are not here.
        torch.set_num_threads(1)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None and spec.loader is not None
        proof = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(proof)
        return json.dumps({"saw": proof.observe()}, default=str)
    except BaseException:
        return json.dumps({"error": traceback.format_exc()})


if __name__ == "__main__":
    main()
