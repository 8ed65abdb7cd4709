"""Real vLLM in containers on two engines that are reached over SSH: launch, refuse, certify, roll back."""

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from recipe.config import paths
from recipe.errors import Exit
from scripts.bases import archive
from scripts.demo import install
from scripts.engines.group import Group
from tests.standin.world import free_ports

pytestmark = [pytest.mark.docker, pytest.mark.vllm]
_HALLMARK = Path(sys.executable).parent / "hallmark"
BAD, GOOD = (paths.CHECKOUT / "scripts" / "demo" / "profiles" / f"cpu-dev-{name}.yaml" for name in ("bad", "c"))


@dataclass(frozen=True)
class Result:
    """A finished `hallmark … --json`: its status, document and what it told."""

    status: int
    document: dict[str, Any]
    told: str


@dataclass(frozen=True)
class Two:
    """The shipped cluster of two nodes, with folders and ports of its own."""

    nodes: Group
    cluster: Path
    environment: dict[str, str]
    api: int

    def run(self, command: str, *words: str) -> Result:
        argv = [str(_HALLMARK), command, *words, "--json"]
        done = subprocess.run(argv, check=False, capture_output=True, text=True, env=self.environment)
        assert "Traceback" not in done.stderr
        return Result(done.returncode, json.loads(done.stdout), done.stderr)

    def done(self, command: str, *words: str) -> dict[str, Any]:
        result = self.run(command, *words)
        assert result.status == Exit.OK, result.told
        return result.document

    def answer(self) -> str:
        """What the group makes of a prompt that its model knows."""
        body = json.dumps({"model": "tiny", "prompt": "one two", "max_tokens": 3, "temperature": 0}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.api}/v1/completions", body, headers)
        with urllib.request.urlopen(request, timeout=60) as reply:
            text: str = json.load(reply)["choices"][0]["text"]
        return text

    def containers(self, *, every: bool = False) -> list[list[str]]:
        """By node, the names of the containers that run, or of all."""
        words = ["ps", "--format", "{{.Names}}", *(["--all"] if every else [])]
        return [sorted(engine.docker(*words).stdout.split()) for engine in self.nodes.engines]

    def images(self) -> list[str]:
        """By node, the image of the container that runs."""
        found = []
        for engine in self.nodes.engines:
            [name] = engine.docker("ps", "--quiet", "--filter", "label=dev.hallmark.group").stdout.split()
            found.append(engine.docker("inspect", "--format", "{{.Image}}", name).stdout.strip())
        return found


@pytest.fixture(scope="module")
def two(nodes: Group, cpu_base: archive.Base, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    root = tmp_path_factory.mktemp("two")
    install.model(install.environment(), root / "models" / "tiny-cycle")
    api, master = free_ports(2)
    values = yaml.safe_load((paths.CHECKOUT / "configs" / "clusters" / "local-two.example.yaml").read_text())
    values["profile"] = str(paths.CHECKOUT / "configs" / "profiles" / "cpu-dev.yaml")
    values["paths"] = {"state": str(root / "node"), "models": str(root / "models")}
    values["ports"] = {"api": api, "master": master}
    cluster = root / "two.yaml"
    cluster.write_text(yaml.safe_dump(values))
    found = {
        **os.environ,
        "DOCKER_HOST": nodes.engines[0].host,
        "HALLMARK_SSH_CONFIG": str(nodes.config),
        "HALLMARK_STATE": str(root / "state"),
        "HALLMARK_CACHE": str(paths.cache()),
    }
    made = Two(nodes, cluster, found, api)
    yield made
    made.run("stop", str(cluster))


@pytest.fixture(scope="module")
def built(two: Two) -> dict[str, str]:
    """By profile, the config digests of the images."""
    profiles = {"first": "cpu-dev", "bad": str(BAD), "good": str(GOOD)}
    return {name: two.done("image", profile)["config_digest"] for name, profile in profiles.items()}


def test_two_engines_serve_one_model_and_only_a_certified_image_comes_back(two: Two, built: dict[str, str]) -> None:
    """One story, because each start of two real ranks takes a minute."""
    name = str(two.cluster)
    two.done("key", "new", "ops")

    first = two.done("launch", name)
    assert (first["revision"], two.answer()) == (1, " three four five")
    assert two.images() == [built["first"]] * 2
    # What is not ours stays, whatever its name is.
    stranger = ("run", "--detach", "--network", "none", "--name", "hallmark-stranger")
    two.nodes.engines[1].docker(*stranger, "--entrypoint", "sleep", built["first"], "3600")
    try:
        assert two.done("launch", name)["changed"] is False
        found = two.done("status", name)
        assert (found["state"], [rank["name"] for rank in found["ranks"]]) == ("running", ["node-1", "node-2"])
        assert {f"sha256:{rank['digest']}" for rank in found["ranks"]} == {built["first"]}
        logs = two.done("logs", name)["logs"]
        assert any("Application startup complete" in line for line in logs["node-1"])
        assert logs["node-2"]
        certified = two.done("certify", name)
        assert certified["digest"] == built["first"]

        refused = two.run("launch", name, "--profile", str(BAD))
        assert refused.status == Exit.NOT_DONE
        assert "acceptance-ngram: fail" in refused.told
        assert "revision 1 is back and answers" in refused.told
        assert two.answer() == " three four five"

        two.done("launch", name, "--profile", str(GOOD))
        assert two.run("rollback", name, "--to", "3").status == Exit.NOT_DONE
        # The generation before is kept, stopped; that of the refused revision is gone.
        assert {it.rpartition(".")[2] for it in two.containers(every=True)[0]} == {"r1", "r3"}

        engine, tag = two.nodes.engines[0], two.done("image", "cpu-dev")["image"]
        engine.docker("tag", built["good"], tag)
        try:
            back = two.run("rollback", name)
        finally:
            engine.docker("tag", built["first"], tag)
        assert back.status == Exit.OK, back.told
        assert f"note: {tag} is another image now ({built['good']})" in back.told
        assert two.images() == [built["first"]] * 2
        revisions = two.done("history", name)["revisions"]
        assert [(it["number"], it["state"], it["restores"], it["certified"]) for it in revisions] == [
            (1, "committed", None, True),
            (2, "restored", None, False),
            (3, "committed", None, False),
            (4, "committed", 1, True),
        ]

        assert two.done("stop", name)["stopped"] == [4]
        assert two.containers() == [[], ["hallmark-stranger"]]
    finally:
        two.nodes.engines[1].docker("rm", "--force", "hallmark-stranger")
