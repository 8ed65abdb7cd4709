"""The `hallmark` command: finds the project, loads the one command that was asked for, ends errors cleanly."""

import importlib
import io
import os
import sys

import click

from launch.cli.context import Context
from recipe.config import paths
from recipe.errors import Exit, HallmarkError, Refused

# name → (module, function, one line for --help). Modules are imported only when their command runs, so that
# the command starts in a fraction of a second.
COMMANDS = {
    "profiles": ("show", "profiles", "list the profiles"),
    "clusters": ("show", "clusters", "list the clusters"),
    "plan": ("patches", "plan", "state of every patch against sources"),
    "apply": ("patches", "apply", "patch an installed tree, or nothing of it"),
    "unapply": ("patches", "unapply", "undo exactly what apply did"),
    "verify": ("patches", "verify", "re-hash all that was patched"),
    "audit": ("audit", "audit", "patches × releases, every cell a state"),
    "relock": ("patches", "relock", "harvest baselines and patches.lock from the released wheels"),
    "pin": ("pin", "pin", "resolve a profile's base image and model to digests"),
    "image": ("image", "image", "build a profile's patched image, or no image at all"),
    "images": ("images", "images", "list, show, check and prune patched images"),
    "fit": ("fit", "fit", "predicted weights, cache bytes per token and context pool of each GPU"),
    "model": ("model", "model", "fetch the model onto the head, bring it to the nodes, compare"),
    "render": ("render", "render", "exactly what each node would run"),
    "init": ("init", "init", "write a cluster file by asking and by looking"),
    "preflight": ("preflight", "preflight", "check every node, with the remedy for what is wrong"),
    "launch": ("group", "launch", "verify, stop the old group, start the new, prove it or restore the old"),
    "status": ("group", "status", "what runs, on all ranks"),
    "logs": ("group", "logs", "the log of every rank"),
    "stop": ("group", "stop", "stop all ranks of a cluster"),
    "watch": ("watch", "watch", "restart the group when it is lost, for as long as this runs"),
    "service": ("watch", "service", "run the watch as a systemd unit on the head"),
    "adopt": ("adopt", "adopt", "record a group that was started by hand, so that there is something to go back to"),
    "certify": ("group", "certify", "run the full gates on the running group and sign the result"),
    "rollback": ("group", "rollback", "launch an earlier certified revision"),
    "bench": ("bench", "bench", "throughput, latency and acceptance of a cluster or an address"),
    "history": ("history", "history", "the revisions of a cluster, and what changed between two"),
    "lock": ("lock", "lock", "who holds a cluster's lock; break it"),
    "certificate": ("certificate", "certificate", "what was certified, and whether it is true"),
    "report": ("report", "report", "the evidence behind a certificate as one HTML page"),
    "key": ("key", "key", "signing keys and whose word counts"),
}


# What a shell calls the end by Ctrl-C.
_INTERRUPTED = 130


class Lazy(click.Group):
    """A group whose commands are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, function, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"launch.cli.{module}"), function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name not in COMMANDS and not name.startswith("-"):
            import difflib

            near = difflib.get_close_matches(name, COMMANDS, 1)
            hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(COMMANDS)}"
            raise HallmarkError(f"there is no command {name!r}", hint=hint)
        return super().resolve_command(ctx, args)


@click.group(cls=Lazy)
@click.option("--home", metavar="DIR", help="the folder with configs/ (default: the nearest parent that has one)")
@click.option("--json", "as_json", is_flag=True, help="one JSON document on standard output")
@click.pass_context
def cli(ctx: click.Context, home: str | None, as_json: bool) -> None:
    """Patch vLLM, prove it, launch it, and roll back to what was proven."""
    ctx.obj = Context(paths.home(explicit=home), as_json)


def main() -> None:
    """Run the command line and exit; no traceback for anything that a user can cause."""
    arguments = sys.argv[1:]
    # --json is also understood behind the command's name, where most people type it.
    as_json = "--json" in arguments
    if as_json:
        arguments = ["--json", *(word for word in arguments if word != "--json")]
    context = Context(paths.CHECKOUT, as_json)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that knows no × still gets the rest of the line.
            stream.reconfigure(errors="backslashreplace")
    try:
        paths.user_home()
        result = cli.main(arguments, prog_name="hallmark", standalone_mode=False)
        status = result if isinstance(result, int) else int(Exit.OK)
    except HallmarkError as error:
        status = context.fail(error)
    except click.exceptions.NoArgsIsHelpError as error:
        known = ", ".join(getattr(error.ctx.command, "commands", COMMANDS)) if error.ctx else ""
        name = error.ctx.command_path if error.ctx else "hallmark"
        status = context.fail(HallmarkError(f"{name} needs a command", hint=f"one of {known}"))
    except click.ClickException as error:
        status = context.fail(HallmarkError(error.format_message(), hint="see hallmark --help"))
    except (KeyboardInterrupt, click.Abort) as error:
        if isinstance(error, click.Abort):
            # It stands behind a question that was not answered.
            print(file=sys.stderr)
        context.fail(HallmarkError("interrupted"))
        status = _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = int(Exit.OK)
    except OSError as error:
        # A full disk, a folder that may not be written: whatever changes something has put it right before.
        where = str(error.filename) if error.filename else None
        try:
            status = context.fail(Refused(f"not done: {error.strerror or error}", where=where))
        except OSError:
            # Standard output itself is what cannot be written.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            status = int(Exit.NOT_DONE)
    raise SystemExit(status)
