"""init: a cluster file from what nodes say of themselves; a file that is there is never overwritten."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from launch.nodes import reach
from launch.nodes.discover import Ends, Way, fits, unaddressed, ways
from launch.nodes.look import look
from launch.nodes.node import NodeFacts
from launch.plan.place import Place
from recipe.config.check import check_cluster
from recipe.config.fields import Name
from recipe.config.load import list_profiles, load_hardware, load_profile
from recipe.errors import ConfigError, HallmarkError, Problem, Refused

# Where models are usually put; the first that has the profile's counts.
FOLDERS = ("~/models", "~/.hallmark/models", "/data/models", "/models", "/opt/models")
_TEMPLATES = Path(__file__).resolve().parents[1] / "templates"
# Words that YAML reads as the text that they are.
_PLAIN = re.compile(r"[A-Za-z_/~][A-Za-z0-9_./@,-]*")
_OTHER = {"~", "null", "true", "false", "yes", "no", "on", "off", "y", "n"}


@dataclass(frozen=True)
class Named:
    """A node as its user names it."""

    name: str
    address: str
    facts: NodeFacts
    ends: Ends | None = None


def called_so(name: str) -> None:
    """Errors: HallmarkError for what is no cluster's name."""
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError as error:
        said = error.errors()[0]["ctx"]
        raise HallmarkError(said["message"], where="NAME", hint=said["hint"]) from None


def free(path: Path) -> None:
    """Errors: Refused when there is a file already, or a link to one that may come."""
    if os.path.lexists(path):
        raise _there(path)


def _there(path: Path) -> Refused:
    return Refused("is there already, and is never overwritten", where=str(path), hint="choose another name")


def nodes(addresses: Sequence[str]) -> list[Named]:
    """Look at every node. `NAME=ADDRESS` gives it a name, else it is called as its host.

    Errors: HallmarkError for the same name or address twice; Unreachable.
    """
    named = []
    for text in addresses:
        name, equals, address = text.partition("=")
        named.append((name, address) if equals else (called(text), text))
    for what, given in (("name", [name for name, _ in named]), ("address", [address for _, address in named])):
        twice = sorted({it for it in given if given.count(it) > 1})
        if twice:
            raise HallmarkError(f"two nodes have the {what} {twice[0]!r}", where="--node", hint="write NAME=ADDRESS")
    found = reach.each(lambda it: look(Place(*it)), named)
    return [Named(name, address, facts) for (name, address), facts in zip(named, found, strict=True)]


def called(address: str) -> str:
    """A node's name from its SSH target: the host, in the letters that a name has."""
    host = address.removeprefix("ssh://").rpartition("@")[2]
    host = host.partition(":")[0] if host.count(":") <= 1 else host
    return re.sub(r"[^a-z0-9.-]+", "-", host.lower()).strip("-.") or "node"


def profiles(home: Path, found: Sequence[Named]) -> list[str]:
    """Names of the profiles for that number of machines of that kind."""
    fitting = []
    for profile in list_profiles(home):
        hardware = load_hardware(home, profile.value.hardware).value
        if profile.value.nodes == len(found) and all(fits(hardware, node.facts) for node in found):
            fitting.append(profile.name)
    return fitting


def fabrics(found: Sequence[Named]) -> list[Way]:
    """The networks that could be the fabric, the best first.

    Errors: Refused when no network joins the nodes, with what to do.
    """
    if len(found) == 1:
        return []
    possible = ways([node.facts for node in found])
    if possible:
        return possible
    error = Refused("no network joins these nodes", hint="give the ends of the cable addresses of one subnet")
    bare = [(index, node, name) for index, node in enumerate(found) for name in unaddressed(node.facts)[:1]]
    error.problems = (
        *error.problems,
        *(
            Problem(
                f"node {node.name}: {name} has a cable and no address",
                None,
                f"for example `sudo ip addr add 192.168.177.{11 + index}/24 dev {name}`, and the same in netplan",
            )
            for index, node, name in bare
        ),
    )
    raise error


def models(home: Path, profile: str, found: Sequence[Named]) -> str:
    """The folder where the profile's model lies on the head; the usual one when it is nowhere yet."""
    name = load_profile(home, profile).value.model_folder
    script = 'for folder; do case $folder in "~/"*) at=$HOME/${folder#"~/"} ;; *) at=$folder ;; esac; '
    script += '[ ! -f "$at/$0/config.json" ] || { echo "$folder"; break; }; done'
    head = found[0]
    done = reach.run(Place(head.name, head.address), ("sh", "-c", script, name, *FOLDERS))
    return done.stdout.strip() or FOLDERS[0]


def text(profile: str, engine: str, found: Sequence[Named], state: str, folder: str, api: int, master: int) -> str:
    """The cluster file."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False
    )
    environment.filters["quoted"] = quoted
    template = environment.get_template("cluster.yaml.j2")
    return template.render(
        profile=profile, engine=engine, nodes=found, state=state, models=folder, api=api, master=master
    )


def quoted(word: str) -> str:
    """A text as YAML reads it back: as it is, or as JSON writes it."""
    plain = _PLAIN.fullmatch(word) and word.lower() not in _OTHER
    return word if plain else json.dumps(word, ensure_ascii=False)


def write(home: Path, path: Path, content: str) -> list[str]:
    """Put the file at its place, whole or not at all, when it breaks no rule; returns warnings about it.

    Errors: Refused when there is a file already; ConfigError when what was given breaks a rule.
    """
    free(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.stem}.{os.getpid()}.yaml")
    try:
        fresh.write_text(content, encoding="utf-8")
        try:
            checked = check_cluster(home, str(fresh))
        except ConfigError as error:
            raise ConfigError([_of(problem, fresh, path) for problem in error.problems]) from None
        # Unlike a rename this fails when somebody was faster.
        os.link(fresh, path)
    except FileExistsError:
        raise _there(path) from None
    finally:
        fresh.unlink(missing_ok=True)
    return [f"{it.severity}: {_of(it.problem, fresh, path)}" for it in checked.findings]


def _of(problem: Problem, fresh: Path, path: Path) -> Problem:
    # Places are told as they are seen from the current folder.
    where = problem.where.replace(fresh.name, path.name) if problem.where else None
    return Problem(problem.message, where, problem.hint)
