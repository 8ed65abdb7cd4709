"""Random call sites of a release, the edit that an author would write for each, and the judge of where it went.

The judge has a walk over the tree of its own: it shares no code with the engine that it judges.
"""

import ast
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from recipe.applier.errors import Drift
from recipe.applier.ops import operation
from recipe.applier.ops.base import add_element
from recipe.applier.source import Source
from recipe.applier.tree import Sources

PROBE = "hallmark_probe"
_PROBE = f"{PROBE}=None"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Call = tuple[str, ast.Call]


@dataclass(frozen=True)
class Site:
    """One sampled call of the old release: the definition around it, its callee and the whole call as normalised
    source, where its text starts in the file `old`, and how long that is; `changed` is the file with the probe in it.

    `spec` is the edit that adds the probe; None when the operations cannot tell this call from another one.
    """

    file: str
    where: str
    callee: str
    whole: str
    start: int
    length: int
    old: bytes
    changed: bytes
    spec: dict[str, Any] | None

    @property
    def texts(self) -> tuple[bytes, bytes]:
        """The call's own text without and with the probe."""
        grown = self.length + len(self.changed) - len(self.old)
        return self.old[self.start : self.start + self.length], self.changed[self.start : self.start + grown]


def sample(old: Sources, new: Sources, count: int, seed: int) -> list[Site]:
    """`count` random calls with a keyword outside of f-strings, in files that both releases have and that differ."""
    there = set(new.files())
    population: list[tuple[str, int]] = []
    known: dict[str, tuple[bytes, list[Call]]] = {}
    for file in sorted(set(old.files()) & there):
        if not file.endswith(".py"):
            continue
        data = old.read(file)
        if data is not None and data != new.read(file):
            found = [(where, node) for where, node in calls(data) if node.keywords]
            known[file] = (data, found)
            population += [(file, index) for index in range(len(found))]
    chosen = random.Random(seed).sample(population, min(count, len(population)))
    sources = {file: Source(file, known[file][0]) for file, _ in chosen}
    return [_site(sources[file], known[file][1][index]) for file, index in chosen]


def calls(data: bytes) -> list[Call]:
    """(qualified name of the definition around it, call) of every call of a file that is not in an f-string."""
    return list(_walk(ast.parse(data), ""))


def judge(site: Site, before: Sequence[Call], after: bytes | None) -> str:
    """Where an edit went: `refused`, `right`, `sibling` (another call of this callee in this function, although the
    very call is there too), `wrong` (another function or callee), or `broken` (no Python, or not one probe).

    `before` are the calls of the new release's file.
    """
    if after is None:
        return "refused"
    try:
        probed = [(where, node) for where, node in calls(after) if any(word.arg == PROBE for word in node.keywords)]
    except SyntaxError:
        return "broken"
    if len(probed) != 1:
        return "broken"
    where, node = probed[0]
    if where != site.where or ast.unparse(node.func) != site.callee:
        return "wrong"
    node.keywords = [word for word in node.keywords if word.arg != PROBE]
    exact = any(ast.unparse(other) == site.whole for other in targets(site, before))
    return "sibling" if exact and ast.unparse(node) != site.whole else "right"


def targets(site: Site, before: Sequence[Call]) -> list[ast.Call]:
    """The calls of the new release that have the site's function and callee."""
    return [node for where, node in before if where == site.where and ast.unparse(node.func) == site.callee]


def _walk(node: ast.AST, where: str) -> Iterator[Call]:
    if isinstance(node, ast.JoinedStr):
        return
    if isinstance(node, ast.Call):
        yield where or "<module>", node
    for name, value in ast.iter_fields(node):
        inner = f"{where}.{node.name}".lstrip(".") if isinstance(node, _SCOPES) and name == "body" else where
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _walk(child, inner)


def _site(source: Source, call: Call) -> Site:
    where, node = call
    file, data = source.path, source.data
    start, end = source.span(node)
    last: Any = max([*node.args, *node.keywords], key=lambda each: source.span(each)[1])
    splice = add_element(source, source.span(last)[0], source.span(getattr(last, "value", last))[1], end - 1, _PROBE)
    changed = data[: splice.start] + splice.text + data[splice.end :]
    specs = _specs(file, where, node, _statement(source, (start, end)))
    return Site(
        file=file,
        where=where,
        callee=ast.unparse(node.func),
        whole=ast.unparse(node),
        start=start,
        length=end - start,
        old=data,
        changed=changed,
        spec=next(
            (
                spec
                for spec, whole in specs
                if _names(spec, source, _place(source, whole) or (splice.start, splice.end))
            ),
            None,
        ),
    )


def _statement(source: Source, call: tuple[int, int]) -> ast.stmt | None:
    """The statement around a call; None when it has statements inside itself."""
    first = source.line_of(call[0])
    around = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.stmt)
        and first <= (node.end_lineno or 0)
        and (node.lineno <= first or hasattr(node, "decorator_list"))
        and source.span(node)[0] <= call[0]
        and call[1] <= source.span(node)[1]
    ]
    inner = min(around, key=lambda node: source.span(node)[1] - source.span(node)[0])
    return None if hasattr(inner, "body") else inner


def _specs(file: str, where: str, node: ast.Call, around: ast.stmt | None) -> Iterator[tuple[dict[str, Any], Any]]:
    """What an author would try, the plainest first: function and callee; arguments to tell calls apart; the call as
    a whole; the statement around it. Beside each the node that it replaces as a whole, or None."""
    edit = {"op": "call-keyword", "file": file, "in": where, "call": ast.unparse(node.func), "add": {PROBE: "None"}}
    words = {word.arg: ast.unparse(word.value) for word in node.keywords if word.arg is not None}
    yield edit, None
    for name, value in words.items():
        yield {**edit, "where": {name: value}}, None
    yield {**edit, "where": words}, None
    call = ast.unparse(node)
    for whole in (node, around):
        # A statement with the very call twice is no help.
        if whole is not None and (old := ast.unparse(whole)).count(call) == 1:
            new = old.replace(call, f"{call[:-1]}, {_PROBE})")
            yield {"op": "replace", "file": file, "in": where, "old": old, "new": new}, whole


def _place(source: Source, whole: Any) -> tuple[int, int] | None:
    return None if whole is None else source.span(whole)


def _names(spec: dict[str, Any], source: Source, place: tuple[int, int]) -> bool:
    """Whether the edit finds the place in the old release, and no other one."""
    try:
        (found,) = operation(spec).edit(source).splices
    except Drift:
        return False
    return (found.start, found.end) == place
