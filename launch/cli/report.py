"""The command report: the evidence behind a certificate as one page."""

import os
from pathlib import Path

import click

from launch.cli.context import Context
from launch.cli.given import Given
from recipe.errors import HallmarkError, Refused


@click.command()
@click.argument("which", metavar="CLUSTER|CERTIFICATE")
@click.option("--out", type=Given(), required=True, metavar="FILE.html", help="the file to write")
@click.pass_obj
def report(context: Context, which: str, out: Path) -> None:
    """Write what was certified, and by what evidence, as one HTML page that needs no network.

    CERTIFICATE is a file, a digest, or an image in a registry. Of a CLUSTER it is what runs, beside the certificate
    before it.
    """
    from launch.cli.certificate import find
    from launch.ledger.report import of_certificate, of_cluster
    from launch.ledger.work import work
    from launch.proof.report.page import MARK, page
    from recipe.config.load import names

    _replaceable(out, MARK)
    if which in names(context.home, "clusters") or which.endswith((".yaml", ".yml")):
        material = of_cluster(work(context.home, which, context.say))
    else:
        envelope, found = find(context, which)
        material = of_certificate(envelope, found)
    try:
        text = page(material)
    except ValueError as error:
        hint = "give a certificate that `hallmark certify` made"
        raise HallmarkError(f"{which} cannot be shown: {error}", hint=hint) from None
    beside = out.with_name(f".{out.name}.{os.getpid()}.new")
    try:
        beside.write_text(text, encoding="utf-8", errors="backslashreplace")
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)
    document = {"report": str(out), "valid": material.found.valid, "digest": material.found.digest}
    context.emit(
        document, lambda: f"{out}: {material.found.profile}, {'valid' if material.found.valid else 'NOT valid'}"
    )


def _replaceable(out: Path, mark: str) -> None:
    """Only a report gives way to a report. Errors: HallmarkError; Refused."""
    if not out.parent.is_dir() or out.is_dir():
        raise HallmarkError(
            "is no file that can be written", where=str(out), hint="name a file in a folder that exists"
        )
    if out.exists():
        with out.open("rb") as file:
            if mark.encode() not in file.read(200):
                raise Refused("is there already, and is no report", where=str(out), hint="choose another name")
