"""Runs an image build: base, build, a look at the result, tag, push. A tag is set when all else is done."""

import os
import re
import shlex
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from recipe.errors import Exit, HallmarkError, Mismatch, Problem, Refused, Unreachable
from recipe.image import checks, engine, remote
from recipe.image.checks import Answer
from recipe.image.client import Client
from recipe.image.inspect import Image, image, repository_of
from recipe.image.packages import About
from recipe.image.plan import Build, about_argv, build_argv, build_environment, checks_argv, rebuild_argv

Say = Callable[[str], None]
_STEP = re.compile(r"#(\d+) (?:\d+\.\d+ (?P<output>.*)|ERROR: (?P<error>.*))")
_UNCHANGED = Problem("no image was made, and no tag was made or moved")
_BY_STATUS: dict[int, type[HallmarkError]] = {Exit.USAGE: HallmarkError, Exit.MISMATCH: Mismatch}


def base(client: Client, reference: str, architecture: str, where: str | None, say: Say) -> Image:
    """What the engine knows of the base image, which is pulled first when the engine does not have it.

    Errors: HallmarkError when it is for another architecture; Unreachable when it cannot be pulled.
    """
    found = image(client, reference)
    if found is None:
        argv = (client.program, "pull", "--platform", f"linux/{architecture}", reference)
        say(f"+ {shlex.join(argv)}")
        done = engine.stream(argv, {}, say)
        found = image(client, reference) if done.status == 0 else None
        if found is None:
            raise _not_pulled(done, reference, architecture, where)
    if found.architecture != architecture:
        raise HallmarkError(
            f"the base image {reference} is for {found.architecture}, the profile's hardware is {architecture}",
            where=where,
            hint=f"name an image for linux/{architecture}",
        )
    return found


def about(client: Client, planned: Build, context: Path, say: Say) -> About:
    """What the base says is installed in it. Errors: as for `check`."""
    with tempfile.TemporaryDirectory(prefix="hallmark-") as folder:
        _run(client, about_argv(planned, client, context, Path(folder)), planned, say)
        with _readable("the look at the base"):
            return About.read(Path(folder) / "about.json")


def check(client: Client, planned: Build, context: Path, say: Say) -> Answer:
    """Patch the base and let the checks run inside; gives their answer when none of them failed.

    Errors: Refused when a patch drifts or a check fails; HallmarkError when the profile's serve line is wrong;
    Mismatch when verification fails.
    """
    with tempfile.TemporaryDirectory(prefix="hallmark-") as folder:
        _run(client, checks_argv(planned, client, context, Path(folder)), planned, say)
        with _readable("the checks"):
            return checks.read(Path(folder))


@contextmanager
def _readable(what: str) -> Iterator[None]:
    # It was written in an image that somebody else may have made.
    try:
        yield
    except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        error = Refused(f"what {what} wrote inside the image cannot be read", hint="choose another base image")
        error.problems = (*error.problems, _UNCHANGED)
        raise error from None


def build(client: Client, planned: Build, on: Image, context: Path, say: Say, guard: Callable[[Image], None]) -> Image:
    """Build the image, show it to `guard`, and tag it; gives what the engine says about it.

    Errors: Refused when the tag names another image already; Mismatch when the image is not what was planned; what
    `guard` raises; in every case no tag has moved.
    """
    made = _made(client, lambda identity: build_argv(planned, client, context, identity), planned, say)
    _look_at(made, planned, on)
    guard(made)
    there = image(client, planned.tag)
    if there is None:
        engine.ask(client, "tag", made.config_digest, planned.tag)
        return made
    if not there.same_as(made):
        hint = f"`docker image rm {planned.tag}` first, when nothing is to run that image again"
        raise _taken(there, made, planned.tag, hint)
    return there


def _made(client: Client, argv: Callable[[Path], tuple[str, ...]], planned: Build, say: Say) -> Image:
    """The image that a command line makes, which leaves the image's id in the file that `argv` is given."""
    # No folder of its own around it, so that the command can be repeated by hand as it is printed.
    handle, name = tempfile.mkstemp(prefix="hallmark-", suffix=".id")
    os.close(handle)
    identity = Path(name)
    try:
        _run(client, argv(identity), planned, say)
        digest = identity.read_text().strip()
    finally:
        # Docker removes it itself when a build fails.
        identity.unlink(missing_ok=True)
    made = image(client, digest)
    if made is None:
        raise Refused(f"the build ended well, but the engine has no image {digest}")
    return made


def _run(client: Client, argv: tuple[str, ...], planned: Build, say: Say) -> None:
    variables = build_environment(client)
    say(f"+ {' '.join(f'{key}={value}' for key, value in variables.items())} {shlex.join(argv)}")
    done = engine.stream(argv, variables, say)
    if done.status:
        raise failure(done, planned)


def publish(client: Client, tag: str, made: Image, say: Say) -> str:
    """Push the tag where it does not name another image yet; gives the manifest's digest.

    Errors: Refused when the registry has another image under this tag; Unreachable with what the registry said;
    Mismatch when it then has something else than was pushed.
    """
    there = remote.image(tag, made.architecture)
    if there is not None and not there.image.same_as(made):
        raise _taken(there.image, made, tag, "choose another repository: others may run what this tag names")
    digest = push(client, tag, say)
    now = remote.image(f"{repository_of(tag)}@{digest}", made.architecture)
    if now is None or now.image.config_digest != made.config_digest:
        has = f"image {now.image.config_digest}" if now else "nothing"
        raise Mismatch(f"the registry has {has} under {digest}, pushed was {made.config_digest}", where=tag)
    return digest


def push(client: Client, tag: str, say: Say) -> str:
    """Push the tag; gives the manifest's digest, under which the registry has then been asked for it.

    Errors: Unreachable with what the registry said.
    """
    argv = (client.program, "push", tag)
    say(f"+ {shlex.join(argv)}")
    done = engine.stream(argv, {}, say)
    digest = next((match[1] for line in done.lines if (match := re.search(r"digest: (sha256:\w{64})", line))), None)
    if done.status or digest is None:
        told = [line for line in done.lines if line.strip()]
        raise Unreachable(f"{tag} was not pushed: {told[-1] if told else 'docker said nothing'}")
    engine.ask(client, "pull", "--quiet", f"{repository_of(tag)}@{digest}")
    return digest


def rebuilt(client: Client, planned: Build, context: Path, say: Say) -> tuple[str, ...]:
    """Patch the base once more without the cache; gives the layers of the result, which is not kept.

    Errors: as for `check`.
    """
    made = _made(client, lambda identity: rebuild_argv(planned, client, context, identity), planned, say)
    engine.ask(client, "image", "rm", made.config_digest)
    return made.layers


def failure(done: engine.Done, planned: Build) -> HallmarkError:
    """The error of a build that failed: the failing step's own output, with the status that it ended with."""
    outputs: dict[str, list[str]] = {}
    failed = ""
    for line in done.lines:
        if match := _STEP.match(line):
            if match["error"] is not None:
                failed = match[1]
            elif match["output"].strip():
                outputs.setdefault(match[1], []).append(match["output"])
    output = outputs.get(failed)
    # Where the checks ran, theirs are the lines that say what failed; the others are vLLM's own.
    output = [line for line in output or () if line.startswith("check ")] or output
    statuses = re.findall(r"exit code: (\d+)", "\n".join(done.lines))
    if any("exec format error" in line for line in done.lines):
        error: HallmarkError = Refused(
            f"this engine cannot run programs for {planned.architecture}",
            hint=f"build on a machine that is {planned.architecture}, or register qemu-user-static in binfmt_misc",
        )
    elif not output or not statuses or any(engine.DISK_FULL in line.lower() for line in done.lines):
        error = engine.explain(done.lines, "the build failed")
    else:
        error = _BY_STATUS.get(int(statuses[-1]), Refused)("")
        error.problems = tuple(Problem(line) for line in output)
    error.problems = (*error.problems, _UNCHANGED)
    return error


def _look_at(made: Image, planned: Build, on: Image) -> None:
    if made.architecture != planned.architecture:
        raise Mismatch(f"the image is for {made.architecture}, the profile's hardware is {planned.architecture}")
    if made.layers[: len(on.layers)] != on.layers:
        raise Mismatch(f"the image does not begin with the layers of {planned.base}, which moved meanwhile")
    wrong = [key for key, value in planned.labels.items() if made.labels.get(key) != value]
    if wrong:
        raise Mismatch(f"the image lacks the labels {', '.join(wrong)}")


def _taken(there: Image, made: Image, tag: str, hint: str) -> Refused:
    keys = sorted({*there.labels, *made.labels})
    other = [key for key in keys if there.labels.get(key) != made.labels.get(key)]
    what = f"their {', '.join(other) or ('files' if there.layers != made.layers else 'settings')} differ"
    return Refused(
        f"is another image already ({there.config_digest}), and a tag never moves: {what}; built was"
        f" {made.config_digest}",
        where=tag,
        hint=hint,
    )


def _not_pulled(done: engine.Done, reference: str, architecture: str, where: str | None) -> HallmarkError:
    told = [line for line in done.lines if line.strip()]
    last = told[-1] if told else "docker said nothing"
    if "no matching manifest" in last:
        return HallmarkError(
            f"the base image {reference} is not there for linux/{architecture}",
            where=where,
            hint=f"name an image for linux/{architecture}",
        )
    error = engine.explain(done.lines, "")
    if isinstance(error, Unreachable) or engine.DISK_FULL in last.lower():
        return error
    return Unreachable(
        f"the base image {reference} is not on this engine and cannot be pulled: {last}",
        where=where,
        hint="check its name, log in, or load it",
    )
