"""Who may import whom: the applier stands alone, and everything else goes one way."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# package → the packages that it may import besides itself; those in one line do not know each other.
BELOW: dict[str, set[str]] = {"launch.plan": set()}
for layer in (
    ("launch.nodes", "launch.engines"),
    ("launch.proof", "launch.group"),
    ("launch.ledger",),
    ("launch.cli",),
):
    BELOW |= {package: set(BELOW) for package in layer}
BELOW |= {"recipe.applier": set(), "recipe.config": set(), "recipe.catalogue": {"recipe.applier", "recipe.config"}}
BELOW["recipe.image"] = {"recipe.catalogue", *BELOW["recipe.catalogue"]}


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted module) of every import of a file, also those inside of functions."""
    package = ".".join(path.relative_to(ROOT).parent.parts)
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            origin = ".".join([*parts, *([node.module] if node.module else [])])
            # `from launch import plan` names a package only in its second half.
            yield from ((node.lineno, f"{origin}.{alias.name}") for alias in node.names)


def inside(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")


def strays(path: Path, allowed: set[str], watched: tuple[str, ...]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: imports {module}"
        for line, module in imports(path)
        if any(inside(module, package) for package in watched)
        and not any(inside(module, package) for package in allowed)
    ]


@pytest.mark.parametrize("path", modules("launch/nodes/moving"), ids=lambda path: path.stem)
def test_what_moves_model_files_imports_what_every_python_has_and_each_other(path: Path) -> None:
    allowed = {*sys.stdlib_module_names, "__future__"}
    told = [module for _, module in imports(path) if not module.startswith("launch.nodes.moving.")]
    assert [module for module in told if module.partition(".")[0] not in allowed] == []


@pytest.mark.parametrize("path", modules("recipe/image/inside"), ids=lambda path: path.stem)
def test_the_checks_inside_images_import_what_every_image_has(path: Path) -> None:
    allowed = {*sys.stdlib_module_names, "vllm", "torch", "pydantic", "__future__"}
    assert [
        module
        for _, module in imports(path)
        if not inside(module, "recipe.image.inside") and module.partition(".")[0] not in allowed
    ] == []


@pytest.mark.parametrize("path", modules("recipe/applier"), ids=lambda path: path.stem)
def test_the_applier_imports_the_standard_library_and_itself(path: Path) -> None:
    foreign = [
        f"{path.relative_to(ROOT)}:{line}: imports {module}"
        for line, module in imports(path)
        if not inside(module, "recipe.applier") and module.partition(".")[0] not in sys.stdlib_module_names
    ]
    assert foreign == []


def test_the_applier_reaches_itself_only_by_relative_imports() -> None:
    # Inside an image it is a package of another name.
    absolute = [
        f"{path.name}:{node.lineno}"
        for path in modules("recipe/applier")
        for node in ast.walk(ast.parse(path.read_bytes()))
        if isinstance(node, (ast.Import, ast.ImportFrom)) and "recipe" in ast.unparse(node)
    ]
    assert absolute == []


def test_recipe_knows_nothing_of_launch() -> None:
    found = [stray for path in modules("recipe") for stray in strays(path, set(), ("launch", "scripts", "tests"))]
    assert found == []


def test_launch_knows_nothing_of_scripts_and_tests() -> None:
    assert [stray for path in modules("launch") for stray in strays(path, set(), ("scripts", "tests"))] == []


@pytest.mark.parametrize("package", sorted(BELOW))
def test_imports_go_one_way(package: str) -> None:
    top = package.partition(".")[0]
    allowed = {package, *BELOW[package]}
    if top == "launch":
        allowed.add("recipe")
    else:
        allowed.add("recipe.errors")
    found = modules(package.replace(".", "/"))
    assert found, "an empty package proves nothing"
    assert [stray for path in found for stray in strays(path, allowed, ("launch", "recipe"))] == []


def test_every_package_of_the_program_has_its_place() -> None:
    folders = {
        f"{path.parent.parent.name}.{path.parent.name}"
        for top in ("launch", "recipe")
        for path in (ROOT / top).glob("*/*.py")
    }
    assert folders <= set(BELOW)
