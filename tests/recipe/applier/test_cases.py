"""Every file of tests/cases/patch: what an edit makes of a file, or why it is refused.

A case has `before` (with `bytes: [crlf, bom]` for what YAML does not show) and either `edits` of one patch or
`patches`; then `after`, or `drift` with kind, a part of the message and the nearest candidate, or `states`, or `wrong`:
what is said of a patch whose own code is none.
`released` are the states where a release that has `after` is not simply upstreamed.
"""

import base64
import hashlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from recipe.applier import commit
from recipe.applier.patchset import PatchSet
from recipe.applier.plan import plan
from recipe.applier.states import EditPlan, Plan, refusal
from recipe.applier.tree import Tree
from recipe.catalogue import compile as catalogue
from recipe.errors import ConfigError

CASES = Path(__file__).resolve().parents[2] / "cases" / "patch"
FILE = "vllm/module.py"


def cases() -> list[Any]:
    paths = [path for path in sorted(CASES.glob("*/*.yaml")) if path.parent.name != "broken"]
    return [pytest.param(path, id=f"{path.parent.name}-{path.stem}") for path in paths]


class Case:
    def __init__(self, path: Path, folder: Path) -> None:
        self.data: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        known = {
            *("says", "file", "bytes", "before", "before-base64", "edits", "patches", "pristine", "independent"),
            *("class", "after", "drift", "states", "refused", "released", "wrong"),
        }
        assert set(self.data) <= known
        self.file: str = self.data.get("file", FILE)
        self.patches: dict[str, list[dict[str, Any]]] = self.data.get("patches") or {"patch": self.data["edits"]}
        self.before = self._bytes("before")
        if "before-base64" in self.data:
            self.before = base64.b64decode(self.data["before-base64"])
        self.after = self._bytes("after")
        self.folder = folder

    def _bytes(self, key: str) -> bytes | None:
        if key not in self.data:
            return None
        data: bytes = self.data[key].encode()
        form = self.data.get("bytes", [])
        assert set(form) <= {"crlf", "bom"}
        if "crlf" in form:
            data = data.replace(b"\n", b"\r\n")
        return b"\xef\xbb\xbf" + data if "bom" in form else data

    def patchset(self, released: bytes | None) -> PatchSet:
        """The patches as patch files, compiled; `released` is what the file is in the release, if anything."""
        compiled = []
        for id, edits in self.patches.items():
            document = {
                "id": id,
                "title": id,
                "class": self.data.get("class", "local"),
                "why": "a case",
                "upstream": {"none": "a case", "status": "none", "checked": "2026-12-01"},
                "remove-when": "never",
                "independent": self.data.get("independent", False),
                "edits": [self._edit(f"{id}-{index}", edit) for index, edit in enumerate(edits)],
            }
            path = self.folder / f"{id}.yaml"
            path.write_text(yaml.safe_dump(document, allow_unicode=True, sort_keys=False), encoding="utf-8")
            compiled.append(catalogue._compile(catalogue.load_patch(path), True, "0.33.0"))
        baseline = {} if released is None else {self.file: [hashlib.sha256(released).hexdigest()]}
        return PatchSet({"schema": 1, "vllm": "0.33.0", "patches": compiled, "baseline": baseline})

    def _edit(self, name: str, edit: dict[str, Any]) -> dict[str, Any]:
        edit = {"file": self.file, "when": ">=0.33.0", **edit}
        if "content" in edit:
            (self.folder / name).write_bytes(edit.pop("content").encode())
            edit["source"] = f"./{name}"
        return edit

    def drifts(self, planned: Plan) -> Iterator[tuple[str, EditPlan]]:
        for patch in planned.patches:
            yield from ((patch.id, edit) for edit in patch.edits if edit.state.startswith("drift:"))


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    folder = tmp_path / "patches"
    folder.mkdir()
    return Case(request.param, folder)


@pytest.mark.parametrize("case", cases(), indirect=True)
def test_a_case_comes_out_as_it_says(case: Case, site: Callable[..., Path]) -> None:
    root = site({} if case.before is None else {case.file: case.before})
    released = case.before if case.data.get("pristine", True) else None
    if "wrong" in case.data:
        with pytest.raises(ConfigError, match=re.escape(case.data["wrong"])):
            case.patchset(released)
        return
    planned = plan(Tree(root), case.patchset(released))
    expected = case.data.get("drift", [])
    found = [
        {
            "patch": id,
            "kind": edit.state.removeprefix("drift:"),
            "message": edit.message,
            "nearest": nearest(edit),
        }
        for id, edit in case.drifts(planned)
    ]
    assert len(found) == len(expected), found
    for drift, wanted in zip(found, expected, strict=True):
        assert wanted["message"] in str(drift["message"])
        assert drift == {"patch": "patch", "nearest": drift["nearest"], **wanted, "message": drift["message"]}
    states = {patch.id: patch.state for patch in planned.patches}
    if case.after is not None:
        assert set(states.values()) == {"pending"}, refusal(planned.problems())
        (change,) = planned.changes
        assert (change.after or b"").decode() == case.after.decode()
    for id, state in case.data.get("states", {}).items():
        assert states[id] == state
    assert case.data.get("refused", "") in "\n".join(refusal(planned.problems()))
    assert bool(planned.problems()) == bool(
        expected or case.data.get("refused") or set(states.values()) & {"upstreamed", "not-applicable"} - met(case)
    )


def met(case: Case) -> set[str]:
    return {"upstreamed"} if case.data.get("class") == "expectation" else set()


def nearest(edit: EditPlan) -> str | None:
    if edit.nearest is None:
        return None
    if edit.nearest.file is not None:
        return edit.nearest.file
    return f"{edit.nearest.line}: {edit.nearest.where}: {edit.nearest.text}"


AFTER = [case for case in cases() if "after" in yaml.safe_load(case.values[0].read_text(encoding="utf-8"))]


@pytest.mark.parametrize("case", AFTER, indirect=True)
def test_what_is_applied_is_applied_once_and_undone_to_the_byte(
    case: Case,
    site: Callable[..., Path],
    snapshot: Callable[[Path], object],
    applied: Callable[[Path, PatchSet], list[str]],
    undone: Callable[[Path], list[str]],
) -> None:
    root = site({} if case.before is None else {case.file: case.before})
    before = snapshot(root)
    patchset = case.patchset(case.before)
    assert applied(root, patchset) == [case.file]
    assert (root / case.file).read_bytes() == case.after
    assert commit.verify(Tree(root)) == []
    after = snapshot(root)
    assert applied(root, patchset) == []
    assert {patch.state for patch in plan(Tree(root), patchset).patches} == {"applied"}
    # The states are those of a full plan too, not only those of the manifest.
    changed = PatchSet({**patchset.document, "baseline": {**patchset.document["baseline"], "vllm/x": ["0"]}})
    again = plan(Tree(root), changed)
    assert ({patch.state for patch in again.patches}, again.changes) == ({"applied"}, [])
    assert snapshot(root) == after
    assert undone(root) == [case.file]
    assert snapshot(root) == before


@pytest.mark.parametrize("case", AFTER, indirect=True)
def test_what_is_there_already_is_upstreamed_in_a_release_and_unknown_elsewhere(
    case: Case, site: Callable[..., Path]
) -> None:
    assert case.after is not None
    tree = Tree(site({case.file: case.after}))
    states = {patch.id: patch.state for patch in plan(tree, case.patchset(case.after)).patches}
    assert states == dict.fromkeys(states, "upstreamed") | case.data.get("released", {})
    planned = plan(tree, case.patchset(None))
    states = {patch.id: patch.state for patch in planned.patches}
    assert all(state in ("already-unknown", case.data.get("released", {}).get(id)) for id, state in states.items())
    assert planned.changes == []
    assert len(planned.problems()) == sum(map(len, case.patches.values()))
