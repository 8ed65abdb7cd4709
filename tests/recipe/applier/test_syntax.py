"""Every case of tests/cases/patch once more, written otherwise: the same edits must come out in every form.

Each operation so meets Windows line endings, a mark of byte order, non-ASCII text, tabs, and a place inside of a
condition, of a function and of a class.
"""

import ast
import copy
import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from recipe.applier.ops import OPERATIONS
from recipe.applier.patchset import PatchSet
from recipe.applier.plan import plan
from recipe.applier.source import MODULE
from recipe.applier.states import refusal
from recipe.catalogue import compile as catalogue
from tests.recipe.applier.one_file import OneFile

CASES = Path(__file__).resolve().parents[2] / "cases" / "patch"
FILE = "vllm/module.py"
Document = dict[str, Any]


def cases() -> list[Any]:
    found = []
    for path in sorted(CASES.glob("*/*.yaml")):
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        plain = {"bytes", "file", "before-base64", "independent", "class"}.isdisjoint(data)
        plain = plain and path.parent.name not in ("broken", "overlay") and "coding" not in data.get("before", "")
        if plain and "before" in data and "after" in data:
            found.append(pytest.param(data, id=f"{path.parent.name}-{path.stem}"))
    return found


def document(case: Document, folder: Path) -> Document:
    patches = []
    for id, edits in (case.get("patches") or {"patch": case["edits"]}).items():
        file = folder / f"{id}.yaml"
        text = {
            "id": id,
            "title": id,
            "class": "local",
            "why": "a case",
            "remove-when": "never",
            "upstream": {"none": "a case", "status": "none", "checked": "2026-12-01"},
            "edits": [{"file": FILE, "when": ">=0.33.0", **edit} for edit in edits],
        }
        file.write_text(yaml.safe_dump(text, allow_unicode=True, sort_keys=False), encoding="utf-8")
        patches.append(catalogue._compile(catalogue.load_patch(file), True, "0.33.0"))
    return {"schema": 1, "vllm": "0.33.0", "patches": patches, "baseline": {}}


def inside(compiled: Document, outer: str) -> Document:
    """The same edits in a definition called `outer` around everything."""
    moved = copy.deepcopy(compiled)
    for patch in moved["patches"]:
        for edit in patch["edits"]:
            edit["in"] = outer if edit.get("in", MODULE) == MODULE else f"{outer}.{edit['in']}"
    return moved


def under(header: str, code: str) -> str:
    return f"{header}\n" + textwrap.indent(code, "    ", lambda line: bool(line.strip()))


def outcome(case_text: bytes, compiled: Document) -> bytes:
    found = plan(OneFile(FILE, case_text), PatchSet(compiled))
    assert refusal(found.problems()) == []
    (change,) = found.changes
    assert change.after is not None
    return change.after


def operations(compiled: Document) -> set[str]:
    return {edit["op"] for patch in compiled["patches"] for edit in patch["edits"]}


def movable(case: Document, compiled: Document) -> bool:
    """Whether the file means the same below another line: imports and `__future__` do not, nor do strings of several
    lines, which hold what stands before their lines; and exact text is exact."""
    text = case["before"] + case["after"]
    fixed = ('"' * 3, "'" * 3, "\\\n", "__future__")
    return operations(compiled).isdisjoint({"import", "text"}) and not any(part in text for part in fixed)


@pytest.mark.parametrize("case", cases())
def test_the_same_edits_come_out_in_every_form_of_the_file(case: Document, tmp_path: Path) -> None:
    before, after = case["before"], case["after"]
    compiled = document(case, tmp_path)
    assert outcome(before.encode(), compiled) == after.encode()
    windows = [text.replace("\n", "\r\n").encode() for text in (before, after)]
    assert outcome(windows[0], compiled) == windows[1]
    mark = b"\xef\xbb\xbf"
    assert outcome(mark + before.encode(), compiled) == mark + after.encode()
    comment = "# größe 漢字 🎈\n"
    assert outcome((comment + before).encode(), compiled) == (comment + after).encode()
    if not movable(case, compiled):
        return
    tabbed = before.replace("    ", "\t").encode()
    assert ast.dump(ast.parse(outcome(tabbed, compiled))) == ast.dump(ast.parse(after))
    assert outcome(under("if ready:", before).encode(), compiled).decode() == under("if ready:", after)
    moved = inside(compiled, "outer")
    header = "async def outer():"
    assert outcome(under(header, before).encode(), moved).decode() == under(header, after)


@pytest.mark.parametrize("case", cases())
def test_a_look_alike_beside_the_place_is_not_touched(case: Document, tmp_path: Path) -> None:
    before, after = case["before"], case["after"]
    compiled = document(case, tmp_path)
    if not movable(case, compiled):
        return
    moved = inside(compiled, "outer")
    twin, other = under("def outer_2():", before), under("def inner():", before)
    written = outcome(f"{twin}\n{under('def outer():', before)}\n{other}".encode(), moved).decode()
    assert written == f"{twin}\n{under('def outer():', after)}\n{other}"


def test_the_cases_cover_every_operation(tmp_path: Path) -> None:
    covered: set[str] = set()
    for case in cases():
        covered |= operations(document(case.values[0], tmp_path))
    assert covered == set(OPERATIONS) - {"overlay"}
