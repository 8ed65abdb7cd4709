"""Runs inside the proofs' interpreter: reads `TREE<tab>PROOF`, one a line, and answers each with one line of JSON.

Started with the interpreter that has vLLM's dependencies. What they all import is imported once, before the forks:
one process for every tree, which imports vLLM, and from that one for every proof, so that none sees what another left.
"""

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TextIO
from unittest.mock import MagicMock

# The slow ones among the packages that vLLM imports whatever it is used for.
_SHARED = (
    *("torch._inductor.standalone_compile", "torch._inductor.lowering", "transformers.processing_utils"),
    *("transformers.models.auto.image_processing_auto", "transformers.modeling_gguf_pytorch_utils"),
    *("openai.types.responses", "fastapi", "tokenizers", "xgrammar"),
)
# Imported at the top of a module by 0.22 and 0.23, for checkpoints that no proof loads.
_STAND_INS = ("gguf", "gguf.constants", "gguf.quants")

# What most proofs ask, where a release has it.
_OF_VLLM = (
    "vllm.engine.arg_utils",
    "vllm.models.deepseek_v4.nvidia.model",
    "vllm.models.deepseek_v4.nvidia.dspark",
    "vllm.v1.worker.gpu_model_runner",
    "vllm.v1.worker.gpu.attn_utils",
)
_ENDED = json.dumps({"error": "the process ended; its standard error says why"})


class Fork:
    """A child that answers lines with lines; a line that it dies of is answered with the error."""

    def __init__(self, answer: Callable[[Iterable[str]], Iterable[str]]) -> None:
        reading, theirs = os.pipe()
        asked, writing = os.pipe()
        self._process = os.fork()
        if not self._process:
            try:
                os.close(reading)
                os.close(writing)
                with os.fdopen(asked) as questions, os.fdopen(theirs, "w") as answers:
                    for line in answer(questions):
                        answers.write(line + "\n")
                        answers.flush()
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(0)
        os.close(theirs)
        os.close(asked)
        self._answers, self._questions = os.fdopen(reading), os.fdopen(writing, "w")

    def ask(self, question: str) -> str:
        try:
            self._questions.write(question + "\n")
            self._questions.flush()
        except BrokenPipeError:
            return _ENDED
        return self._answers.readline().rstrip("\n") or _ENDED

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._questions.close()
        self._answers.close()
        os.waitpid(self._process, 0)


def main(questions: TextIO, answers: TextIO) -> None:
    for name in _SHARED:
        importlib.import_module(name)
    assert "vllm" not in sys.modules
    trees: dict[str, Fork] = {}
    for line in questions:
        tree, proof = line.rstrip("\n").split("\t")
        if tree not in trees:
            trees[tree] = Fork(lambda proofs, tree=Path(tree): on_tree(tree, proofs))  # type: ignore[misc]
        answers.write(trees[tree].ask(proof) + "\n")
        answers.flush()
    # The last first: every fork holds the pipes of those before it.
    for fork in reversed(trees.values()):
        fork.close()


def on_tree(tree: Path, proofs: Iterable[str]) -> Iterable[str]:
    """Import the vLLM of a tree, then answer every proof from a fork."""
    sys.path.insert(0, str(tree))
    sys.modules.update({name: MagicMock(name=f"stand-in for {name}") for name in _STAND_INS})
    import vllm

    for name in _OF_VLLM:
        if (tree / f"{name.replace('.', '/')}.py").is_file():
            importlib.import_module(name)
    assert Path(str(vllm.__file__)).is_relative_to(tree), f"{vllm.__file__} is not of {tree}"
    for proof in proofs:
        fork = Fork(lambda paths: (observation(Path(path.strip())) for path in paths))
        yield fork.ask(proof.strip())
        fork.close()


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
    # Only the proofs' own helpers come from the checkout; this folder has nothing to import.
    sys.path[0:1] = []
    sys.path.append(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w")
    # vLLM logs to standard output.
    os.dup2(2, 1)
    main(sys.stdin, answers)
