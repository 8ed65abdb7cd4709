"""Checks of what ranks read: the model's folder on each node, and the variables that an image brings along."""

from collections.abc import Iterator

from launch.nodes.preflight.site import Found, Machine, Site, Verdict, gib, passed

# What changes how ranks meet or which code runs, wherever it comes from.
_WATCHED = ("NCCL_", "GLOO_", "VLLM_", "TORCH_", "CUDA_VISIBLE", "UCX_", "LD_PRELOAD", "PYTHONPATH")
# An image is allowed to say these: they are about its own programs.
_HARMLESS = (
    "VLLM_USAGE_SOURCE",
    "VLLM_BUILD",
    "VLLM_IMAGE",
    "VLLM_TARGET_DEVICE",
    "VLLM_ENABLE_CUDA",
    "TORCH_CUDA_ARCH_LIST",
    "NCCL_VERSION",
)
# A baked value of these takes the fabric away.
_FATAL = {"NCCL_IB_DISABLE": "1", "NCCL_NET": "Socket"}


def models(site: Site) -> Iterator[Found]:
    """The model is whole on every node, inside of what is mounted (D9)."""
    for machine in site.machines:
        found = machine.facts.model
        if found is None:
            continue
        where = site.cluster.document.where(("paths", "models"))
        files = {file.path: file for file in found.files}
        bad = False
        if found.unfinished:
            bad = True
            yield Found(
                "model",
                machine.name,
                Verdict.FAIL,
                f"what is fetched into {found.folder} is not all there",
                f"{_fetch(site)}; run again, it goes on there",
                where,
            )
        if "config.json" not in files and "config.json" not in found.outside:
            bad = True
            message = f"the model folder {found.folder} has no config.json"
            hint = f"{_fetch(site)}, or change paths.models of the cluster"
            yield Found("model", machine.name, Verdict.FAIL, message, hint, where)
        # Where no container hides the rest of the machine, only what ends nowhere is missing.
        boxed = any(rank.container is not None for rank in machine.ranks)
        broken = {link: end for link, end in found.outside.items() if boxed or end is None}
        for link, end in sorted(broken.items())[:3]:
            bad = True
            ends = f"ends at {end}, which a mount of the folder does not show" if end else "ends nowhere"
            message = f"{found.folder}/{link} {ends}"
            hint = "make the folder with real files, for example by `cp -rL`"
            yield Found("model", machine.name, Verdict.FAIL, message, hint, where)
        lacking = [shard for shard in found.shards if shard not in files and shard not in found.outside]
        if lacking:
            bad = True
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            message = f"{found.folder} lacks {lacking[0]}{more} of its index"
            yield Found("model", machine.name, Verdict.FAIL, message, _fetch(site), where)
        user = machine.facts.user
        if not bad and user and any(file.owner == 0 for file in found.files):
            message = f"files in {found.folder} belong to root, so a later download as this user fails"
            hint = f"`sudo chown -R {user} {found.folder}` there"
            yield Found("model", machine.name, Verdict.WARN, message, hint)
        elif not bad:
            total = sum(file.size for file in found.files)
            revision = f", revision {found.revision[:12]}" if found.revision else ""
            yield passed("model", machine.name, f"{len(found.files)} files, {gib(total)}{revision}")


def _fetch(site: Site) -> str:
    name = site.cluster.name
    return f"`hallmark model fetch {name}` fetches it to the head, `hallmark model sync {name}` to the others"


def same_model(site: Site) -> Iterator[Found]:
    """All nodes have the same files of the same sizes, of the same revision."""
    first, *others = site.machines
    if first.facts.model is None:
        return
    for machine in others:
        difference = _difference(first, machine)
        if difference is not None:
            message = f"the model is not the one on {first.name}: {difference}"
            hint = f"`hallmark model sync {site.cluster.name}` brings what {first.name} has, and removes nothing"
            yield Found("model", machine.name, Verdict.FAIL, message, hint)


def _difference(first: Machine, other: Machine) -> str | None:
    one, two = first.facts.model, other.facts.model
    if one is None or two is None or not two.files:
        return None
    if one.revision and two.revision and one.revision != two.revision:
        return f"revision {two.revision[:12]}, not {one.revision[:12]}"
    sizes, there = ({file.path: file.size for file in it.files} for it in (one, two))
    for path in sorted(sizes.keys() | there.keys()):
        if path not in there:
            return f"it lacks {path}"
        if path not in sizes:
            return f"it has {path} too"
        if sizes[path] != there[path]:
            return f"{path} has {there[path]} bytes, not {sizes[path]}"
    return None


def variables(site: Site) -> Iterator[Found]:
    """Nothing that is baked into the image works against the profile; the plan's own variables win."""
    for machine in site.machines:
        baked = machine.facts.engine.image_env if machine.facts.engine else None
        if baked is None and any(rank.name in site.lacking for rank in machine.ranks):
            baked = site.image_env
        if baked is None:
            continue
        rank = machine.ranks[0]
        stray = {
            name: value
            for name, value in baked.items()
            if name.startswith(_WATCHED) and not name.startswith(_HARMLESS) and name not in rank.env
        }
        many = len(site.plan.ranks) > 1
        for name, value in stray.items():
            fatal = many and _FATAL.get(name) == value
            yield Found(
                "variables",
                machine.name,
                Verdict.FAIL if fatal else Verdict.WARN,
                f"the image brings {name}={value} along, which the profile does not set"
                + (", and it takes the fabric away" if fatal else ""),
                f"write {name} under the profile's env with the value that you want"
                + (f" (such as {_opposite(name)})" if fatal else ""),
            )
        if not stray:
            yield passed("variables", machine.name, "the image brings none along that the profile does not set")


def _opposite(name: str) -> str:
    return "IB" if name == "NCCL_NET" else "0"
