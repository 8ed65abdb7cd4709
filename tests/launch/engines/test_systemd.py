"""Units, read by systemd itself."""

import re
import subprocess
from pathlib import Path

import pytest

from launch.engines import systemd
from launch.plan.group import GroupPlan, at_home
from scripts.engines.packages import program
from tests.conftest import possible
from tests.readers.groups import TRAPPED, loaded, plan

_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')
_ESCAPE = re.compile(r"\\(.)")


@pytest.fixture
def group(tmp_path: Path) -> GroupPlan:
    profile, cluster = TRAPPED
    env = {**profile["env"], "HF_TOKEN": "env:MY_TOKEN"}
    checked = loaded({**profile, "env": env}, cluster, "systemd", tmp_path)
    return plan(checked, tmp_path)


def verify(group: GroupPlan, folder: Path, level: str = "info") -> "subprocess.CompletedProcess[str]":
    with possible():
        analyze = program("systemd-analyze", "systemd")
    files = []
    for rank in group.ranks:
        files.append(folder / systemd.name(group.cluster, rank))
        files[-1].write_text(systemd.text(group.cluster, rank))
    words = [analyze, "--user", "--man=no", "verify", *map(str, files)]
    env = {"XDG_RUNTIME_DIR": str(folder), "HOME": str(folder), "PATH": "/usr/bin:/bin", "SYSTEMD_LOG_LEVEL": level}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=env)


def test_systemd_finds_no_fault_in_the_units(group: GroupPlan, tmp_path: Path) -> None:
    vllm = tmp_path / "venv" / "bin" / "vllm"
    vllm.parent.mkdir(parents=True)
    vllm.write_text("#!/bin/sh\n")
    vllm.chmod(0o755)
    done = verify(group, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_systemd_reads_the_variables_and_arguments_of_the_plan(group: GroupPlan, tmp_path: Path) -> None:
    """It prints what it read of a unit as it debugs."""
    _, *units = verify(group, tmp_path, "debug").stdout.split("\t-> Unit ")
    for rank, unit in zip((at_home(rank, str(tmp_path)) for rank in group.ranks), units, strict=True):
        for name, value in rank.env.items():
            assert f"\n\t\tEnvironment: {name}={value}\n" in unit
        [line] = re.findall(r"^\t+Command Line: (.*)$", unit, re.MULTILINE)
        words = [
            _ESCAPE.sub(lambda it: {"n": "\n", "t": "\t"}.get(it[1], it[1]), a or b) for a, b in _WORD.findall(line)
        ]
        assert [word.replace("$$", "$") for word in words] == list(rank.argv)


def test_systemd_would_say_so(group: GroupPlan, tmp_path: Path) -> None:
    done = verify(group, tmp_path)
    assert done.returncode != 0
    assert "vllm is not executable" in done.stderr


def test_a_secret_is_read_from_a_file_of_its_own(group: GroupPlan) -> None:
    text = systemd.text(group.cluster, group.ranks[0])
    assert "EnvironmentFile=%h/.config/hallmark/x.env\n" in text
    assert "HF_TOKEN=" not in text.replace("write HF_TOKEN=…", "")
