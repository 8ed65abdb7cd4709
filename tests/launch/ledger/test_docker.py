"""Real vLLM in containers on two engines that are reached over SSH: adopt, certify, launch, refuse, roll back."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from launch.proof import attached
from launch.proof.client import Client
from recipe.config import paths
from recipe.errors import Exit
from recipe.image.reference import repository
from recipe.image.registry import Repository
from scripts.bases import archive
from scripts.demo import install
from scripts.engines import registry
from scripts.engines.group import Group
from tests.standin.world import free_ports

pytestmark = [pytest.mark.docker, pytest.mark.vllm]
_HALLMARK = Path(sys.executable).parent / "hallmark"
_START_SECONDS = 300
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
    repository: str
    store: registry.Registry
    elsewhere: Path

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

    def by_hand(self, image: str) -> None:
        """Start what the profile would run as a person does: pull it, and `docker run` without any of our labels."""
        for engine, node in zip(self.nodes.engines, self.done("render", str(self.cluster))["nodes"], strict=True):
            mounts = [it for it in node["container"]["mounts"] if it["read_only"]]
            words = ["run", "--detach", "--name", f"by-hand-{node['rank']}", "--network", "host", "--shm-size", "16g"]
            words += [f"--env={name}={value}" for name, value in node["env"].items()]
            words += [f"--volume={it['source']}:{it['target']}:ro" for it in mounts]
            engine.docker("pull", "--quiet", image)
            engine.docker(*words, "--entrypoint", node["argv"][0], image, *node["argv"][1:])
        deadline = time.monotonic() + _START_SECONDS
        while True:
            try:
                assert self.answer() == " three four five"
                return
            except OSError:
                assert time.monotonic() < deadline
                time.sleep(0.5)


@pytest.fixture(scope="module")
def two(nodes: Group, cpu_base: archive.Base, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    root = tmp_path_factory.mktemp("two")
    install.model(install.environment(), root / "models" / "tiny-cycle")
    api, master, port = free_ports(3)
    # In the cache, so that two gigabytes are compressed once; tags never move, so those of earlier runs go.
    stored = paths.cache() / "registry-of-tests"
    for tags in stored.glob("data/docker/registry/v2/repositories/*/_manifests"):
        shutil.rmtree(tags)
    store = registry.start(stored, port)
    where = f"{store.address}/vllm"
    values = yaml.safe_load((paths.CHECKOUT / "configs" / "clusters" / "local-two.example.yaml").read_text())
    values["profile"] = str(paths.CHECKOUT / "configs" / "profiles" / "cpu-dev.yaml")
    values["paths"] = {"state": str(root / "node"), "models": str(root / "models")}
    values["ports"] = {"api": api, "master": master}
    values["registry"] = where
    cluster = root / "two.yaml"
    cluster.write_text(yaml.safe_dump(values))
    # The same profile for another kind of hardware.
    elsewhere = root / "elsewhere" / "cpu-dev.yaml"
    kind = root / "home" / "configs" / "hardware" / "cpu-elsewhere.yaml"
    for path in (elsewhere, kind):
        path.parent.mkdir(parents=True)
    kind.write_text((paths.CHECKOUT / "configs" / "hardware" / "cpu.yaml").read_text())
    profile = (paths.CHECKOUT / "configs" / "profiles" / "cpu-dev.yaml").read_text()
    elsewhere.write_text(profile.replace("hardware: cpu\n", "hardware: cpu-elsewhere\n"))
    found = {
        **os.environ,
        "HALLMARK_HOME": str(root / "home"),
        "DOCKER_HOST": nodes.engines[0].host,
        "HALLMARK_SSH_CONFIG": str(nodes.config),
        "HALLMARK_STATE": str(root / "state"),
        "HALLMARK_CACHE": str(paths.cache()),
    }
    made = Two(nodes, cluster, found, api, where, store, elsewhere)
    yield made
    made.run("stop", str(cluster))
    store.end()


@pytest.fixture(scope="module")
def built(two: Two) -> dict[str, dict[str, Any]]:
    """By name, what was built and pushed."""
    profiles = {"first": "cpu-dev", "bad": str(BAD), "good": str(GOOD)}
    return {name: two.done("image", profile, "--push", two.repository) for name, profile in profiles.items()}


def only_for_its_own_image_and_hardware(two: Two, tag: str, built: dict[str, dict[str, Any]]) -> None:
    """What is attached to the first image counts neither beside another one nor on another kind of hardware."""
    name, good = str(two.cluster), built["good"]["manifest_digest"]
    with Repository(repository(two.repository, None)) as there:
        copied = there.manifest(attached.tag(built["first"]["manifest_digest"]))
        assert copied is not None
        there.put_manifest(attached.tag(good), copied.kind, copied.content)
    beside = two.run("certificate", "verify", f"{two.repository}@{good}")
    assert beside.status == Exit.MISMATCH
    assert any(it.startswith("wrong digest: ") for it in beside.document["reasons"])
    trial = two.run("launch", name, "--image", f"{two.repository}@{good}", "--dry-run")
    assert (trial.status, "wrong digest: it is about" in trial.told) == (Exit.OK, True), trial.told
    other = two.run("launch", name, "--profile", str(two.elsewhere), "--image", tag, "--dry-run")
    said = "wrong hardware: it was tested on cpu, not cpu-elsewhere" in other.told
    assert (other.status, said) == (Exit.OK, True), other.told
    listed = two.done("certificate", "list", name)["certificates"]
    assert sorted((it["valid"], it["revisions"]) for it in listed) == [(False, []), (True, [f"{two.cluster.stem}/1"])]


def test_a_group_started_by_hand_is_certified_replaced_and_the_only_one_that_comes_back(
    two: Two, built: dict[str, dict[str, Any]]
) -> None:
    """One story, because each start of two real ranks takes a minute."""
    name, first = str(two.cluster), built["first"]
    two.done("key", "new", "ops")
    two.by_hand(f"{two.repository}@{first['manifest_digest']}")
    # What nobody adopted stays, whatever its name is.
    stranger = ("run", "--detach", "--network", "none", "--name", "hallmark-stranger")
    two.nodes.engines[1].docker(*stranger, "--entrypoint", "sleep", first["config_digest"], "3600")
    try:
        adopted = two.done("adopt", name)
        assert (adopted["revision"], adopted["digest"]) == (1, first["config_digest"])
        assert any("/root/.cache/vllm is nothing" in line for line in adopted["differences"])
        certified = two.done("certify", name)
        assert certified["digest"] == first["config_digest"]
        assert certified["attached"] == f"{two.repository}@{first['manifest_digest']}"
        assert two.done("certificate", "verify", certified["tag"])["valid"]

        launched = two.done("launch", name, "--profile", str(GOOD))
        assert (launched["revision"], launched["trial"], two.answer()) == (2, True, " three four five")
        assert two.done("launch", name, "--profile", str(GOOD))["changed"] is False
        found = two.done("status", name)
        assert (found["state"], [rank["name"] for rank in found["ranks"]]) == ("running", ["node-1", "node-2"])
        assert {f"sha256:{rank['digest']}" for rank in found["ranks"]} == {built["good"]["config_digest"]}
        logs = two.done("logs", name)["logs"]
        assert any("Application startup complete" in line for line in logs["node-1"])
        assert logs["node-2"]

        before = two.containers(every=True)[0]
        # The image on the head is asked; nothing of it stays there.
        told = two.done("fit", name, "--profile", str(GOOD))
        assert (told["source"], told["problem"], told["measured"]["available_bytes"]) == ("log", None, 2**30)
        assert [gpu["pool_tokens"] for gpu in told["gpus"]] == [told["measured"]["pool_tokens"]] * 2
        assert two.containers(every=True)[0] == before

        _loads_with_the_vllm_of_the_image(two, name)
        _a_token_that_is_not_the_models_own_is_seen(two)

        refused = two.run("launch", name, "--profile", str(BAD))
        assert refused.status == Exit.NOT_DONE
        assert "acceptance-ngram: fail" in refused.told
        assert "revision 2 is back and answers" in refused.told
        assert two.answer() == " three four five"

        assert two.run("rollback", name, "--to", built["good"]["image"]).status == Exit.NOT_DONE
        only_for_its_own_image_and_hardware(two, certified["tag"], built)
        two.done("key", "new", "second")
        assert two.done("certify", name, "--key", "second", "--expires", "90")["revision"] == 2

        engine, tag = two.nodes.engines[0], certified["tag"]
        engine.docker("tag", built["good"]["config_digest"], tag)
        engine.docker("push", tag)
        rehearsed = two.run("rollback", name, "--to", tag, "--dry-run")
        assert (rehearsed.status, rehearsed.document["restores"]) == (Exit.OK, 1), rehearsed.told
        moved = f"{tag} names {built['good']['config_digest']} now, but certified was {first['config_digest']}"
        assert moved in rehearsed.told
        # The nodes have what is needed, so a registry that is down is only told of.
        two.store.end()
        back = two.run("rollback", name, "--to", tag)
        assert back.status == Exit.OK, back.told
        assert f"note: what {tag} names now is not known: the registry" in back.told
        assert "note: signed by ops (" in back.told
        assert two.containers() == [["by-hand-0"], ["by-hand-1", "hallmark-stranger"]]
        revisions = two.done("history", name)["revisions"]
        assert [(it["number"], it["state"], it["restores"], it["certified"]) for it in revisions] == [
            (1, "adopted", None, True),
            (2, "committed", None, True),
            (3, "restored", None, False),
            (4, "committed", 1, True),
        ]
        changed = two.done("history", name, "--diff", "1", "2")
        assert changed["facts"]["digest"] == [first["config_digest"], built["good"]["config_digest"]]
        assert changed["ranks"]

        [second] = [it["keyid"] for it in two.done("key", "list")["keys"] if it["name"] == "second"]
        two.done("key", "revoke", second)
        revoked = two.run("rollback", name)
        assert (revoked.status, "its certificate: revoked key: second" in revoked.told) == (Exit.NOT_DONE, True)
        assert two.containers() == [["by-hand-0"], ["by-hand-1", "hallmark-stranger"]]

        assert two.done("stop", name)["stopped"] == [4]
        assert two.containers() == [[], ["hallmark-stranger"]]
    finally:
        for place, names in ((0, ["by-hand-0"]), (1, ["by-hand-1", "hallmark-stranger"])):
            two.nodes.engines[place].docker("rm", "--force", *names, check=False)


def _loads_with_the_vllm_of_the_image(two: Two, name: str) -> None:
    presets = two.cluster.parent / "configs" / "bench"
    presets.mkdir(parents=True)
    (presets / "small.yaml").write_text("{kind: load, summary: s, requests: 8, concurrency: 4, output-tokens: 32}")
    home = two.environment["HALLMARK_HOME"]
    two.environment["HALLMARK_HOME"] = str(two.cluster.parent)
    found = two.done("bench", name, "--preset", "small")
    two.environment["HALLMARK_HOME"] = home
    assert (found["load"]["report"]["completed"], found["load"]["report"]["total_output_tokens"]) == (8, 256)
    assert found["flaws"] == []
    assert (found["logged"]["accepted"], found["logged"]["drafted"]) == (
        found["counted"]["accepted"],
        found["counted"]["draft_tokens"],
    )
    # A path of the container: the program ran there.
    assert not Path(found["load"]["report"]["tokenizer_id"]).exists()


def _a_token_that_is_not_the_models_own_is_seen(two: Two) -> None:
    """What the gates of kind speculation rest on, with vLLM's own answers."""
    with Client(f"http://127.0.0.1:{two.api}") as client:
        told = client.tokens("tiny", "one two", tokens=6, deadline=60)
        own = [*told.prompt_ids, *told.ids]
        assert [one.behind for one in client.choices("tiny", own, deadline=60)] == [0.0] * len(own)
        own[-2] = own[0]
        behind = [one.behind for one in client.choices("tiny", own, deadline=60)]
    # The word after it follows the wrong one, and is behind as well.
    assert [nats > 1 for nats in behind] == [False] * (len(own) - 2) + [True, True]
