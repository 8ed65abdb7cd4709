"""What holds for any place of the released sources of vLLM, and for the catalogue's places when upstream moves on.

The judges know nothing of the applier: they compare trees that `ast` makes of the bytes before and after.
"""

import ast
import random
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from recipe.applier.manifest import Manifest
from recipe.applier.patchset import PatchSet
from recipe.applier.plan import plan
from recipe.applier.states import PENDING, Change, Plan
from recipe.applier.walk import fingerprint
from recipe.catalogue.compile import compile_profile
from recipe.catalogue.wheels import Wheel, wheel
from recipe.config.load import load_profile
from recipe.config.paths import CHECKOUT

pytestmark = pytest.mark.wheel

VERSION = "0.33.0"
quick = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# Of an edit at a random place it is unknown what it may be refused for, but these never are the answer.
REFUSED = {"drift:scope", "drift:anchor", "drift:ambiguous", "drift:syntax", "drift:conflict", "upstreamed"}
Patches = Callable[..., PatchSet]


@cache
def release() -> Wheel:
    return wheel(VERSION)


@cache
def names() -> list[str]:
    """The Python files of the release, without the longest ones, which only cost time."""
    listed = [name for name in release().files() if name.startswith("vllm/") and name.endswith(".py")]
    return sorted(name for name in listed if 300 < len(read(name)) < 80_000)


@cache
def read(name: str) -> bytes:
    data = release().read(name)
    assert data is not None
    return data


class OneFile:
    """A release of which one file is another one."""

    manifest: Manifest | None = None
    version = VERSION

    def __init__(self, name: str, data: bytes) -> None:
        self.name, self.data = name, data

    def read(self, file: str) -> bytes | None:
        return self.data if file == self.name else release().read(file)

    def pristine_by_release(self, file: str, data: bytes) -> bool:
        return True

    def files(self) -> list[str]:
        return [self.name]


def defined(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """(qualified name, node) of every def and class, in the order of the file."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield f"{prefix}{node.name}", node
            yield from defined(node, f"{prefix}{node.name}.")
        else:
            yield from defined(node, prefix)


def blocks(scope: Any) -> Iterator[list[ast.stmt]]:
    """The statement lists of one definition, without those of the definitions in it."""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(scope, field, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block
            for statement in block:
                if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                    yield from blocks(statement)
    for part in [*getattr(scope, "handlers", []), *getattr(scope, "cases", [])]:
        yield from blocks(part)


def changed(data: bytes, name: str, patches: Patches, **edit: Any) -> tuple[Change | None, str]:
    found = plan(OneFile(name, data), patches(a=[{"file": name, **edit}]))
    (state,) = (edit.state for edit in found.patches[0].edits)
    return (found.changes[0] if found.changes else None), state


def judge(change: Change | None, state: str, data: bytes, expected: ast.AST) -> None:
    """The change is exactly the expected one and leads back, or the edit was refused."""
    if change is None:
        assert state in REFUSED
        return
    assert state == PENDING
    assert change.after is not None and change.record is not None
    assert ast.dump(ast.parse(change.after)) == ast.dump(expected)
    assert change.record.reverse("file", change.after) == data


PLACE = {"file": st.integers(0, 100_000), "number": st.integers(0, 100_000)}


def choose(file: int, number: int, find: Callable[[ast.Module], list[Any]]) -> tuple[str, bytes, ast.Module, Any]:
    name = names()[file % len(names())]
    data = read(name)
    tree = ast.parse(data)
    found = find(tree)
    assume(found)
    return name, data, tree, found[number % len(found)]


@given(**PLACE, after=st.booleans())
@quick
def test_a_statement_goes_beside_the_one_that_is_meant(file: int, number: int, after: bool, patches: Patches) -> None:
    name, data, tree, (scope, block, index) = choose(
        file,
        number,
        lambda tree: [
            (scope, block, index)
            for scope, node in defined(tree)
            for block in blocks(node)
            for index in range(len(block))
        ],
    )
    side, code = ("after" if after else "before"), "if True:\n    hallmark_ = '''a\n  b'''"
    change, state = changed(
        data, name, patches, op="insert", **{"in": scope, side: ast.unparse(block[index])}, add=code
    )
    block.insert(index + after, ast.parse(code).body[0])
    judge(change, state, data, tree)


@given(**PLACE)
@quick
def test_a_statement_gives_way_to_others(file: int, number: int, patches: Patches) -> None:
    name, data, tree, (scope, block, index) = choose(
        file,
        number,
        lambda tree: [
            (scope, block, index)
            for scope, node in defined(tree)
            for block in blocks(node)
            for index in range(len(block))
        ],
    )
    code = "hallmark_ = (\n    1,\n)\ndel hallmark_"
    change, state = changed(data, name, patches, op="replace", **{"in": scope}, old=ast.unparse(block[index]), new=code)
    block[index : index + 1] = ast.parse(code).body
    judge(change, state, data, tree)


@given(**PLACE)
@quick
def test_a_function_gets_a_parameter(file: int, number: int, patches: Patches) -> None:
    name, data, tree, (scope, node) = choose(
        file, number, lambda tree: [(scope, node) for scope, node in defined(tree) if hasattr(node, "args")]
    )
    change, state = changed(
        data, name, patches, op="parameter", **{"in": scope}, add={"hallmark_": {"default": "(1,\n2)"}}
    )
    argument, default = ast.arg("hallmark_"), ast.parse("(1, 2)", mode="eval").body
    if node.args.vararg or node.args.kwonlyargs:
        node.args.kwonlyargs.append(argument)
        node.args.kw_defaults.append(default)
    else:
        node.args.args.append(argument)
        node.args.defaults.append(default)
    judge(change, state, data, tree)


@given(**PLACE)
@quick
def test_a_function_gets_another_body(file: int, number: int, patches: Patches) -> None:
    name, data, tree, (scope, node) = choose(
        file, number, lambda tree: [(scope, node) for scope, node in defined(tree) if hasattr(node, "args")]
    )
    code = "'''One.\n\n  Two.'''\nreturn None"
    change, state = changed(
        data, name, patches, op="body", **{"in": scope}, fingerprint=fingerprint(node.body), add=code
    )
    node.body = ast.parse(code).body
    judge(change, state, data, tree)


@given(**PLACE)
@quick
def test_a_call_gets_a_keyword(file: int, number: int, patches: Patches) -> None:
    def calls(tree: ast.Module) -> list[Any]:
        return [
            (scope, call)
            for scope, node in defined(tree)
            for block in blocks(node)
            for statement in block
            for call in ast.walk(statement)
            if isinstance(call, ast.Call)
        ]

    name, data, tree, (scope, call) = choose(file, number, calls)
    edit = {"op": "call-keyword", "in": scope, "call": ast.unparse(call.func), "add": {"hallmark_": "{'ä': [1]}"}}
    change, state = changed(data, name, patches, **edit)
    call.keywords.append(ast.keyword("hallmark_", ast.parse("{'ä': [1]}", mode="eval").body))
    judge(change, state, data, tree)


@given(**PLACE)
@quick
def test_a_collection_gets_a_member(file: int, number: int, patches: Patches) -> None:
    def tables(tree: ast.Module) -> list[Any]:
        return [
            (scope, statement)
            for scope, node in [("<module>", tree), *defined(tree)]
            for block in blocks(node)
            for statement in block
            if isinstance(statement, ast.Assign) and isinstance(statement.value, (ast.Dict, ast.List, ast.Tuple))
        ]

    name, data, tree, (scope, statement) = choose(file, number, tables)
    table = statement.value
    add: Any = {"'hallmark'": "1"} if isinstance(table, ast.Dict) else "'hallmark'"
    of = ast.unparse(statement.targets[0])
    change, state = changed(data, name, patches, op="member", **{"in": scope}, of=of, add=add)
    if isinstance(table, ast.Dict):
        table.keys.append(ast.Constant("hallmark"))
        table.values.append(ast.Constant(1))
    else:
        table.elts.append(ast.Constant("hallmark"))
    judge(change, state, data, tree)


@given(file=PLACE["file"])
@quick
def test_a_module_gets_an_import(file: int, patches: Patches) -> None:
    name, data, tree, _ = choose(file, 0, lambda tree: [tree])
    change, state = changed(data, name, patches, op="import", add={"from": "hallmark.x", "names": ["a as hallmark_"]})
    if change is not None:
        assert change.after is not None
        (at,) = (
            number
            for number, statement in enumerate(ast.parse(change.after).body)
            if isinstance(statement, ast.ImportFrom) and statement.module == "hallmark.x"
        )
        assert isinstance(tree.body[at - 1], (ast.Import, ast.ImportFrom))
        tree.body.insert(at, ast.parse("from hallmark.x import a as hallmark_").body[0])
    judge(change, state, data, tree)


# --- what upstream may do to the places of the catalogue ---


@cache
def catalogue() -> PatchSet:
    return compile_profile(load_profile(CHECKOUT, "gb10-nvfp4"), VERSION)


def edits() -> Iterator[tuple[PatchSet, dict[str, Any]]]:
    """Every edit that has a place in a definition, with a patch set of its patch alone."""
    for patch in catalogue().patches:
        alone = PatchSet({"schema": 1, "vllm": VERSION, "patches": [patch], "baseline": catalogue().baseline})
        yield from ((alone, edit) for edit in patch["edits"] if "in" in edit and edit["applies"])


def mutations(data: bytes, first: int, last: int, seed: int) -> Iterator[bytes]:
    """The file with one thing changed on or near the lines [first, last]: a name, an argument, a line moved, doubled
    or taken away, a definition renamed or copied. Only what still is Python."""
    lines = data.split(b"\n")
    chance = random.Random(seed)
    words = sorted({*re.findall(rb"[A-Za-z_]{4,}", b"\n".join(lines[first:last]))})

    def at() -> int:
        return chance.randrange(max(first - 3, 0), min(last + 3, len(lines) - 1))

    def renamed() -> list[bytes]:
        word = chance.choice(words)
        return [re.sub(rb"\b" + word + rb"\b", word + b"_2", line) for line in lines]

    def renamed_once() -> list[bytes]:
        number, word = at(), chance.choice(words)
        return [*lines[:number], re.sub(rb"\b" + word + rb"\b", word + b"_2", lines[number]), *lines[number + 1 :]]

    def doubled() -> list[bytes]:
        start = at()
        end = chance.randint(start, min(start + 8, len(lines) - 1))
        return [*lines[:end], *lines[start:end], *lines[end:]]

    def gone() -> list[bytes]:
        start = at()
        return [*lines[:start], *lines[chance.randint(start, min(start + 6, len(lines) - 1)) :]]

    def swapped() -> list[bytes]:
        number = at()
        return [*lines[:number], lines[number + 1], lines[number], *lines[number + 2 :]]

    def copied() -> list[bytes]:
        # The whole definition again under another name, before itself: a look-alike.
        start = max(number for number in range(first + 1) if re.match(rb"\s*(async )?def |class ", lines[number]))
        indent = len(lines[start]) - len(lines[start].lstrip())
        end = start + 1
        while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip()) > indent):
            end += 1
        twin = [re.sub(rb"(def|class) (\w+)", rb"\1 \2_2", lines[start]), *lines[start + 1 : end]]
        return [*lines[:start], *twin, *lines[start:]]

    for mutate in (copied, renamed, renamed_once, doubled, gone, swapped) * 2:
        try:
            mutated = b"\n".join(mutate())
            ast.parse(mutated)
        except (SyntaxError, ValueError):
            continue
        if mutated != data:
            yield mutated


def place(edit: dict[str, Any], planned: Plan) -> tuple[int, int]:
    """The lines (from 0) around the first change in the definition of the edit."""
    (change,) = (change for change in planned.changes if change.file == edit["file"])
    assert change.record is not None and change.pristine is not None
    (node,) = (node for name, node in defined(ast.parse(change.pristine)) if name == edit["in"])
    lines = [change.pristine[: undo.start].count(b"\n") for undo in change.record.undo]
    line = next(line for line in lines if node.lineno <= line + 1)
    return max(line - 5, 0), line + 5


def without(data: bytes, names: set[str]) -> str:
    """The tree without the inside of the definitions of these names, and without imports at the top."""
    tree = ast.parse(data)
    tree.body = [statement for statement in tree.body if not isinstance(statement, (ast.Import, ast.ImportFrom))]
    for name, node in defined(tree):
        if name in names:
            node.body = []
    return ast.dump(tree)


def test_a_mutated_place_drifts_or_is_edited_rightly_and_nothing_else_ever_is() -> None:
    counted = {"edited": 0, "refused": 0}
    for number, (patchset, edit) in enumerate(edits()):
        file, where = edit["file"], edit["in"]
        data = read(file)
        scopes = {other["in"] for other in patchset.patches[0]["edits"] if other["file"] == file and "in" in other}
        whole = plan(OneFile(file, data), patchset)
        assert whole.problems() == []
        for mutated in mutations(data, *place(edit, whole), seed=number):
            found = plan(OneFile(file, mutated), patchset)
            if found.problems():
                counted["refused"] += 1
                continue
            counted["edited"] += 1
            (change,) = (change for change in found.changes if change.file == file)
            assert change.after is not None
            assert without(change.after, scopes) == without(mutated, scopes), edit
            brought = str(edit.get("add") or edit["new"])
            inside = "\n".join(ast.unparse(node) for name, node in defined(ast.parse(change.after)) if name == where)
            assert ast.unparse(ast.parse(brought).body[0]).split("\n")[0] in inside
    assert min(counted.values()) > 5, counted
