"""Commands on keys: new, list, trust, revoke."""

from dataclasses import asdict
from pathlib import Path

import click

from launch.cli.context import Context


@click.group()
def key() -> None:
    """Keys that sign certificates, and whose word counts on this machine."""


@key.command()
@click.argument("name")
@click.pass_obj
def new(context: Context, name: str) -> None:
    """Make the key pair NAME for signing, and trust it. Never overwrites one."""
    from launch.proof import keys

    keyid = keys.new(name)
    context.emit({"name": name, "keyid": keyid}, lambda: f"made and trusted: {name} {keyid}")


@key.command("list")
@click.pass_obj
def list_(context: Context) -> None:
    """Show the trusted and the revoked keys. Changes nothing."""
    from launch.proof import keys

    entries = keys.trusted()

    def text() -> str:
        lines = [
            f"{keyid}  {entry.name}  {'revoked ' + entry.revoked if entry.revoked else 'trusted since ' + entry.added}"
            for keyid, entry in entries.items()
        ]
        return "\n".join(lines) or "no key is trusted yet; `hallmark key new NAME` makes one"

    context.emit({"keys": [{"keyid": keyid, **asdict(entry)} for keyid, entry in entries.items()]}, text)


@key.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.pass_obj
def trust(context: Context, file: Path) -> None:
    """Trust certificates signed with the public key in FILE (PEM). May be repeated."""
    from launch.proof import keys

    keyid = keys.trust(file)
    context.emit({"keyid": keyid}, lambda: f"trusted: {keyid}")


@key.command()
@click.argument("keyid")
@click.pass_obj
def revoke(context: Context, keyid: str) -> None:
    """Stop trusting KEYID for good, for certificates of the past too. May be repeated."""
    from launch.proof import keys

    full = keys.revoke(keyid)
    context.emit({"keyid": full}, lambda: f"revoked: {full}; images that only it certified must be certified anew")
