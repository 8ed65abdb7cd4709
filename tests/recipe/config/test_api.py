"""What is said about routes without a key, held against the application that vLLM itself makes."""

import json
import subprocess

import pytest

from recipe.config.load import load_api, load_profile
from recipe.config.paths import CHECKOUT
from scripts.demo.install import environment

RELEASE = "0.32.0"
# Everything but an engine: the application with the middleware that asks for the key, and its routes.
SCRIPT = """
import json, sys
from vllm.entrypoints.launchers.app import build_app
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.entrypoints.serve.middleware.authenticate import GUARDED_PREFIX
from vllm.utils.argparse_utils import FlexibleArgumentParser

def paths(routes):
    for route in routes:
        if hasattr(route, "path"):
            yield route.path
        inner = getattr(route, "original_router", None)
        if inner is not None:
            yield from paths(inner.routes)

found = []
for words in ([], ["--disable-fastapi-docs"]):
    arguments = make_arg_parser(FlexibleArgumentParser()).parse_args(["--model", "x", "--api-key", "k", *words])
    found.append(sorted(set(paths(build_app(arguments, ("generate",)).routes))))
print(json.dumps([GUARDED_PREFIX, *found]))
"""


@pytest.mark.vllm
def test_the_routes_that_are_listed_are_those_of_vllm_itself() -> None:
    python = environment() / "bin" / "python"
    done = subprocess.run([str(python), "-c", SCRIPT], check=True, capture_output=True, text=True)
    prefixes, everything, without_docs = json.loads(done.stdout.splitlines()[-1])
    known = load_api(CHECKOUT).value
    [guarded] = [row for row in known.guarded if row.releases == (">=0.27",)]
    assert guarded.prefixes == tuple(prefixes)
    profile = load_profile(CHECKOUT, "cpu-dev").value
    assert profile.release == RELEASE
    for there, flags in ((everything, {}), (without_docs, {"disable-fastapi-docs": True})):
        served = profile.model_copy(update={"serve": {**profile.serve, **flags}})
        unguarded = [path for path in there if not path.startswith(tuple(prefixes))]
        assert sorted(route.path for route in known.left_open(served)) == unguarded
