"""What the vLLM in an image says to a profile's serve line; every file of tests/cases/serve-line is one line.

All cases run in one process of the real vLLM 0.32.0 for the CPU, which takes half a minute to import.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from recipe.config.flags import flags
from recipe.config.paths import CHECKOUT
from recipe.errors import Refused
from recipe.image import pyz
from scripts.demo.install import environment

pytestmark = pytest.mark.vllm
CASES = sorted((CHECKOUT / "tests/cases/serve-line").glob("*.yaml"))
_DRIVER = """
import json, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from checks import platform, request, serve
site = Path(sys.argv[2])
asked = {name: request.load(Path(file), site, Path("/")) for name, file in json.loads(sys.argv[3]).items()}
platform.stand_in(next(iter(asked.values())))
print(json.dumps({name: serve.check(it).to_json() for name, it in asked.items()}))
"""


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("serve")
    (folder / pyz.CHECKS).write_bytes(pyz.pack_checks())
    files = {}
    for path in CASES:
        serve = yaml.safe_load(path.read_text())["serve"]
        asked = [{"name": f, "words": flags({f: v}), "where": f"serve.{f}"} for f, v in serve.items()]
        document: dict[str, Any] = {"machine": "", "device": "cuda", "capability": [12, 1], "gpus": 1, "model": "m"}
        document |= {"flags": asked, "environment": {}, "compiles": None, "deepgemm": False, "pins": {}, "patchset": ""}
        (folder / f"{path.stem}.json").write_text(json.dumps(document))
        files[path.stem] = str(folder / f"{path.stem}.json")
    try:
        venv = environment()
    except Refused as error:
        pytest.skip(str(error))
    site = next(venv.glob("lib/python3.*/site-packages"))
    words = [str(venv / "bin/python"), "-B", "-c", _DRIVER, str(folder / pyz.CHECKS), str(site), json.dumps(files)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_vllm_in_the_image_says(said: dict[str, Any], path: Path) -> None:
    wanted = yaml.safe_load(path.read_text())["problems"]
    found = said[path.stem]
    assert found["verdict"] == ("fail" if wanted else "pass"), found
    assert len(found["problems"]) == len(wanted), found["problems"]
    for problem, start in zip(found["problems"], wanted, strict=True):
        assert problem.startswith(start)
