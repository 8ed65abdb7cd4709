"""A LeaderWorkerSet of Kubernetes for a group of vLLM's multi-process ranks, and a Service for its head. Pure."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from launch.engines.words import document, kubernetes
from launch.plan import allocated
from launch.plan.allocated import Common, Given
from launch.plan.container import Container
from launch.plan.group import GroupPlan
from launch.plan.ranks import concrete, flag
from recipe.config.check import Checked
from recipe.errors import ConfigError, Problem

_PROBE = Path(__file__).with_name("inside") / "probe.py"
_PROBE_FOLDER = "/opt/hallmark"
_PERIOD = 10
_ASK_SECONDS = 60
_UNITS = {"b": "", "k": "Ki", "m": "Mi", "g": "Gi"}
_VARIABLES = {Given.RANK: "$(LWS_WORKER_INDEX)", Given.HEAD: "$(LWS_LEADER_ADDRESS)"}

Json = dict[str, Any]


def name(plan: GroupPlan) -> str:
    """The name of the set and its Service: a label of DNS, to which the controller adds numbers."""
    return f"hallmark-{re.sub('[^a-z0-9]+', '-', plan.cluster).strip('-')}"[:46].rstrip("-")


def text(plan: GroupPlan, checked: Checked, certificate: str | None) -> str:
    """The manifests, for `kubectl apply`. `certificate`: the sha256 (hex) of the one about the image.

    Errors: ConfigError for what Kubernetes cannot do.
    """
    common = allocated.common(plan)
    _possible(plan, common, checked)
    made = [_probes(plan, checked), _set(plan, common, checked, certificate), _service(plan, checked)]
    return _about(plan, common) + "---\n".join(document(one) for one in made)


def _set(plan: GroupPlan, common: Common, checked: Checked, certificate: str | None) -> Json:
    said = {
        "cluster": plan.cluster,
        "profile": plan.profile,
        "patchset": plan.subject.patchset,
        "certificate": f"sha256:{certificate}" if certificate else None,
    }
    # Labels may have 63 characters, of which a sha256 alone has 64.
    annotations = {f"dev.hallmark/{key}": value for key, value in said.items() if value}
    template: Json = {
        "size": len(plan.ranks),
        # Ranks end with status 0 whatever happened, and one that comes back alone waits for the others forever.
        "restartPolicy": "RecreateGroupOnPodRestart",
        "leaderTemplate": _pod(plan, common, checked, annotations, leader=True),
        # One of its own even for a single node: the field is required.
        "workerTemplate": _pod(plan, common, checked, annotations, leader=False),
    }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {**_metadata(plan, checked), "annotations": annotations},
        "spec": {
            "replicas": 1,
            # The head answers only when all workers have joined: `LeaderReady` would wait for it before it makes them.
            "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": template,
        },
    }


def _pod(plan: GroupPlan, common: Common, checked: Checked, annotations: Json, *, leader: bool) -> Json:
    box = common.container
    assert box is not None
    role = "leader" if leader else "worker"
    return {
        "metadata": {"labels": {"dev.hallmark/set": name(plan), "dev.hallmark/role": role}, "annotations": annotations},
        "spec": {
            "terminationGracePeriodSeconds": box.stop_timeout,
            # The interfaces that the cluster file names are the machine's.
            "hostNetwork": True,
            "dnsPolicy": "ClusterFirstWithHostNet",
            "nodeSelector": {"kubernetes.io/arch": checked.hardware.value.architecture},
            "containers": [_container(plan, common, checked, box, leader=leader)],
            "volumes": [*_volumes(box), *([_probe_volume(plan)] if leader else [])],
        },
    }


def _container(plan: GroupPlan, common: Common, checked: Checked, box: Container, *, leader: bool) -> Json:
    words = [_VARIABLES[word] if isinstance(word, Given) else kubernetes(word) for word in common.argv]
    if not leader:
        words += common.worker
    wanted = _resources(checked, box)
    found: Json = {
        "name": "vllm",
        "image": box.image,
        "command": words[:1],
        "args": words[1:],
        "env": list(_environment(plan, common)),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"], **({"add": list(box.cap_add)} if box.cap_add else {})},
        },
        "volumeMounts": [
            {"name": "shm", "mountPath": "/dev/shm"},
            *([{"name": "probe", "mountPath": _PROBE_FOLDER, "readOnly": True}] if leader else []),
            *(
                {"name": f"mount-{number}", "mountPath": mount.target, "readOnly": mount.read_only}
                for number, mount in enumerate(box.mounts)
            ),
        ],
    }
    if wanted:
        found["resources"] = {"requests": wanted, "limits": wanted}
    if leader:
        found["ports"] = [{"name": "http", "containerPort": _port(plan)}]
        limit = allocated.ready_seconds(common)
        found["startupProbe"] = _probe(plan, "ready", _PERIOD, max(1, round(limit / _PERIOD)))
        found["readinessProbe"] = _probe(plan, "ready", _ASK_SECONDS, 1)
        # A worker that died is seen by the head's silence only; this restarts the head, and with it the group.
        found["livenessProbe"] = _probe(plan, "alive", _ASK_SECONDS, 3)
    return found


def _probe(plan: GroupPlan, mode: str, period: int, failures: int) -> Json:
    """`/health` is 200 while nothing comes back any more, so the probe asks for completions."""
    words = [
        "python3",
        f"{_PROBE_FOLDER}/{_PROBE.name}",
        mode,
        str(_port(plan)),
        plan.model_name,
        str(_ASK_SECONDS - 10),
    ]
    return {
        "exec": {"command": words},
        "periodSeconds": period,
        "timeoutSeconds": _ASK_SECONDS,
        "failureThreshold": failures,
    }


def _environment(plan: GroupPlan, common: Common) -> Iterator[Json]:
    if common.several:
        # Without it a rank advertises the address of the default route.
        yield {"name": allocated.ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    for key, value in common.env.items():
        yield {"name": key, "value": kubernetes(value)}
    for key in common.secrets:
        yield {"name": key, "valueFrom": {"secretKeyRef": {"name": name(plan), "key": key}}}


def _resources(checked: Checked, box: Container) -> Json:
    names = checked.cluster.value.lws
    wanted = {names.gpu_resource: str(checked.profile.value.gpus)} if box.gpus else {}
    # The plugin passes /dev/infiniband; a pod cannot ask for a device of its machine.
    return {**wanted, **({names.rdma_resource: "1"} if box.devices else {})}


def _volumes(box: Container) -> list[Json]:
    size = box.shm_size[:-1] + _UNITS[box.shm_size[-1]]
    shm = {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size}}
    folders = [
        {
            "name": f"mount-{number}",
            # A model that is not there must not become an empty folder.
            "hostPath": {"path": mount.source, "type": "Directory" if mount.read_only else "DirectoryOrCreate"},
        }
        for number, mount in enumerate(box.mounts)
    ]
    return [shm, *folders]


def _probe_volume(plan: GroupPlan) -> Json:
    return {"name": "probe", "configMap": {"name": f"{name(plan)}-probe"}}


def _probes(plan: GroupPlan, checked: Checked) -> Json:
    data = {_PROBE.name: _program()}
    metadata = _metadata(plan, checked)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**metadata, "name": f"{metadata['name']}-probe"},
        "data": data,
    }


def _service(plan: GroupPlan, checked: Checked) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": _metadata(plan, checked),
        "spec": {
            "selector": {"dev.hallmark/set": name(plan), "dev.hallmark/role": "leader"},
            "ports": [{"name": "http", "port": _port(plan), "targetPort": "http"}],
        },
    }


def _metadata(plan: GroupPlan, checked: Checked) -> Json:
    namespace = checked.cluster.value.lws.namespace
    return {"name": name(plan), **({"namespace": namespace} if namespace else {})}


def _possible(plan: GroupPlan, common: Common, checked: Checked) -> None:
    found = []
    paths, profile = checked.cluster.document, checked.profile
    box = common.container
    assert box is not None
    homes = [mount.source for mount in box.mounts]
    if told := sorted({text for text in homes if text == "~" or text.startswith("~/")}):
        where = paths.where(("paths",))
        found.append(Problem(f"{told[0]!r} begins with `~`, and Kubernetes knows no home folder", where, "write `/…`"))
    if concrete(host := flag(plan.ranks[0].argv, "--host")):
        where, hint = profile.document.where(("serve", "host")), "write 0.0.0.0, or take it out"
        found.append(Problem(f"the head listens at {host} only, where its Service does not reach it", where, hint))
    if "@sha256:" not in box.image:
        hint = "name HOST/PATH@sha256:… with --image, or name a `registry` and push the profile's image there"
        found.append(Problem(f"{box.image} is no image by its digest", paths.where(("engine",)), hint))
    if found:
        raise ConfigError(found)


def _port(plan: GroupPlan) -> int:
    return urlsplit(plan.api_url).port or 80


def _about(plan: GroupPlan, common: Common) -> str:
    lines = [f"{plan.cluster}: profile {plan.profile}, image {plan.subject.reference}"]
    lines += [f"{key} comes from the Secret {name(plan)}, key {key}" for key in common.secrets]
    return "".join(f"# {line}\n" for line in lines)


@cache
def _program() -> str:
    return _PROBE.read_text(encoding="utf-8")
