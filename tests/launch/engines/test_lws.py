"""The manifests for Kubernetes: every field has its reason, and Kubernetes' own schemas take them. No cluster is asked.

tests/cases/engines/lws-fields.yaml has a row for each field: why it is there, and what it must be.
"""

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from launch.engines import lws
from launch.plan.group import GroupPlan, Subject, plan_group
from recipe.config.check import Checked, check_cluster
from recipe.config.paths import CHECKOUT
from recipe.errors import HallmarkError
from tests.readers import kubernetes

CASES = CHECKOUT / "tests" / "cases" / "engines"
SCHEMA = CHECKOUT.parent / "shared" / "schemas" / "leaderworkerset.json"
IMAGE = "registry.example/vllm@sha256:" + "a" * 64
VERSION = "1.37"


@pytest.fixture(scope="module")
def checked() -> Checked:
    found = check_cluster(CHECKOUT, "kubernetes.example")
    env = {**found.profile.value.env, "HF_TOKEN": "env:HF_TOKEN"}
    return replace(found, profile=replace(found.profile, value=found.profile.value.model_copy(update={"env": env})))


def planned(checked: Checked, image: str = IMAGE) -> GroupPlan:
    return plan_group(checked.profile, checked.cluster, Subject("image", image, "b" * 64))


@pytest.fixture(scope="module")
def text(checked: Checked) -> str:
    return lws.text(planned(checked), checked, "c" * 64)


def leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every field by its path; items of a list of mappings by their names."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for inner in value:
            yield from leaves(inner, f"{path}[{inner['name']}]")
    else:
        yield path, value


def test_every_field_has_a_reason_and_the_value_that_it_asks_for(text: str) -> None:
    rows = yaml.safe_load((CASES / "lws-fields.yaml").read_text())
    found = dict(leaf for kind, one in kubernetes.documents(text).items() for leaf in leaves(one, kind))
    unused = {row["field"] for row in rows}
    for path, value in found.items():
        row = next((row for row in rows if re.fullmatch(row["field"], path)), None)
        assert row is not None, f"nobody says why there is {path}"
        assert row["why"]
        assert value == row.get("is", value), path
        unused.discard(row["field"])
    assert unused == set(), "fields that are not rendered any more"


def test_pods_and_the_other_manifests_pass_the_schemas_of_kubernetes(text: str) -> None:
    for rank in (0, 1):
        pod = {"apiVersion": "v1", "kind": "Pod", **kubernetes.template(text, rank)}
        kubernetes_validate.validate(pod, VERSION, strict=True)
        pod["spec"]["containers"][0]["imagee"] = "x"
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(pod, VERSION, strict=True)
    for kind in ("Service", "ConfigMap"):
        kubernetes_validate.validate(kubernetes.documents(text)[kind], VERSION, strict=True)


@pytest.mark.skipif(not SCHEMA.is_file(), reason="the schema of LeaderWorkerSet is not here")
def test_the_set_passes_the_schema_of_leaderworkerset(text: str) -> None:
    schema = _closed(json.loads(SCHEMA.read_text())["openAPIV3Schema"])
    schema["properties"]["kind"] = {"const": "LeaderWorkerSet"}
    found = kubernetes.documents(text)["LeaderWorkerSet"]
    jsonschema.Draft202012Validator(schema).validate(found)
    for key, wrong in (("restartPolicy", "RecreateGroup"), ("sise", 2)):
        broken = json.loads(json.dumps(found))
        broken["spec"]["leaderWorkerTemplate"][key] = wrong
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.Draft202012Validator(schema).validate(broken)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """An API server refuses or drops fields that a schema does not name; the schema says so only by its absence."""
    made = {key: _closed(it) if isinstance(it, dict) else it for key, it in schema.items() if key != "properties"}
    if "properties" in schema:
        made["properties"] = {name: _closed(it) for name, it in schema["properties"].items()}
        made.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        made.pop("type", None)
    return made


def test_what_kubernetes_cannot_do_is_told_with_its_place(checked: Checked) -> None:
    with pytest.raises(HallmarkError, match="hallmark:tag is no image by its digest"):
        lws.text(planned(checked, "hallmark:tag"), checked, None)
    own = replace(
        checked,
        cluster=replace(
            checked.cluster,
            value=checked.cluster.value.model_copy(
                update={"paths": checked.cluster.value.paths.model_copy(update={"models": "~/m"})}
            ),
        ),
    )
    with pytest.raises(HallmarkError, match=r"kubernetes.example.yaml:\d+: '~/m.*' begins with `~`"):
        lws.text(planned(own), own, None)
    profile = checked.profile.value
    closed = replace(
        checked.profile, value=profile.model_copy(update={"serve": {**profile.serve, "host": "127.0.0.1"}})
    )
    shut = replace(checked, profile=closed)
    with pytest.raises(HallmarkError, match=r"listens at 127\.0\.0\.1 only"):
        lws.text(planned(shut), shut, None)


def test_nodes_that_differ_are_refused_because_the_scheduler_chooses_them(checked: Checked) -> None:
    plan = planned(checked)
    other = replace(plan.ranks[1], env={**plan.ranks[1].env, "NCCL_IB_HCA": "another"})
    with pytest.raises(HallmarkError, match=r"differ in NCCL_IB_HCA, but lws chooses the machines"):
        lws.text(replace(plan, ranks=(plan.ranks[0], other)), checked, None)


def test_without_a_certificate_none_is_claimed(checked: Checked) -> None:
    annotations = kubernetes.documents(lws.text(planned(checked), checked, None))["LeaderWorkerSet"]["metadata"]
    assert "dev.hallmark/certificate" not in annotations["annotations"]


class _Server(BaseHTTPRequestHandler):
    """A StandIn of the head: `tokens` a completion, or none within the deadline; counts a step with each look."""

    tokens: int | None = 10
    moves = True
    looks = 0

    def do_GET(self) -> None:
        type(self).looks += 1 if self.moves else 0
        self._send(f'# HELP x\nvllm:iteration_tokens_total_count{{engine="0"}} {self.looks}.0\n'.encode())

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.tokens is None:
            self.server.held.wait(30)  # type: ignore[attr-defined]
            return
        assert asked["model"] == "m"
        assert self.headers["Authorization"] == "Bearer k"
        self._send(json.dumps({"usage": {"completion_tokens": self.tokens}}).encode())

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *words: object) -> None:
        pass


@contextmanager
def serving(tokens: int | None, moves: bool) -> Iterator[int]:
    handler = type("Handler", (_Server,), {"tokens": tokens, "moves": moves, "looks": 0})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.held = threading.Event()  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.held.set()  # type: ignore[attr-defined]
            server.shutdown()


@pytest.mark.parametrize(
    ("mode", "tokens", "moves", "code"),
    [
        ("ready", 10, True, 0),
        ("ready", 9, True, 1),
        ("ready", None, True, 1),
        ("alive", 10, False, 0),
        ("alive", None, True, 0),
        ("alive", None, False, 1),
    ],
)
def test_the_probe_asks_for_completions(
    mode: str, tokens: int | None, moves: bool, code: int, text: str, tmp_path: Path
) -> None:
    program = tmp_path / "probe.py"
    program.write_text(kubernetes.documents(text)["ConfigMap"]["data"]["probe.py"])
    with serving(tokens, moves) as port:
        done = subprocess.run(
            [sys.executable, str(program), mode, str(port), "m", "0.5"],
            env={"VLLM_API_KEY": "k", "http_proxy": "http://127.0.0.1:1"},
            capture_output=True,
            text=True,
        )
    assert done.returncode == code, done.stderr


def test_the_probe_of_a_server_that_is_not_there_fails(text: str, tmp_path: Path) -> None:
    program = tmp_path / "probe.py"
    program.write_text(kubernetes.documents(text)["ConfigMap"]["data"]["probe.py"])
    for mode in ("ready", "alive"):
        done = subprocess.run([sys.executable, str(program), mode, "1", "m", "1"], capture_output=True, text=True)
        assert (done.returncode, "refused" in done.stderr) == (1, True)


def test_a_time_to_get_ready_that_is_no_number_is_one_error(checked: Checked) -> None:
    plan = planned(checked)
    for text in ("soon", "nan", "-1"):
        ranks = tuple(replace(rank, env={**rank.env, "VLLM_ENGINE_READY_TIMEOUT_S": text}) for rank in plan.ranks)
        with pytest.raises(HallmarkError, match=f"VLLM_ENGINE_READY_TIMEOUT_S is '{text}', which is no number"):
            lws.text(replace(plan, ranks=ranks), checked, None)
