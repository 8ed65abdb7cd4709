"""What holds for any place of any source: checked at random places of files of the standard library."""

import ast
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from recipe.applier.errors import Drift
from recipe.applier.ops import Splice
from recipe.applier.patchset import PatchSet
from recipe.applier.plan import plan
from recipe.applier.reparse import reparse
from recipe.applier.source import Source, quiet
from recipe.applier.states import Plan
from recipe.applier.tree import Tree
from recipe.applier.walk import bodies, own_nodes
from tests.recipe.applier.one_file import OneFile

LIBRARY = Path(sysconfig.get_path("stdlib"))
FILES = (
    *("argparse", "ast", "asyncio/base_events", "csv", "dataclasses", "email/message", "heapq", "http/cookies"),
    *("json/encoder", "logging/config", "optparse", "selectors", "shlex", "socketserver", "statistics", "textwrap"),
)
MODULE = "vllm/module.py"

quick = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@cache
def library(name: str) -> bytes:
    return (LIBRARY / f"{name}.py").read_bytes()


@cache
def calls(name: str) -> list[tuple[str, str, int]]:
    """(scope, callee, index of the call in the order of ast.walk) of all calls of a file."""
    source = Source(name, library(name))
    numbers = {id(node): index for index, node in enumerate(ast.walk(source.tree))}
    return [
        (scope, ast.unparse(node.func), numbers[id(node)])
        for scope, found in source.scopes.items()
        for definition in found
        for node, _ in own_nodes(definition)
        if isinstance(node, ast.Call)
    ]


@cache
def statements(name: str) -> list[tuple[str, str, int]]:
    """(scope, statement, its index in the order of ast.walk) of all statements of a file."""
    source = Source(name, library(name))
    numbers = {id(node): index for index, node in enumerate(ast.walk(source.tree))}
    return [
        (scope, ast.unparse(statement), numbers[id(statement)])
        for scope, found in source.scopes.items()
        for definition in found
        for block in bodies(definition)
        for statement in block
    ]


def planned(data: bytes, patches: Callable[..., PatchSet], *edits: dict[str, Any]) -> Plan:
    return plan(OneFile(MODULE, data), patches(a=[{"file": MODULE, **edit} for edit in edits]))


def outcome(found: Plan) -> tuple[str, bytes]:
    (edit,) = found.patches[0].edits
    return edit.state, (found.changes[0].after or b"") if found.changes else b""


# A name that the edits may use without binding it.
VALUE = st.sampled_from(["None", "'ä'", "len(\n    'x',\n)", "(yield_ := 1)", "lambda: 0", "{'a': [1, 2]}"])


@given(
    name=st.sampled_from(FILES), number=st.integers(0, 10_000), value=VALUE, windows=st.booleans(), bom=st.booleans()
)
@quick
def test_a_keyword_is_added_to_the_one_call_that_is_meant_or_the_edit_is_refused(
    name: str, number: int, value: str, windows: bool, bom: bool, patches: Callable[..., PatchSet]
) -> None:
    data = library(name)
    assume(b"\r" not in data)
    if windows:
        data = data.replace(b"\n", b"\r\n")
    if bom:
        data = b"\xef\xbb\xbf" + data
    scope, callee, index = calls(name)[number % len(calls(name))]
    edit = {"op": "call-keyword", "in": scope, "call": callee, "add": {"hallmark": value}}
    state, after = outcome(planned(data, patches, edit))
    if not after:
        assert state in ("drift:ambiguous", "drift:anchor", "drift:syntax")
        return
    assert state == "pending"
    assert data[:3] == after[:3]
    assert after.count(b"\r\n") == (after.count(b"\n") if windows else 0)
    tree = ast.parse(after)
    meant = list(ast.walk(tree))[index]
    assert isinstance(meant, ast.Call)
    assert ast.unparse(meant.func) == callee
    assert meant.keywords.pop().arg == "hallmark"
    assert ast.dump(tree) == ast.dump(ast.parse(data))


PIECES = (
    *(
        b"",
        b"\n",
        b"\\\n",
        b"\\",
        b"(",
        b"))",
        b"[",
        b'"""',
        b"'",
        b"f'{",
        b"#",
        b"# x\n",
        b";",
        b":",
        b"x = 1\n",
        b"    y = 2\n",
    ),
    *(
        b"else:\n    pass\n",
        b"@d\n",
        b"class A:\n    z = 3\n",
        b"        return\n",
        b"async ",
        b"\t",
        b"\x0c",
        b"if 1: pass",
    ),
)


@given(
    name=st.sampled_from(FILES),
    places=st.lists(
        st.tuples(st.integers(0, 10**6), st.integers(0, 90), st.sampled_from(PIECES)), min_size=1, max_size=3
    ),
    at_lines=st.booleans(),
    windows=st.booleans(),
)
@settings(quick, max_examples=100)
def test_parsing_only_what_was_touched_gives_the_tree_of_the_whole(
    name: str, places: list[tuple[int, int, bytes]], at_lines: bool, windows: bool
) -> None:
    data = library(name)
    assume(b"\r" not in data)
    data = data.replace(b"\n", b"\r\n") if windows else data
    old = Source(name, data)
    splices: list[Splice] = []
    for place, length, piece in sorted((place % len(data), length, piece) for place, length, piece in places):
        start = old.line_start(old.line_of(place)) if at_lines else place
        end = (
            old.line_start(old.line_of(min(start + length, len(data)))) if at_lines else min(start + length, len(data))
        )
        if not splices or start >= splices[-1].end:
            splices.append(Splice(start, max(start, end), old.encode(piece.decode())))
    after = b"".join(
        data[before.end if before else 0 : splice.start] + splice.text
        for before, splice in zip([None, *splices], splices, strict=False)
    )
    after += data[splices[-1].end :]
    with quiet():
        try:
            whole = ast.parse(after)
            new = Source(name, after)
        except (SyntaxError, ValueError, Drift):
            return
        found = reparse(old, new, splices)
    assert found is None or ast.dump(found) == ast.dump(whole)


@given(name=st.sampled_from(FILES), number=st.integers(0, 10_000), after=st.booleans(), tabs=st.booleans())
@quick
def test_a_statement_is_inserted_beside_the_one_that_is_meant_or_the_edit_is_refused(
    name: str, number: int, after: bool, tabs: bool, patches: Callable[..., PatchSet]
) -> None:
    data = library(name)
    scope, anchor, index = statements(name)[number % len(statements(name))]
    side = "after" if after else "before"
    code = "hallmark = '''a\n  b'''" if tabs else "if True:\n    hallmark = 1"
    edit = {"op": "insert", "in": scope, side: anchor, "add": code}
    state, result = outcome(planned(data, patches, edit))
    if not result:
        # Before a __future__ import there is no place; a docstring may be the anchor of a class and its function.
        assert state in ("drift:ambiguous", "drift:anchor", "drift:syntax")
        return
    assert state == "pending"
    old, new = ast.parse(data), ast.parse(result)
    meant = list(ast.walk(old))[index]
    block = next(
        block
        for node in ast.walk(old)
        for block in (getattr(node, field, None) for field in ("body", "orelse", "finalbody"))
        if isinstance(block, list) and any(statement is meant for statement in block)
    )
    position = next(number for number, statement in enumerate(block) if statement is meant)
    block.insert(position + after, ast.parse(code).body[0])
    assert ast.dump(old) == ast.dump(new)


@given(
    chosen=st.lists(st.tuples(st.sampled_from(FILES), st.integers(0, 10_000)), min_size=1, max_size=6),
    overlays=st.sets(st.sampled_from(["vllm/new.py", "vllm/new/deep/one.py", "vllm/new/deep/two.py"])),
)
@settings(quick, max_examples=15)
def test_applying_twice_changes_nothing_and_undoing_brings_everything_back(
    chosen: list[tuple[str, int]],
    overlays: set[str],
    tmp_path_factory: pytest.TempPathFactory,
    site: Callable[..., Path],
    patches: Callable[..., PatchSet],
    snapshot: Callable[[Path], object],
    applied: Callable[[Path, PatchSet], list[str]],
    undone: Callable[[Path], list[str]],
) -> None:
    root = site({f"vllm/{name}.py": library(name) for name in FILES}, name=str(tmp_path_factory.mktemp("site")))
    edits: list[dict[str, Any]] = []
    for name, number in chosen:
        scope, callee, _ = calls(name)[number % len(calls(name))]
        edits.append({"op": "call-keyword", "file": f"vllm/{name}.py", "in": scope, "call": callee})
        edits[-1]["add"] = {f"hallmark_{len(edits)}": "None"}
    edits += [{"op": "overlay", "file": file, "content": "VALUE = 1\n"} for file in overlays]
    # Only the edits that are not refused are of interest, each a patch of its own.
    alone = {f"p{index}": [edit] for index, edit in enumerate(edits)}
    first = plan(Tree(root), patches(root, **alone))
    good = {patch.id: alone[patch.id] for patch in first.patches if patch.state == "pending"}
    assume(good)
    patchset = patches(root, **good)
    before = snapshot(root)
    written = applied(root, patchset)
    assert written == sorted({edit["file"] for edits in good.values() for edit in edits})
    after = snapshot(root)
    assert applied(root, patchset) == []
    assert snapshot(root) == after
    assert undone(root) == written
    assert snapshot(root) == before
    assert undone(root) == []
