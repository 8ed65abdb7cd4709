"""The engines that tests run on: apart from each other, reached over SSH, and gone afterwards."""

import subprocess
from pathlib import Path

import pytest

from recipe.errors import Refused
from scripts.engines.group import Group
from scripts.engines.process import Background


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
