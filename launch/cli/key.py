"""Commands on keys: new, list, trust, revoke."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from launch.cli.context import Context
from launch.cli.given import Given
from recipe.errors import HallmarkError

if TYPE_CHECKING:
    from launch.proof.keys import TrustedKey


@click.group()
def key() -> None:
    """Keys that sign certificates, and whose word counts on this machine."""


_expires = click.option("--expires", metavar="DAYS|DATE", help="its certificates count until then (default: always)")


@key.command()
@click.argument("name")
@_expires
@click.option("--agent", metavar="COMMAND", help="a program that signs what it reads, instead of a private key here")
@click.option("--public", metavar="FILE", type=Given(), help="the agent's public key (PEM)")
@click.pass_obj
def new(context: Context, name: str, expires: str | None, agent: str | None, public: Path | None) -> None:
    """Make the key pair NAME for signing, and trust it. Never overwrites one.

    With --agent the private key stays where it is, such as in a token: COMMAND gets the bytes to sign on standard input
    and writes the 64 bytes of the Ed25519 signature to standard output.
    """
    from launch.proof import dates, keys

    end = dates.until(expires, where="--expires") if expires is not None else None
    if agent is None and public is None:
        keyid = keys.new(name, end)
    elif agent is None or public is None:
        missing = "--agent" if agent is None else "--public"
        raise HallmarkError("an agent and its public key belong together", where=missing, hint=f"give {missing} too")
    else:
        keyid = keys.new_agent(name, public, _words(agent), end)
    context.emit({"name": name, "keyid": keyid}, lambda: f"made and trusted: {name} {keyid}")


@key.command("list")
@click.pass_obj
def list_(context: Context) -> None:
    """Show the trusted and the revoked keys. Changes nothing."""
    from launch.proof import keys

    entries = keys.trusted()

    def text() -> str:
        lines = [f"{keyid}  {entry.name}  {_standing(entry)}" for keyid, entry in entries.items()]
        return "\n".join(lines) or "no key is trusted yet; `hallmark key new NAME` makes one"

    context.emit({"keys": [{"keyid": keyid, **asdict(entry)} for keyid, entry in entries.items()]}, text)


@key.command()
@click.argument("file", type=Given())
@_expires
@click.pass_obj
def trust(context: Context, file: Path, expires: str | None) -> None:
    """Trust certificates signed with the public key in FILE (PEM). May be repeated, with another end too."""
    from launch.proof import dates, keys

    keyid = keys.trust(file, dates.until(expires, where="--expires") if expires is not None else None)
    context.emit({"keyid": keyid}, lambda: f"trusted: {keyid}")


@key.command()
@click.argument("keyid")
@click.pass_obj
def revoke(context: Context, keyid: str) -> None:
    """Stop trusting KEYID for good, for certificates of the past too. May be repeated."""
    from launch.proof import keys

    full = keys.revoke(keyid)
    context.emit({"keyid": full}, lambda: f"revoked: {full}; images that only it certified must be certified anew")


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise HallmarkError(f"{command!r}: {error}", where="--agent", hint="quote it as in a shell") from None
    if not words:
        raise HallmarkError("names no program", where="--agent", hint="write the command that signs")
    # It is run from wherever somebody certifies.
    program = Path(words[0]).expanduser()
    return [str(program.absolute()) if "/" in words[0] else words[0], *words[1:]]


def _standing(entry: "TrustedKey") -> str:
    if entry.revoked:
        return f"revoked {entry.revoked}"
    if entry.expires is None:
        return f"trusted since {entry.added}"
    return f"{'expired' if entry.expired() else f'trusted since {entry.added} until'} {entry.expires}"
