"""The engines that tests run on: apart from each other, reached over SSH, and gone afterwards."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recipe.config.paths import CHECKOUT
from recipe.errors import Refused
from scripts.bases.debian import Source
from scripts.engines.group import Group
from scripts.engines.newer import COSIGN, newer
from scripts.engines.process import Background
from tests.standin.world import until


@pytest.mark.docker
def test_each_node_leads_to_an_engine_of_its_own(nodes: Group) -> None:
    roots = [node.ssh("docker", "info", "--format", "{{.DockerRootDir}}").stdout.strip() for node in nodes.nodes]
    assert roots == [str(engine.folder / "data") for engine in nodes.engines]


@pytest.mark.docker
def test_a_node_is_refused_where_its_host_key_is_not_known(nodes: Group, tmp_path: Path) -> None:
    none = f"-oUserKnownHostsFile={tmp_path / 'none'}"
    done = subprocess.run(
        ["ssh", "-F", str(nodes.config), none, nodes.nodes[0].name, "true"], check=False, capture_output=True, text=True
    )
    assert (done.returncode, "Host key verification failed" in done.stderr) == (255, True)


def test_a_program_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path) -> None:
    started = Background(["sh", "-c", "echo no such setting >&2; exit 3"], tmp_path / "log")
    with pytest.raises(Refused, match="sh ended with 3: no such setting"):
        started.wait(lambda: False, 10)


def test_a_program_that_is_not_ready_in_time_is_ended(tmp_path: Path) -> None:
    started = Background(["sleep", "60"], tmp_path / "log")
    with pytest.raises(Refused, match="sleep was not ready after 0 s"):
        started.wait(lambda: False, 0.1)
    assert not Path(f"/proc/{started.pid}").exists()


_STARTS = """
import os, signal, sys
from pathlib import Path
from scripts.engines.process import Background
from tests.standin.world import until
# A session of its own, as that of a job of a slurmd or of a container.
started = Background(["sh", "-c", "setsid sh -c 'sleep 300 & echo $$ $! > rest' & wait"], Path("log"))
started.wait(lambda: Path("rest").is_file() and len(Path("rest").read_text().split()) == 2, 30)
Path("pids").write_text(f"{started.pid} {Path('rest').read_text()}")
{ends}
"""


@pytest.mark.parametrize(
    "ends", ["os.kill(os.getpid(), signal.SIGKILL)", "os.kill(os.getpid(), signal.SIGTERM)", "started.end()"]
)
def test_a_program_ends_with_all_that_came_of_it_however_its_starter_ends(tmp_path: Path, ends: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run([sys.executable, "-c", _STARTS.replace("{ends}", ends)], cwd=tmp_path, env=env, check=False)
    assert (done.returncode == 0) == (ends == "started.end()")
    pids = (tmp_path / "pids").read_text().split()
    assert len(pids) == 3
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def test_a_mirror_without_the_newer_debian_is_told_in_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("apt-get") is None:
        pytest.skip("there is no apt here")
    monkeypatch.setenv("HALLMARK_CACHE", str(tmp_path))
    monkeypatch.setattr("scripts.engines.newer.source", lambda: Source(f"file://{tmp_path}/mirror/", "bookworm"))
    with pytest.raises(Refused) as refused:
        newer(COSIGN)
    [problem] = refused.value.problems
    assert problem.message.startswith("cosign cannot be had from Debian trixie: E: The repository 'file:/")
    assert "does not have a Release file" in problem.message and "\n" not in str(problem)
    assert list((tmp_path / "trixie").iterdir()) == []
