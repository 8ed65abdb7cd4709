"""The commands `render`, `profiles` and `clusters`: documents, texts, files, refusals."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from launch.cli.context import Context
from launch.cli.render import render
from launch.cli.show import clusters, profiles
from launch.engines.docker import run_argv
from launch.plan.group import Subject, plan_group
from recipe.config.check import check_cluster
from recipe.config.paths import CHECKOUT
from recipe.errors import HallmarkError


def run(command: click.Command, *words: str, as_json: bool = False) -> Result:
    result = CliRunner().invoke(command, list(words), obj=Context(CHECKOUT, as_json))
    if result.exception is not None and not isinstance(result.exception, HallmarkError):
        raise result.exception
    return result


def refusal(*words: str) -> HallmarkError:
    error = run(render, *words).exception
    assert isinstance(error, HallmarkError)
    return error


def test_json_is_alone_on_standard_output_and_warnings_are_beside_it() -> None:
    result = run(render, "two-spark.example", as_json=True)
    document = json.loads(result.stdout)
    assert (document["cluster"], document["engine"]) == ("two-spark.example", "docker")
    assert [node["name"] for node in document["nodes"]] == ["spark-a", "spark-b"]
    assert document["nodes"][1]["argv"][:2] == ["vllm", "serve"]
    assert document["nodes"][0].keys() >= {"name", "rank", "argv", "env", "container", "files"}
    assert "warning: " in result.stderr
    assert "asks for no key" in result.stderr


def test_an_image_of_a_release_is_named_after_its_patch_set() -> None:
    document = json.loads(run(render, "two-spark.example", as_json=True).stdout)
    subject = document["subject"]
    assert subject["reference"] == f"hallmark:gb10-nvfp4-0.33.0-{subject['patchset'][:8]}"
    assert document["nodes"][0]["container"]["labels"]["dev.hallmark.patchset"] == subject["patchset"]


def test_a_fork_is_its_own_image_and_a_given_image_is_taken() -> None:
    fork = json.loads(run(render, "two-spark-stage-d.example", as_json=True).stdout)
    assert fork["subject"] == {
        "kind": "image",
        "reference": "dsv4flash-experiment:dspark-nvfp4-stage-d",
        "patchset": None,
        "venv": None,
        "digest": None,
    }
    given = run(render, "two-spark-stage-d.example", "--image", "mine@sha256:1", as_json=True).stdout
    assert json.loads(given)["nodes"][0]["container"]["image"] == "mine@sha256:1"


@pytest.mark.parametrize("name", ["", " "])
@pytest.mark.parametrize("cluster", ["two-spark.example", "two-spark-stage-d.example"])
def test_an_empty_image_name_is_not_taken_for_the_base_image(cluster: str, name: str) -> None:
    assert "--image: names no image — write its name, or leave --image out" in str(refusal(cluster, "--image", name))


def test_an_option_of_docker_is_not_taken_for_an_image() -> None:
    said = str(refusal("two-spark.example", "--image", "--privileged"))
    assert "--image: '--privileged' is an option, not an image — write an image's name" in said


def test_a_written_file_gives_the_engine_exactly_the_planned_words(tmp_path: Path) -> None:
    image = "repo:it's $5"
    result = run(render, "two-spark-stage-d.example", "--image", image, "--out", str(tmp_path / "out"))
    assert result.exit_code == 0
    files = sorted((tmp_path / "out").iterdir())
    assert [file.name for file in files] == ["0-spark-a.sh", "1-spark-b.sh"]
    fake = tmp_path / "docker"
    fake.write_text('#!/bin/sh\nfor word; do printf "%s\\0" "$word"; done\n')
    fake.chmod(0o755)
    checked = check_cluster(CHECKOUT, "two-spark-stage-d.example")
    plan = plan_group(checked.profile, checked.cluster, Subject("image", image, None))
    for file, rank in zip(files, plan.ranks, strict=True):
        path = f"{tmp_path}:{os.environ['PATH']}"
        printed = subprocess.run([file], env={"PATH": path}, capture_output=True, text=True, check=True).stdout
        assert ["docker", *printed.split("\0")[:-1]] == list(run_argv(rank))


def test_the_text_has_a_block_for_each_node_and_the_address_at_the_end() -> None:
    text = run(render, "demo").stdout
    assert text.count("\n# node-") == 2
    assert text.rstrip().endswith("# model tiny at http://127.0.0.1:18000/v1")


def test_the_processes_of_this_machine_get_its_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    assert "vllm serve /home/somebody/.hallmark-demo/models/tiny-cycle" in run(render, "demo").stdout
    assert "/home/somebody" not in run(render, "two-spark.example").stdout


def test_another_engine_must_be_able_to_run_the_cluster() -> None:
    assert run(render, "demo", "--engine", "docker").exit_code == 0
    assert "paths.venv: is missing" in str(refusal("two-spark.example", "--engine", "process"))
    assert "not an image" in str(refusal("demo", "--image", "x"))


def unsigned(text: str) -> str:
    """Without the last line, by which the command knows that nobody edited a file."""
    content, mark, _ = text.rpartition("# written by hallmark render, sha256 of all lines above: ")
    assert mark
    return content


def test_the_files_of_an_engine_are_printed_kept_in_the_document_and_written(tmp_path: Path) -> None:
    digest = "registry.invalid/vllm@sha256:" + "a" * 64
    for words, names in (
        (("demo", "--engine", "slurm"), ["demo.sbatch"]),
        (("demo", "--engine", "systemd"), ["hallmark-demo-r0.service", "hallmark-demo-r1.service"]),
        (("demo", "--engine", "compose"), ["0-node-a.compose.yaml", "1-node-b.compose.yaml"]),
        (("kubernetes.example", "--image", digest), ["kubernetes.example.lws.yaml"]),
    ):
        out = tmp_path / words[-1]
        result = run(render, *words, "--out", str(out))
        assert result.exit_code == 0
        texts = {path.name: unsigned(path.read_text()) for path in sorted(out.iterdir())}
        assert list(texts) == names
        document = json.loads(run(render, *words, as_json=True).stdout)
        assert {name: text for node in document["nodes"] for name, text in node["files"].items()} == texts
        assert all(text.strip() in result.stdout for text in texts.values())
        assert all(os.access(path, os.X_OK) == (path.suffix == ".sbatch") for path in out.iterdir())


def test_kubernetes_is_not_given_an_image_that_may_become_another_one() -> None:
    assert "'hallmark:cpu-dev-" in str(refusal("demo", "--engine", "lws"))
    assert "names no registry" in str(refusal("demo", "--engine", "lws"))


def test_a_job_has_an_image_when_the_cluster_names_no_virtual_environment() -> None:
    digest = "registry.invalid:5000/org/vllm@sha256:" + "a" * 64
    script = run(render, "h200-8.example", "--engine", "slurm", "--image", digest).stdout
    assert f"--container-image='registry.invalid:5000#org/vllm@sha256:{'a' * 64}'" in script
    assert "#SBATCH --gpus-per-node=8\n" in script
    assert re.search(r"--container-mounts=/data/models/([^:/]+):/data/models/\1:ro,", script)


def test_only_an_environment_can_be_staged_here() -> None:
    assert "--stage: the docker engine runs an image" in str(refusal("two-spark.example", "--stage"))


def test_a_folder_that_cannot_be_written_is_one_clean_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in str(refusal("demo", "--out", str(tmp_path / "file")))


def test_a_file_that_is_there_is_replaced_and_what_a_link_names_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "demo.sbatch").symlink_to("precious")
    assert run(render, "demo", "--engine", "slurm", "--out", str(tmp_path)).exit_code == 0
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "demo.sbatch").read_text().startswith("#!/bin/bash\n")
    assert not (tmp_path / "demo.sbatch").is_symlink()


def test_a_file_that_was_edited_is_not_overwritten_and_no_other_is_written(tmp_path: Path) -> None:
    words = ("demo", "--engine", "compose", "--out", str(tmp_path))
    assert run(render, *words).exit_code == 0
    first, second = sorted(tmp_path.iterdir())
    # As it was written it is replaced, also when another profile is rendered into it.
    assert run(render, *words).exit_code == 0
    second.write_text(second.read_text().replace("restart: ", "restart:  "))
    first.unlink()
    said = str(refusal(*words))
    assert f"{second}: was edited since it was written, or is not of this command — move it away" in said
    assert (first.exists(), "restart:  " in second.read_text()) == (False, True)
    second.write_text("somebody's own\n")
    assert "is not of this command" in str(refusal(*words))


@pytest.mark.parametrize("word", ["--out", "--target"])
def test_an_empty_path_is_not_the_current_folder(word: str) -> None:
    """As a shell gives one whose variable is not set."""
    command = {"--out": ("render", "demo"), "--target": ("apply", "gb10-nvfp4")}[word]
    program = "from launch.cli.main import main; main()"
    words = [sys.executable, "-c", program, *command, word, ""]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=CHECKOUT)
    assert (done.returncode, "it is empty: name a file or folder" in done.stderr) == (1, True), done.stderr


def test_what_cannot_be_replaced_is_named_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    (tmp_path / "demo.sbatch").mkdir()
    said = str(refusal("demo", "--engine", "slurm", "--out", str(tmp_path)))
    assert f"{tmp_path}/demo.sbatch: cannot be written: Is a directory" in said
    assert [path.name for path in tmp_path.iterdir()] == ["demo.sbatch"]


def test_an_unknown_cluster_or_profile_lists_what_there_is() -> None:
    assert "there is no cluster 'two-sparc.example' — did you mean two-spark.example?" in str(
        refusal("two-sparc.example")
    )
    assert "there is no profile 'cpu-def' — did you mean cpu-dev?" in str(refusal("demo", "--profile", "cpu-def"))


def test_a_profile_for_another_number_of_nodes_is_refused() -> None:
    assert "2 nodes, but profile h200-fp8-dspark needs 1" in str(refusal("demo", "--profile", "h200-fp8-dspark"))


def test_profiles_are_listed_with_hardware_version_and_one_line() -> None:
    text = run(profiles).stdout
    assert "PROFILE" in text.splitlines()[0]
    assert any(line.split()[:5] == ["gb10-nvfp4", "2", "×", "gb10", "0.33.0"] for line in text.splitlines())
    document = {entry["name"]: entry for entry in json.loads(run(profiles, as_json=True).stdout)["profiles"]}
    assert document["h200-fp8-dspark"]["pins"] == {"torch": "2.14.0"}
    assert document["gb10-nvfp4-original"]["vllm"] == "fork aidendle94-sparkrun-ds4"


def test_clusters_are_listed_with_profile_engine_and_nodes() -> None:
    document = {entry["name"]: entry for entry in json.loads(run(clusters, as_json=True).stdout)["clusters"]}
    assert document["demo"] == {
        "name": "demo",
        "profile": "cpu-dev",
        "engine": "process",
        "nodes": ["node-a", "node-b"],
    }
    assert "demo" in run(clusters).stdout


@pytest.mark.parametrize(
    "words",
    [
        ("slurm.example",),
        ("h200-8.example", "--engine", "slurm", "--image", "registry.invalid/vllm@sha256:" + "a" * 64),
    ],
)
def test_shellcheck_finds_no_fault_in_a_job(words: tuple[str, ...]) -> None:
    script = run(render, *words).stdout
    program = Path(sys.executable).parent / "shellcheck"
    done = subprocess.run([program, "--shell=bash", "-"], input=script, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
