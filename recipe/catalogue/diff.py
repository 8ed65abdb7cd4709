"""The changes of a plan as a unified diff that `git apply` accepts."""

import difflib

from recipe.applier.states import Change, Plan


def unified(plan: Plan) -> str:
    """All files that the plan would write, sorted, with `a/` and `b/` before their paths."""
    return "".join(_file(change) for change in sorted(plan.changes, key=lambda change: change.file))


def _file(change: Change) -> str:
    old, new = (_lines(data) for data in (change.current, change.after))
    header = f"diff --git a/{change.file} b/{change.file}\n"
    if change.current is None:
        header += "new file mode 100644\n"
    if change.after is None:
        header += "deleted file mode 100644\n"
    names = (
        "/dev/null" if change.current is None else f"a/{change.file}",
        "/dev/null" if change.after is None else f"b/{change.file}",
    )
    out = header
    for line in difflib.unified_diff(old, new, *names):
        out += line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
    return out


def _lines(data: bytes | None) -> list[str]:
    # Only \n ends a line of a diff: a form feed or \x85 inside a line must not.
    text = (data or b"").decode("utf-8")
    return [line + "\n" for line in text.split("\n")[:-1]] + (
        [text.rsplit("\n", 1)[-1]] if text and text[-1] != "\n" else []
    )
