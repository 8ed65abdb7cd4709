"""C5: a name in a template that nobody gave is an error, and no empty word in a command."""

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from launch.engines import template
from launch.ledger import init
from launch.plan import unit

ROOT = Path(__file__).resolve().parents[1]
READERS = [
    path
    for folder in ("launch", "recipe", "scripts")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if "jinja2" in path.read_text(encoding="utf-8")
]


@pytest.mark.parametrize("path", READERS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_c5_every_reader_of_templates_refuses_names_that_nobody_gave(path: Path) -> None:
    made = [
        call
        for call in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "Environment"
    ]
    assert made
    for call in made:
        told = {it.arg: ast.unparse(it.value) for it in call.keywords}
        assert told.get("undefined") == "StrictUndefined", f"line {call.lineno}"


def a_unit() -> str:
    return unit.unit("pair", ["/bin/true"], {}, None, "default.target")


def a_file() -> str:
    return init.text("a", "docker", [], "~/.hallmark", "~/models", 8000, 29501)


def a_serve_script() -> str:
    return template.render("rank.service.j2")


@pytest.mark.parametrize(
    ("module", "folder", "name", "render"),
    [
        (unit, "_TEMPLATES", "watch.service.j2", a_unit),
        (init, "_TEMPLATES", "cluster.yaml.j2", a_file),
        (template, "_FOLDER", "rank.service.j2", a_serve_script),
    ],
    ids=lambda value: value if isinstance(value, str) and value.endswith("j2") else "",
)
def test_c5_a_misspelt_name_in_a_template_of_launch_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, folder: str, name: str, render: Callable[[], str]
) -> None:
    (tmp_path / name).write_text("--port {{ serve_prot }}\n")
    monkeypatch.setattr(module, folder, tmp_path)
    template._environment.cache_clear()
    try:
        with pytest.raises(UndefinedError, match="'serve_prot' is undefined"):
            render()
    finally:
        template._environment.cache_clear()
