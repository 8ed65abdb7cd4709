"""Plans a whole group: everything that each rank runs, from a profile, a cluster and what is to be run."""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from launch.plan import container as containers
from launch.plan import env as envs
from launch.plan.container import Container
from launch.plan.place import Place
from launch.plan.ranks import api_url, topology
from recipe.config.flags import flags
from recipe.config.load import Loaded
from recipe.config.models import Cluster, Gates, Profile
from recipe.errors import HallmarkError


@dataclass(frozen=True)
class Subject:
    """What is run: an image reference, or the folder of a patched environment (then with its `venv`).

    `patchset` is the patch set's sha256; None for a fork. `digest` is the sha256 (hex) of the image's configuration or
    of what the environment is made from; None before it was looked at, as in `render`.
    """

    kind: Literal["image", "env"]
    reference: str
    patchset: str | None
    venv: str | None = None
    digest: str | None = None

    @property
    def image(self) -> str:
        """What an engine is told to run: the digest where it is known, which no tag can be moved away from."""
        return f"sha256:{self.digest}" if self.digest else self.reference

    @property
    def key(self) -> str:
        """A short file name for things that belong to this subject only, whatever tag it is called by."""
        if self.patchset:
            return self.patchset[:8]
        return self.digest[:12] if self.digest else containers.slug(self.reference)

    def is_same(self, other: "Subject") -> bool:
        """Whether it is the same thing; an image may have been called by another name."""
        if self.kind == "image" and self.digest:
            other = replace(other, reference=self.reference)
        return self == other


@dataclass(frozen=True)
class RankPlan:
    """Everything that one rank runs.

    `argv` is the full list from the entry point on; `env` has plain values, `secrets` the references by variable;
    `files` are texts by path; `own_env` names the variables in which this node may differ from the others. `homes` are
    the arguments (by their place) and variables whose `~` at the beginning is the node's home: folders of Hallmark's.
    Everywhere else a `~` is what somebody wrote.
    """

    name: str
    rank: int
    address: str
    docker_host: str | None
    argv: tuple[str, ...]
    env: dict[str, str]
    secrets: dict[str, str]
    container: Container | None
    files: dict[str, str]
    own_env: tuple[str, ...] = ()
    homes: tuple[int | str, ...] = ()

    @property
    def place(self) -> Place:
        return Place(self.name, self.address, self.docker_host)


@dataclass(frozen=True)
class GroupPlan:
    """All ranks of a cluster, head first, with what is needed to ask the group and to judge it."""

    cluster: str
    engine: str
    profile: str
    ranks: tuple[RankPlan, ...]
    api_url: str
    model_name: str
    subject: Subject
    gates: Gates

    def to_json(self) -> dict[str, Any]:
        """The document of `hallmark render --json`; secrets are references."""
        return {
            "cluster": self.cluster,
            "engine": self.engine,
            "profile": self.profile,
            "api_url": self.api_url,
            "model_name": self.model_name,
            "subject": asdict(self.subject),
            "nodes": [
                {
                    "name": rank.name,
                    "rank": rank.rank,
                    "address": rank.address,
                    "argv": list(rank.argv),
                    "env": rank.env,
                    "secrets": rank.secrets,
                    "container": asdict(rank.container) if rank.container else None,
                    "files": rank.files,
                }
                for rank in self.ranks
            ],
        }


def plan_group(profile: Loaded[Profile], cluster: Loaded[Cluster], subject: Subject) -> GroupPlan:
    """Plan every rank. The files must have passed recipe.config.check, which has the rules.

    Errors: a subject that the cluster's engine cannot run.
    """
    wanted = "env" if cluster.value.bare else "image"
    if subject.kind != wanted:
        raise HallmarkError(
            f"the {cluster.value.engine} engine cannot run {subject.reference!r}",
            where=cluster.document.where(("engine",)),
            hint="name an image" if wanted == "image" else "name a patched environment",
        )
    ranks = tuple(_rank(profile, cluster, subject, rank) for rank in range(len(cluster.value.nodes)))
    return GroupPlan(
        cluster=cluster.name,
        engine=cluster.value.engine,
        profile=profile.name,
        ranks=ranks,
        api_url=api_url(profile.value, cluster.value),
        model_name=_model_name(profile.value, _model(profile.value, cluster, subject)),
        subject=subject,
        gates=profile.value.gates,
    )


def at_home(rank: RankPlan, home: str) -> RankPlan:
    """The rank with `~` written out: `home` is the home folder on the rank's own node."""

    def expand(text: str, written: bool) -> str:
        return home + text[1:] if written and (text == "~" or text.startswith("~/")) else text

    box = rank.container
    if box is not None:
        box = replace(box, mounts=tuple(replace(mount, source=expand(mount.source, True)) for mount in box.mounts))
    env = {name: expand(value, name in rank.homes) for name, value in rank.env.items()}
    argv = tuple(expand(text, place in rank.homes) for place, text in enumerate(rank.argv))
    return replace(rank, argv=argv, env=env, container=box)


def model_source(profile: Profile, cluster: Loaded[Cluster]) -> str:
    """The model's folder on every node; it may begin with `~`."""
    return f"{_folder(cluster, cluster.value.paths.models_folder)}/{profile.model_folder}"


def _rank(profile: Loaded[Profile], cluster: Loaded[Cluster], subject: Subject, rank: int) -> RankPlan:
    node = cluster.value.nodes[rank]
    argv = (
        *profile.value.entrypoint,
        _model(profile.value, cluster, subject),
        *flags(profile.value.serve),
        "--port",
        str(cluster.value.ports.api),
        *topology(cluster.value, rank),
    )
    every, own = envs.of_node(profile.value, node)
    plain, secrets = envs.split(every)
    homes: tuple[int | str, ...] = ()
    if subject.kind == "image":
        env = {**containers.cache_variables(), **plain}
        box = _container(profile, cluster, subject, rank, {"argv": argv, "env": env, "secrets": secrets})
    else:
        cache = _folder(cluster, cluster.value.paths.cache_folder)
        tree = envs.of_patched_tree(subject.reference, subject.venv)
        ours = {"VLLM_CACHE_ROOT": f"{cache}/vllm/{subject.key}"}
        env, box = {**ours, **plain, **tree}, None
        homes = (len(profile.value.entrypoint), *sorted({*tree, *(ours.keys() - plain.keys())}))
    env = dict(sorted(env.items()))
    return RankPlan(node.name, rank, node.address, node.docker_host, argv, env, secrets, box, {}, own, homes)


def _container(
    profile: Loaded[Profile], cluster: Loaded[Cluster], subject: Subject, rank: int, run: dict[str, object]
) -> Container:
    paths = cluster.value.paths
    mounted = containers.mounts(
        profile.value, _folder(cluster, paths.models_folder), _folder(cluster, paths.cache_folder), subject.key
    )
    labelled = containers.labels(cluster.name, profile.name, subject.patchset, rank)
    # A scheduler's machines pull it themselves, by the reference's digest.
    image = subject.reference if cluster.value.allocated else subject.image
    parts = {**run, "image": image, "mounts": [asdict(mount) for mount in mounted]}
    identity = containers.name(cluster.name, rank, parts)
    return containers.container(profile.value, image, identity, mounted, labelled)


def _model(profile: Profile, cluster: Loaded[Cluster], subject: Subject) -> str:
    if subject.kind == "image":
        return containers.model_path(profile)
    return model_source(profile, cluster)


def _folder(cluster: Loaded[Cluster], text: str) -> str:
    if text.startswith(("/", "~")):
        return text
    return str((cluster.path.parent / text).absolute())


def _model_name(profile: Profile, path: str) -> str:
    served = profile.serve.get("served-model-name") or path
    return str(served[0] if isinstance(served, list) else served)
