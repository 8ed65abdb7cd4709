"""Extra packages of an image: which wheels they are, fetched with the pip that runs here, by hash once they are known.

Nothing of the base is replaced: a package whose requirements the base's own packages do not meet is refused.
"""

import json
import os
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Annotated, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename
from pydantic import Field

from recipe.catalogue.wheels import digest
from recipe.config import paths
from recipe.config.models import Model
from recipe.errors import HallmarkError, Mismatch, Refused, Unreachable

# Installs the others; not installed itself.
INSTALLER = "pip"
# Never added: what vLLM's compiled code is built against is there, or this is no base for it.
_BASES_OWN = {"torch", "torchaudio", "torchvision", "triton"}
_OTHERWISE = "take the extra out, or choose a base that has what it needs"
# The oldest glibc for which manylinux wheels are made in this form.
_OLDEST_GLIBC = 17


class Package(Model):
    """A wheel. `file`: its name; nothing says where it came from, that is pip's to know."""

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$", description="the distribution's normalised name")
    version: str
    file: str = Field(pattern=r"^[A-Za-z0-9_.+!-]+\.whl$", description="the wheel's file name")
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

    @property
    def line(self) -> str:
        """As a line of a requirements file."""
        return f"{self.name}=={self.version} --hash=sha256:{self.sha256}"


@dataclass(frozen=True)
class About:
    """What an image says of itself. `markers`: what markers of requirements ask for; `libc`: version of its glibc;
    `packages`: versions by name; `requires`: what those require; `vllm`, `extras`: vLLM's name, what extras it has."""

    markers: dict[str, str]
    libc: str
    packages: dict[str, str]
    requires: dict[str, list[str]]
    vllm: str
    extras: list[str]

    @classmethod
    def read(cls, path: Path) -> "About":
        """Errors: OSError, ValueError, TypeError when it is something else."""
        return cls(**json.loads(path.read_bytes()))


Fetch = Callable[[str], tuple[Package, list[str]]]
"""Gives the wheel that meets a requirement, and what that requires."""


def resolve(extras: Sequence[str], about: About, fetch: Fetch, where: str) -> tuple[Package, ...]:
    """The installer, and every package that these extras of vLLM need and the base lacks; sorted by name.

    Errors: HallmarkError for an extra that this vLLM does not have; Refused when the base has another version than one
    of them needs; what `fetch` raises.
    """
    known = {canonicalize_name(name): name for name in about.extras}
    unknown = [name for name in extras if canonicalize_name(name) not in known]
    if unknown:
        raise HallmarkError(
            f"the vLLM of the base has no extra {', '.join(unknown)}", where=where, hint=f"one of {', '.join(known)}"
        )
    found: dict[str, Package] = {}
    wanted = _by_extras(about.vllm, extras, about)
    seen: set[str] = set()
    while wanted:
        by, requirement = wanted.pop(0)
        if str(requirement) in seen:
            continue
        seen.add(str(requirement))
        name = canonicalize_name(requirement.name)
        if name in about.packages or name in found:
            version = about.packages[name] if name in about.packages else found[name].version
            if not requirement.specifier.contains(version, prereleases=True):
                has = "the base has" if name in about.packages else "chosen was"
                raise Refused(
                    f"{by} needs {requirement.name}{requirement.specifier}, {has} {version}, which stays",
                    where=where,
                    hint=_OTHERWISE,
                )
            wanted += _by_extras(name, sorted(requirement.extras), about) if name in about.packages else []
            continue
        if name in _BASES_OWN:
            raise Refused(f"{by} needs {name}, which the base lacks", where=where, hint="choose a base that has it")
        if requirement.url:
            # An index may have something else under that name.
            what = f"{by} needs {requirement.name} from an address, and only pip's index is asked"
            raise Refused(what, where=where, hint=_OTHERWISE)
        found[name], requires = fetch(f"{name}{requirement.specifier}")
        wanted += [(name, it) for it in _asked(requires, sorted(requirement.extras), about)]
    installer, _ = fetch(INSTALLER)
    return (installer, *(found[name] for name in sorted(found))) if found else ()


def _asked(lines: Iterable[str], extras: Iterable[str], about: About) -> list[Requirement]:
    """The requirements that count in that image, with these extras."""
    chosen = ["", *(canonicalize_name(name) for name in extras)]
    return [
        it
        for it in map(_requirement, lines)
        if it.marker is None or any(it.marker.evaluate({**about.markers, "extra": extra}) for extra in chosen)
    ]


def _requirement(line: str) -> Requirement:
    try:
        return Requirement(line)
    except InvalidRequirement:
        told = _without_address(line, "(an address)")
        raise Refused(f"a package asks for {told!r}, which is no requirement", hint=_OTHERWISE) from None


def _by_extras(name: str, extras: Sequence[str], about: About) -> list[tuple[str, Requirement]]:
    """What these extras of a package of the base ask for, beside what it always needs: that is its own matter."""
    lines, plain = about.requires.get(name, []), {**about.markers, "extra": ""}
    asked = _asked(lines, extras, about)
    return [(name, it) for it in asked if it.marker is not None and not it.marker.evaluate(plain)]


def fetcher(about: About) -> Fetch:
    """Fetches wheels for an image into the cache. Errors of what it gives: Unreachable with what pip said."""

    def fetch(requirement: str) -> tuple[Package, list[str]]:
        with tempfile.TemporaryDirectory(prefix="hallmark-") as folder:
            _download([requirement], Path(folder), _target(about))
            [path] = Path(folder).glob("*.whl")
            package = _package(path)
            _keep(path, package)
        return package, _requires(_place(package))

    return fetch


def _requires(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as wheel:
            [name] = [it for it in wheel.namelist() if it.endswith(".dist-info/METADATA") and it.count("/") == 1]
            metadata = HeaderParser().parsestr(wheel.read(name).decode(errors="replace"))
    except (zipfile.BadZipFile, zlib.error, ValueError):
        raise Mismatch(f"pip's index has no wheel under {path.name}, but something else") from None
    return metadata.get_all("Requires-Dist") or []


def held(packages: Iterable[Package]) -> dict[str, Path]:
    """The wheels by their file names, from the cache or else fetched by hash.

    Errors: Unreachable with what pip said; Mismatch when a wheel is another one than was pinned.
    """
    found = {}
    for package in packages:
        path = _place(package)
        if not path.is_file():
            with tempfile.TemporaryDirectory(prefix="hallmark-") as folder:
                lines = Path(folder) / "requirements.txt"
                lines.write_text(f"{package.line}\n")
                words = ["--require-hashes", "--requirement", str(lines)]
                _download(words, Path(folder), _tags(package))
                _keep(Path(folder) / package.file, package)
        if digest(path) != package.sha256:
            raise Mismatch("is not the wheel that was pinned", where=str(path), hint="remove it, so that it is fetched")
        found[package.file] = path
    return found


def requirements(packages: Iterable[Package]) -> bytes:
    """The requirements file of what is installed, each line with its hash; the installer's is there to be read only."""
    return "".join(f"{'# ' if it.name == INSTALLER else ''}{it.line}\n" for it in packages).encode()


def _target(about: About) -> list[str]:
    """The options that make pip choose for that image instead of for this machine."""
    machine, minor = about.markers["platform_machine"], about.libc.partition(".")[2]
    newest = int(minor) if minor.isdecimal() else _OLDEST_GLIBC
    names = [f"manylinux_2_{it}_{machine}" for it in range(newest, _OLDEST_GLIBC - 1, -1)]
    names += [f"manylinux2014_{machine}", f"linux_{machine}"]
    return [f"--python-version={about.markers['python_version']}", *(f"--platform={name}" for name in names)]


def _tags(package: Package) -> list[str]:
    """The options that make pip take exactly this file, whatever machine this is."""
    tags = sorted(parse_wheel_filename(package.file)[3], key=str)
    platforms, pythons = sorted({it.platform for it in tags}), sorted({it.interpreter for it in tags})
    words = [f"--platform={it}" for it in platforms] + [f"--abi={it}" for it in sorted({it.abi for it in tags})]
    own = [it for it in pythons if it.startswith("cp3")]
    # `py3` wheels fit every version; one that the installer supports is named all the same.
    return [*words, f"--python-version={own[0][2:] if own else '312'}"]


def _download(what: Sequence[str], folder: Path, options: Sequence[str]) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
    command += [*options, "--dest", str(folder), *what]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        if "DO NOT MATCH THE HASHES" in done.stderr:
            raise Mismatch("pip's index has another file than was pinned under that name", where="configs/pins.lock")
        lines = done.stderr.strip().splitlines()
        told = [line for line in lines if line.startswith("ERROR") and line != "ERROR: Exception:"] or lines[-1:]
        raise Unreachable(
            f"pip cannot fetch {what[-1] if len(what) == 1 else 'a pinned wheel'}:"
            f" {_without_address(told[-1]) if told else 'it says nothing'}",
            hint="check pip's index",
        )


def _without_address(text: str, instead: str = "(its index)") -> str:
    """Somebody's words without addresses, which may have a password in them."""
    return " ".join(word if "://" not in word else instead for word in text.split())


def _package(path: Path) -> Package:
    name, version, *_ = parse_wheel_filename(path.name)
    return Package(name=str(name), version=str(version), file=path.name, sha256=digest(path))


def _place(package: Package) -> Path:
    return paths.cache() / "extras" / package.sha256 / package.file


def _keep(path: Path, package: Package) -> None:
    if not path.is_file():
        raise Mismatch(f"pip fetched another file than {package.file}", hint="pin the profile again")
    target = _place(package)
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    fresh.write_bytes(path.read_bytes())
    # BuildKit's cache looks at the mode too, so it must not depend on the umask.
    fresh.chmod(0o644)
    fresh.replace(target)


def label(packages: Iterable[Package]) -> str:
    """What an image says about its extra packages: version and hash by name."""
    found: dict[str, Any] = {it.name: f"{it.version} sha256:{it.sha256}" for it in packages if it.name != INSTALLER}
    return json.dumps(found, sort_keys=True)
