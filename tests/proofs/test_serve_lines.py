"""The serve line of every shipped profile for GPUs on arm64, read by the patched vLLM of its release, as an image build
would.

The images of these profiles that CI builds have the sources only, so that this check is skipped in them; the others are
built on the whole release, and read it themselves.
"""

import json
import subprocess
from pathlib import Path

import pytest

from recipe.catalogue.compile import compile_profile
from recipe.config.check import check_profile
from recipe.config.load import load_hardware, load_profile, load_support, names
from recipe.config.paths import CHECKOUT
from recipe.image import checks, pyz
from scripts.demo import install
from tests.proofs import trees

pytestmark = [pytest.mark.wheel, pytest.mark.vllm]
RELEASE = "0.33.0"
PROFILES = [
    name
    for name in names(CHECKOUT, "profiles")
    if (profile := load_profile(CHECKOUT, name).value).release == RELEASE
    and load_hardware(CHECKOUT, profile.hardware).value.architecture == "arm64"
]
_DRIVER = """
import json, sys
from pathlib import Path
archive, site, file = map(Path, sys.argv[1:])
sys.path.insert(0, str(archive))
from checks import platform, request, serve
asked = request.load(file, site, Path("/"))
platform.stand_in(asked)
print(json.dumps(serve.check(asked).to_json()))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trees.patched(RELEASE, tmp_path_factory.mktemp("lines") / "site")


@pytest.mark.parametrize("profile", PROFILES)
def test_the_release_takes_the_serve_line_of_the_profile(site: Path, tmp_path: Path, profile: str) -> None:
    checked = check_profile(CHECKOUT, profile)
    archive, request = tmp_path / pyz.CHECKS, tmp_path / "request.json"
    archive.write_bytes(pyz.pack_checks())
    request.write_bytes(checks.request(checked, load_support(CHECKOUT).value, compile_profile(checked.profile)))
    # Each profile has a process of its own: modules of vLLM keep the platform that they were imported on.
    words = [str(install.environment() / "bin" / "python"), "-B", "-c", _DRIVER, str(archive), str(site), str(request)]
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": str(site), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert (said["verdict"], said["problems"]) == ("pass", [])
