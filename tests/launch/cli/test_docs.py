"""What the pages tell people to type exists, with these arguments and options."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from launch.cli.main import COMMANDS, cli
from recipe.config.paths import CHECKOUT
from tests.standin.world import World

PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
_BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`(?:hallmark|[^`\n]*bin/hallmark) ([^`\n]+)`")
_OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*")


def typed(page: Path) -> Iterator[list[str]]:
    """The words of every command of ours in the blocks for a shell."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        for line in block.replace("\\\n", " ").splitlines():
            if not re.search(r"(^|[&|;(] *|\) *)(\S*bin/)?hallmark ", line):
                continue
            words = shlex.split(line, comments=True)
            at = next(number for number, word in enumerate(words) if word.rpartition("/")[2] == "hallmark")
            yield words[at + 1 :]


def command(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that the words name, and those that are left for it."""
    found: click.Command = cli
    rest = [word for word in words if word != "--json"]
    while isinstance(found, click.Group) and rest:
        inner = found.get_command(click.Context(found), rest[0])
        assert inner is not None, f"there is no command {rest[0]!r}"
        found, rest = inner, rest[1:]
    return found, rest


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_of_a_page_can_be_typed(page: Path) -> None:
    for words in typed(page):
        found, rest = command(words)
        found.make_context(words[0], list(rest))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_that_a_page_speaks_of_is_there(page: Path) -> None:
    for span in _SPAN.findall(page.read_text(encoding="utf-8")):
        words = span.replace("\\|", "|").split()
        if words[0] not in COMMANDS:
            # A label or a folder of that name.
            assert not words[0].isalpha(), f"there is no command {span!r}"
            continue
        names = [words[:1]]
        if isinstance(command(words[:1])[0], click.Group):
            names = [[words[0], one] for one in words[1].split("|")] if len(words) > 1 else []
        known = {option for name in names for it in command(name)[0].params for option in it.opts}
        told = set(_OPTION.findall(span)) - {"--json"}
        assert not names or told <= known, f"{span!r}: {sorted(told - known)}"


def test_the_pages_were_read() -> None:
    read = {page.name: list(typed(page)) for page in PAGES}
    assert read["two-sparks.md"][0][:4] == ["init", "two", "--node", "spark-a=local"]
    for page in ("two-sparks.md", "h200.md"):
        assert {"init", "preflight", "pin", "model", "image", "launch"} <= {words[0] for words in read[page]}


def test_the_lines_that_give_a_profile_a_key_do_that(world: World, tmp_path: Path) -> None:
    shutil.copytree(CHECKOUT / "configs", tmp_path / "configs")
    clusters = tmp_path / "configs" / "clusters"
    (clusters / "two-spark.example.yaml").rename(clusters / "two.yaml")
    [block] = [it for it in _BLOCK.findall((CHECKOUT / "docs/two-sparks.md").read_text()) if "openssl rand" in it]
    lines = [line for line in block.splitlines() if not line.startswith("hallmark ")]
    world.patches.setenv("HOME", str(tmp_path))
    subprocess.run(["sh", "-ec", "\n".join(lines)], cwd=tmp_path, check=True)
    key = (tmp_path / ".config/hallmark/api-key").read_text().strip()
    result = world.run("--home", str(tmp_path), "render", "two")
    assert (result.exit, "asks for no key" in result.err, key in result.out) == (0, False, False), result.err
    assert "file:~/.config/hallmark/api-key" in result.out
