"""Every proof, on the sources as released and on the patched ones.

A proof is a file `proof_*.py` here: `PATCH` (or None), `CASES`, and `observe()`, which runs inside an interpreter
with vLLM's dependencies, imports vLLM's real modules from one tree, and returns what it saw as a JSON value.
"""

import importlib
import platform
from pathlib import Path
from typing import Any

import pytest

from recipe.catalogue import compile as catalogue
from tests.proofs.case import Case
from tests.proofs.conftest import Observe

pytestmark = [
    pytest.mark.wheel,
    pytest.mark.vllm,
    pytest.mark.skipif(
        (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="vLLM's CPU build is for Linux on x86-64"
    ),
]

# What CI runs; --every-release runs all that the proofs name. Each tree costs an import of vLLM.
CI = ("0.22.0", "0.23.1rc1.dev788", "0.25.0", "0.26.0", "0.27.0", "0.33.0")

PROOFS = sorted(Path(__file__).parent.glob("proof_*.py"))


def proof(path: Path) -> Any:
    return importlib.import_module(f"tests.proofs.{path.stem}")


QUESTIONS = [(path, case, release) for path in PROOFS for case in proof(path).CASES for release in case.releases]
# Sorted by release, so that one test after the other asks the same processes.
QUESTIONS.sort(key=lambda question: question[2])


@pytest.mark.parametrize(
    ("path", "case", "release"), QUESTIONS, ids=[f"{release}-{path.stem[6:]}" for path, _, release in QUESTIONS]
)
def test_the_released_modules_have_the_fault_and_the_patched_ones_do_not(
    path: Path, case: Case, release: str, observe: Observe, request: pytest.FixtureRequest
) -> None:
    if release not in CI and not request.config.getoption("--every-release"):
        pytest.skip("not among the releases of CI; --every-release runs it")
    assert case.unchanged == (case.released == case.patched)
    assert observe(path, release, False) == case.released
    assert observe(path, release, True) == case.patched


@pytest.mark.parametrize("path", PROOFS, ids=lambda path: path.stem)
def test_a_proof_is_about_a_patch_of_the_catalogue(path: Path) -> None:
    assert proof(path).PATCH in catalogue.series()
    assert proof(path).CASES
