"""Commands on certificates: show, verify, list."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from launch.cli.context import Context
from recipe.errors import Exit, HallmarkError, Refused

if TYPE_CHECKING:
    from launch.ledger.certificates import Listed
    from launch.proof.certificate import Verification
    from recipe.image.reference import Reference

_DIGEST = re.compile(r"(?:sha256:)?([0-9a-f]{64})")


@click.group()
def certificate() -> None:
    """What was certified, and whether it is true."""


@certificate.command()
@click.argument("which", metavar="FILE|DIGEST|REPO:TAG|REPO@DIGEST")
@click.pass_obj
def show(context: Context, which: str) -> None:
    """Show what a certificate says and whether it is valid here. Changes nothing."""
    _, found = find(context, which)
    context.emit({"verification": found.document(), "statement": found.statement}, lambda: "\n".join(_shown(found)))


@certificate.command()
@click.argument("which", metavar="FILE|DIGEST|REPO:TAG|REPO@DIGEST")
@click.option("--digest", metavar="DIGEST", help="it must be about this image or environment")
@click.option("--profile", metavar="NAME", help="it must be about this profile")
@click.pass_obj
def verify(context: Context, which: str, digest: str | None, profile: str | None) -> int:
    """Check signature, key, content and subject of a certificate; exit 4 when it is not valid. Changes nothing."""
    if digest is not None and not _DIGEST.fullmatch(digest):
        raise HallmarkError(f"{digest!r} is no digest", where="--digest", hint="write sha256: and 64 hex digits")
    _, found = find(context, which, digest, profile)
    context.emit(found.document(), lambda: "\n".join(_verdict(found)))
    return int(Exit.OK if found.valid else Exit.MISMATCH)


@certificate.command("list")
@click.argument("of", metavar="[CLUSTER|REPO|REPO:TAG|REPO@DIGEST]", required=False)
@click.pass_obj
def list_(context: Context, of: str | None) -> None:
    """List certificates: of one cluster or of all, from history and registry; of a repository; or beside an image.
    Changes nothing."""
    from launch.ledger import certificates
    from launch.proof import certificate, keys
    from recipe.image.reference import remote

    there = None if of is None or Path(of).is_file() else remote(of)
    if there is None:
        found = certificates.of_clusters(context.home, of, context.say)
    elif there.name is None:
        found = certificates.of_repository(there)
    else:
        digest, contents = _attached(there)
        verified = (certificate.verify(content, trusted=keys.trusted(), digest=digest) for content in contents)
        pairs = zip(contents, verified, strict=True)
        found = [certificates.Listed(content, one, images=[there.at(digest)]) for content, one in pairs]

    def text() -> str:
        return "\n".join(_listed(one) for one in found) or "no certificates; `hallmark certify CLUSTER` makes one"

    context.emit({"certificates": [one.to_json() for one in found]}, text)


def _listed(one: "Listed") -> str:
    found = one.found
    until = f" until {found.expires:%Y-%m-%d}" if found.expires else ""
    worth = f"valid{until}, signed by {found.signed}" if found.valid else f"not valid: {found.reasons[0]}"
    about = f"  revision {', '.join(one.revisions)}" if one.revisions else ""
    beside = f"  beside {', '.join(one.images)}" if one.images else ""
    return f"{found.digest}  {found.profile}  {worth}{about}{beside}"


def find(
    context: Context, which: str, digest: str | None = None, profile: str | None = None
) -> "tuple[bytes, Verification]":
    """The certificate that is meant, and what it is worth; of several one that holds."""
    from launch.proof import certificate as certificates
    from launch.proof import keys

    named = _DIGEST.fullmatch(which)
    there = _reference(which)
    if there is not None:
        subject, contents = _attached(there)
        digest = digest or subject
    elif named is None or Path(which).is_file():
        contents = [_read(Path(which).expanduser())]
    else:
        digest = digest or named[1]
        contents = [_read(path) for path in _stored(context, None) if path.stem.startswith(named[1])]
    if not contents:
        hint = "`hallmark certificate list` shows what there is; or name the certificate's file"
        if there is not None:
            raise Refused(f"no certificate is attached to {which}", hint="`hallmark certify CLUSTER` attaches one")
        raise HallmarkError(f"no certificate about {which} is stored here", hint=hint)
    trusted = keys.trusted()
    found = [(one, certificates.verify(one, trusted=trusted, digest=digest, profile=profile)) for one in contents]
    # A digest may have been certified more than once; one certificate that holds is enough.
    return next((pair for pair in found if pair[1].valid), found[-1])


def _reference(which: str) -> "Reference | None":
    """The image in a registry that is meant; a file of that name goes first."""
    from recipe.image.reference import remote

    found = None if Path(which).is_file() else remote(which)
    return found if found is not None and found.name is not None else None


def _attached(there: "Reference") -> tuple[str, list[bytes]]:
    """The manifest's digest of an image in a registry, and what is attached to it; no layer is fetched."""
    from launch.proof import attached
    from recipe.image.registry import Repository

    assert there.name is not None
    with Repository(there) as repository:
        image = repository.manifest(there.name)
        if image is None:
            raise Refused(f"there is no image {there.at(there.name)}")
        return image.digest, attached.read(repository, image.digest)


def _stored(context: Context, cluster: str | None) -> list[Path]:
    from launch.ledger.store import find_certificates

    return list(find_certificates(context.home, cluster, context.say))


def _read(path: Path) -> bytes:
    from launch.proof.envelope import LARGEST

    try:
        with path.open("rb") as file:
            # One byte more than is accepted, so that a huge file is refused without being read.
            return file.read(LARGEST + 1)
    except OSError as error:
        hint = "give the file of a certificate, or a digest (sha256: and 64 hex digits)"
        raise HallmarkError(f"cannot be read: {error.strerror}", where=str(path), hint=hint) from None


def _verdict(found: "Verification") -> Iterator[str]:
    if found.valid:
        yield f"valid: {found.profile}, {found.digest}, {len(found.gates)} gates passed, signed by {found.signed}"
    else:
        yield "not valid:"
        yield from (f"  {reason}" for reason in found.reasons)


def _shown(found: "Verification") -> Iterator[str]:
    yield from _verdict(found)
    if found.statement is None or not found.gates:
        return
    predicate = found.statement["predicate"]
    record = predicate["hallmark"]
    yield f"profile   {record['profile']} on {record['hardware']['kind']}, cluster {record['cluster']}"
    yield f"vLLM      {record['vllm']}"
    yield f"tested    {record['started']} to {record['finished']}"
    yield f"counts    until {found.expires:%Y-%m-%d %H:%M} UTC" if found.expires else "counts    for good"
    for title, entries in (("subject", found.statement["subject"]), ("from", predicate["configuration"])):
        yield from (f"{title:9} {entry['name']} sha256:{entry['digest']['sha256']}" for entry in entries)
    width = max(len(name) for name in record["gates"])
    for name, gate in record["gates"].items():
        yield f"  {name:{width}}  {gate['verdict']:12}  {gate['summary']}"
